"""Values that are awaited: which of them leave a completion of everything around them."""

from __future__ import annotations

from typing import Final

from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.formulas.formula import FALSE, Formula
from guided.json_schema.formulas.values import Json, formula_of_value
from guided.json_schema.machine.container_completions import ContainerCompletions
from guided.json_schema.machine.stacks import ArrayFrame, Frame, ObjectFrame, Pending, is_sure
from guided.json_schema.machine.truth_vectors import TruthVectors

__all__ = ["AwaitedValues"]

_FITTING: Final = (1,)
"""The truth vector of a sure value, which has one formula to fulfil and fulfils it."""
_OPENED: Final = {ord("{"): JsonType.OBJECT, ord("["): JsonType.ARRAY}
MAX_TOLD_TRUTHS: Final = 64
"""With more truth vectors than this, any that some value has will do for a short value."""


class AwaitedValues:
    """The stacks in which a value is awaited, and the moves into and out of containers.

    A truth vector is *accepted* in a stack if a value that has it leaves a completion. Results are
    kept by stack and are final, except for stacks that ``enter_by_value`` gives a hint for.
    ``None`` and ``False`` may mean that a search gave up: ``Searches`` counts that, and such texts
    are left out of the language.
    """

    def __init__(self, truths: TruthVectors, ends: ContainerCompletions) -> None:
        self.truths: Final = truths
        self.values: Final = truths.values
        self.ends: Final = ends
        self.objects: Final = ends.objects
        self.arrays: Final = ends.arrays
        self.stacks: Final = ends.stacks
        self.searches: Final = ends.searches
        # ``ends`` calls this for the containers around one, further and further out.
        ends.accepted = self.accepted
        self._accepted: dict[int, tuple[int, ...]] = {}
        """The accepted truth vectors among the possible ones, by stack."""
        self._acceptable: dict[tuple[int, int], bool] = {}
        """By stack and truth vector, whether or not the vector is a likely one."""
        self._short_values: dict[int, bytes] = {}
        self._completable: dict[int, bool] = {}
        """The results of ``has_completion`` by stack."""
        self._closed: dict[int, int] = {}
        """The truth vector of a container that closes, by its stack."""

    # --- moves ----------------------------------------------------------------------------

    def open(self, stack: int, kind: JsonType) -> int | None:
        """Return the stack of a container that opens where a value is awaited.

        ``None`` if nothing completes it, as far as searches find. ``kind`` is OBJECT or ARRAY.
        The container gets the asks of the value, so its truth vector is that of the value.
        """
        pending = self.pending(stack)
        # With one formula that must hold there is one goal to reach, which keeps frames equal.
        must = pending.must and len(pending.asks) == 1
        frame = (
            self.objects.open(pending.asks, must=must)
            if kind is JsonType.OBJECT
            else self.arrays.open(pending.asks, must=must)
        )
        if not self.ends.can_end(frame, stack):
            return None
        return self.stacks.enter(frame, stack)

    def value_done(self, stack: int, truth: int, text: bytes | None = None) -> int | None:
        """Return the stack after a value; not for the value of the whole document.

        ``None`` if the value had to fit better, or nothing completes its container after it.
        ``text`` is as for ``ArrayRules.value_done``.
        """
        pending = self.pending(stack)
        parent = self.stacks.parents[stack]
        frame: Frame | None
        if isinstance(pending.frame, ObjectFrame):
            frame = self.objects.value_done(pending, truth)
        else:
            frame = self.arrays.value_done(pending, truth, text)
        if frame is None or not (pending.sure or self.ends.can_end(frame, parent)):
            return None
        return self.stacks.enter(frame, parent)

    def closed(self, stack: int) -> int:
        """Return the truth vector of a container that closes here.

        Results are kept by stack: only its frame decides it. It is returned even if the container
        may not close.
        """
        found = self._closed.get(stack)
        if found is None:
            frame = self.stacks.frames[stack]
            if isinstance(frame, ObjectFrame):
                found = self.objects.truth(frame)
            else:
                assert isinstance(frame, ArrayFrame), frame
                found = self.arrays.truth(frame)
            self._closed[stack] = found
        return found

    def may_close(self, stack: int) -> bool:
        """Return whether a container may close."""
        parent = self.stacks.parents[stack]
        return self.accepts(parent, self.closed(stack))

    # --- stacks in which a value is awaited -----------------------------------------------

    def enter(self, stack: int, pending: Pending | None) -> int | None:
        """Return the stack that awaits a value if some value leaves a completion; else ``None``.

        ``stack`` is that of the container, and ``pending`` takes its place.
        """
        if pending is None:
            return None
        inner = self.stacks.enter(pending, self.stacks.parents[stack])
        return inner if self.has_completion(inner) else None

    def enter_by_value(self, stack: int, pending: Pending, value: Json) -> int | None:
        """Like ``enter``, where the search knows one value that leaves a completion.

        Its truth vector need not be a likely one: it is kept as a hint, and what was found without
        it is forgotten. ``None`` if even so none is found that can be written here.
        """
        inner = self.stacks.enter(pending, self.stacks.parents[stack])
        truth = self.truths.of_value(pending.asks, value)
        self.ends.hints[inner] = truth
        for known in (self._completable, self._accepted, self._short_values):
            known.pop(inner, None)
        return inner if self.has_completion(inner) else None

    def enter_only_value(self, stack: int, pending: Pending, value: Json) -> int | None:
        """Return the stack of one known value only: others with its vector may be dead ends."""
        self.searches.incomplete += 1
        narrowed = self.narrowed(pending, formula_of_value(value, self.truths.formulas))
        return None if narrowed is None else self.enter_by_value(stack, narrowed, value)

    def narrowed(self, pending: Pending, also: Formula) -> Pending | None:
        """``pending`` with one more formula that the value has to fit; ``None`` if no value can.

        The formula joins the ask that must be fitted, or becomes that ask: then links move up by
        one. The result is not ``sure``, so completions are searched for by truth vector.
        """
        asks, links = pending.asks, pending.links
        if pending.must:
            asks = (self.truths.formulas.all_of([asks[0], also]), *asks[1:])
        else:
            asks = (also, *asks)
            links = tuple([(leaf, number + 1) for leaf, number in links])
        if asks[0] is FALSE:
            return None
        return Pending(pending.frame, asks, True, links, pending.remembers, pending.hazy)

    def has_completion(self, stack: int) -> bool:
        """Return whether some value leaves a completion; the first one found suffices.

        Results are kept by stack until ``enter_by_value`` gives a hint for it. ``False`` may mean
        that a search gave up.
        """
        found = self._completable.get(stack)
        if found is None:
            pending = self.pending(stack)
            # If any value that fits will do, there only has to be one.
            found = (
                self.values.text(pending.asks[0]) is not None
                if pending.sure
                else self._find_completion(stack, pending)
            )
            self._completable[stack] = found
        return found

    def _find_completion(self, stack: int, pending: Pending) -> bool:
        """Return whether some value leaves a completion and can be written, by truth vector.

        If only likely truth vectors were tried, a refusal is counted as a place where something
        may be missed.
        """
        for truth in self.possible(stack, pending):
            if self.leaves_completion(stack, truth):
                wish = self.truths.as_formula(pending.asks, (truth,))
                if self._writable(stack, wish) is not None:
                    return True
        self.ends.note_unlikely(stack)
        return False

    def _writable(self, stack: int, wish: Formula) -> bytes | None:
        """Return a text that fits ``wish`` and can be written where it is awaited, if one is found.

        The search for the end of a container knows all accepted truth vectors at once, and may give
        up on them where it finds a value of one truth vector.
        """
        text = self.values.text(wish)
        kind = None if text is None else _OPENED.get(text[0])
        if kind is None or self.open(stack, kind) is not None:
            return text
        return self.values.scalar(wish)

    # --- what may come of a value ---------------------------------------------------------

    def accepts(self, stack: int, truth: int) -> bool:
        """Return whether a value with this truth vector leaves a completion.

        Results are kept by stack and truth vector, and are final: stack transitions rely on it.
        """
        # Containers have truth vectors that are not among the likely ones.
        key = (stack, truth)
        found = self._acceptable.get(key)
        if found is None:
            found = truth in self.accepted(stack) or self.leaves_completion(stack, truth)
            self._acceptable[key] = found
        return found

    def accepted(self, stack: int) -> tuple[int, ...]:
        """Return the truth vectors in ``possible`` that a value may end with.

        If there are too many to list, others may be accepted too; ``accepts`` decides each.
        """
        found = self._accepted.get(stack)
        if found is None:
            pending = self.pending(stack)
            if is_sure(pending):
                return _FITTING
            possible = self.possible(stack, pending)
            found = tuple(v for v in possible if self.leaves_completion(stack, v))
            self._accepted[stack] = found
        return found

    def possible(self, stack: int, pending: Pending) -> list[int]:
        """Return the truth vectors that a value may have: all, or only likely ones of very many.

        The list may be shared by all stacks with the same asks: it is not to be changed. It
        includes a hint (``ContainerEnds.hints``). A sure value has one ask, which it has to fit:
        1 is its only truth vector.
        """
        if is_sure(pending):
            return [1]
        likely = self.truths.possible(pending.asks)
        hint = self.ends.hints.get(stack)
        return likely if hint is None or hint in likely else [*likely, hint]

    def leaves_completion(self, stack: int, truth: int) -> bool:
        """Return whether the containers around a value with this vector can still be completed.

        If later items have to differ from it, an example stands for all values of the vector.
        Results are kept by ``accepted`` and ``accepts``, not here. A sure value has only one ask,
        so 1 is the truth vector of all that fit; whatever marks a value as sure must guarantee
        that.
        """
        pending = self.pending(stack)
        if is_sure(pending):
            return truth == 1
        if pending.must and not truth & 1:
            return False
        example = self._example(pending, truth)
        frame = (
            self.objects.value_done(pending, truth)
            if isinstance(pending.frame, ObjectFrame)
            else self.arrays.value_done(pending, truth, example)
        )
        if isinstance(frame, ArrayFrame):
            # Before it is needed: a search for what is already known may give up.
            self.ends.inherit_by_truth(pending, frame, truth)
        parent = self.stacks.parents[stack]
        return frame is not None and self.ends.can_end(frame, parent)

    def _example(self, pending: Pending, truth: int) -> bytes | None:
        """Return an item with this truth vector, if others have to differ from it or to repeat it.

        ``None`` if no item needs to be known, if an earlier one is not known either, or if none was
        found.
        """
        if not pending.remembers or pending.hazy:
            return None
        return self.values.text(self.truths.as_formula(pending.asks, (truth,)))

    def short_value(self, stack: int) -> bytes:
        """Return a short value that leaves a completion.

        Only for stacks that a machine has entered. These have a completion that begins with a value
        of an accepted truth vector, and that value was found for the vector alone. So one of the
        searches below finds it again; if ``accepted`` listed vectors without a value, the assertion
        would fail.
        """
        found = self._short_values.get(stack)
        if found is None:
            asks, truths = self.pending(stack).asks, self.accepted(stack)
            # All at once give the shortest, but the search may give up on that formula, which has
            # as many parts as all of them together, where it finds a value of one truth vector.
            wishes: list[tuple[int, ...]] = [(truth,) for truth in truths]
            if len(truths) <= MAX_TOLD_TRUTHS:
                wishes.insert(0, truths)
            text: bytes | None = None
            for wish in wishes:
                text = self._writable(stack, self.truths.as_formula(asks, wish))
                if text is not None:
                    break
            assert text is not None, asks
            found = self._short_values[stack] = text
        return found

    def pending(self, stack: int) -> Pending:
        """Return the frame of a stack in which a value is awaited."""
        pending = self.stacks.frames[stack]
        assert isinstance(pending, Pending), pending
        return pending
