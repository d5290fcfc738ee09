"""Shortest completions of open containers: how they are searched for and remembered.

A completion is the rest of a container with its closing bracket. A byte is allowed only if a
completion of all open containers is known, so no mask leads into a dead end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from cachetools import LRUCache

from guided.json_schema.formulas.assertions import ItemCount, Items
from guided.json_schema.formulas.formula import TRUE, Formula, evaluate
from guided.json_schema.machine import arrays
from guided.json_schema.machine.array_completions import ArrayCompletion
from guided.json_schema.machine.arrays import ArrayRules
from guided.json_schema.machine.object_completions import ObjectCompletion
from guided.json_schema.machine.objects import ObjectRules
from guided.json_schema.machine.search import Literals, Searches, satisfy
from guided.json_schema.machine.stacks import (
    ArrayFrame,
    Frame,
    ObjectFrame,
    Pending,
    Stacks,
    is_sure,
)
from guided.json_schema.machine.truth_vectors import MAX_ENUMERATED_ASKS, TruthVectors

__all__ = ["ContainerCompletions", "items_of"]

MAX_WAYS: Final = 8
"""Completions searched for to learn which items may come next."""
MAX_KEPT_BYTES: Final = 4 * 2**20
"""Memory for completions, in bytes."""
_DECODER: Final = json.JSONDecoder()


class ContainerCompletions:
    """What completes the containers of one grammar.

    A container whose own formulas need not all hold is completed so that its parent accepts it.
    ``accepted`` returns the truth vectors that the parent accepts, and in turn needs completions of
    the parent: each step leads one level out, so it ends at the root.
    """

    def __init__(
        self,
        truths: TruthVectors,
        objects: ObjectRules,
        arrays: ArrayRules,
        stacks: Stacks,
        searches: Searches,
    ) -> None:
        self.truths: Final = truths
        self.objects: Final = objects
        self.arrays: Final = arrays
        self.values: Final = truths.values
        self.stacks: Final = stacks
        self.searches: Final = searches
        self.accepted: Callable[[int], tuple[int, ...]] = lambda _: ()
        """The truth vectors of a value that its stack accepts; set by ``AwaitedValues``."""
        self.hints: Final[dict[int, int]] = {}
        """The truth vector of a value that is known to leave a completion, by stack."""
        # All that matters about the surroundings of a container is what it has to fit, ``want``.
        self._known: LRUCache[tuple[Frame, Formula], bytes] = LRUCache(MAX_KEPT_BYTES, len)
        self._exists: dict[tuple[Frame, Formula], bool] = {}
        """Whether a completion was found, by the same keys as ``_known``.

        Kept when the text is forgotten: a second search, with other fuel, might fail.
        """
        self._next_items: LRUCache[ArrayFrame, tuple[bytes, bytes]] = LRUCache(
            MAX_KEPT_BYTES, lambda texts: sum(map(len, texts))
        )
        """For an array after an item has begun: that item in a completion, and what follows it."""
        self._unlikely: set[int] = set()
        """Stacks in which something may be missed; each counts once."""

    def shortest(self, stack: int) -> bytes:
        """Return what completes the container of a stack, with its closing bracket.

        Only for stacks that a machine has entered, which have a completion (``can_end``).
        """
        frame = self.stacks.frames[stack]
        text = self.shortest_of_frame(frame, self.stacks.parents[stack])
        assert text is not None, frame
        return text

    def can_end(self, frame: Frame, parent: int) -> bool:
        """Return whether something completes a container in ``parent``, as far as searches find.

        Results are kept by frame and ``want``, so the result is always the same, unless ``inherit``
        brings a completion that no search found.
        """
        assert not isinstance(frame, Pending)
        key = (frame, self.want(frame, parent))
        found = self._exists.get(key)
        if found is None:
            found = self._exists[key] = self.shortest_of_frame(frame, parent) is not None
        # The result is kept by frame and want, but what may be missed is counted by parent: so a
        # refusal is noted each time, even a remembered one.
        if not found and not frame.must:
            self.note_unlikely(parent)
        return found

    def shortest_of_frame(self, frame: Frame, parent: int) -> bytes | None:
        """Return what completes a container inside ``parent``, ``None`` if nothing was found.

        Results are kept by frame and ``want``, except for very long ones. ``can_end`` keeps the
        result that nothing was found; then no further search is made.
        """
        assert not isinstance(frame, Pending)
        want = self.want(frame, parent)
        key = (frame, want)
        found = self._known.get(key)
        if found is None and self._exists.get(key) is not False:
            incomplete = self.searches.incomplete
            found = self._search_end(frame, want)
            # The search gave up on all accepted truth vectors together. One alone is a smaller
            # formula, so each is tried separately.
            if found is None and not frame.must and self.searches.incomplete > incomplete:
                found = self._end_by_truth(frame, parent)
            if found is not None and len(found) < MAX_KEPT_BYTES // 16:
                self._known[key] = found
        return found

    def _end_by_truth(self, frame: ObjectFrame | ArrayFrame, parent: int) -> bytes | None:
        """Return what the search finds for one truth vector where it gives up on all together.

        Tries those that ``parent`` accepts, a known one (``hints``) first; ``None`` for nothing.
        """
        hint = self.hints.get(parent)
        for truth in sorted(self.accepted(parent), key=lambda truth: truth != hint):
            found = self._search_end(frame, self.truths.as_formula(frame.goals, (truth,)))
            if found is not None:
                return found
        return None

    def want(self, frame: ObjectFrame | ArrayFrame, parent: int) -> Formula:
        """Return what the container has to fit when it closes, so that its parent accepts it."""
        if frame.must:
            return frame.goals[0]
        return self.truths.as_formula(frame.goals, self.accepted(parent))

    def _search_end(self, frame: ObjectFrame | ArrayFrame, want: Formula) -> bytes | None:
        """Return what makes a container fit ``want``, with its closing bracket.

        ``None`` if nothing does, or if the search gave up, which ``searches.incomplete``
        counts: ``end_of`` compares that. Nothing is kept here.

        If it fits as it is, it closes. Otherwise ``satisfy`` chooses which assertions have to hold,
        and the search for members or items tries to make them hold.
        """

        def realise(literals: Literals) -> bytes | None:
            if isinstance(frame, ObjectFrame):
                return ObjectCompletion(self.objects, frame, literals).text()
            return ArrayCompletion(self.truths.restriction, self.values, frame, literals).text()

        if self._fits_at_its_end(frame, want):
            return b"}" if isinstance(frame, ObjectFrame) else b"]"
        return satisfy(want, self.truths.formulas, realise, self.searches)

    def _fits_at_its_end(self, frame: ObjectFrame | ArrayFrame, want: Formula) -> bool:
        if isinstance(frame, ObjectFrame):
            return evaluate(want, self.objects.at_the_end(frame))
        return evaluate(want, arrays.at_the_end)

    def shortest_object(self, formula: Formula) -> bytes | None:
        """Return a short object that fits a formula."""
        frame = self.objects.open((formula,), must=True)
        text = self._search_end(frame, frame.goals[0])
        return None if text is None else b"{" + text

    def shortest_array(self, formula: Formula) -> bytes | None:
        """Return a short array that fits a formula."""
        frame = self.arrays.open((formula,), must=True)
        text = self._search_end(frame, frame.goals[0])
        return None if text is None else b"[" + text

    def note_unlikely(self, stack: int) -> None:
        """Count a stack in which something may be missed: only likely truth vectors were tried.

        Only if there are too many asks to try every truth vector.
        """
        pending = self.stacks.frames[stack]
        assert isinstance(pending, Pending), pending
        many = len(pending.asks) > MAX_ENUMERATED_ASKS and not is_sure(pending)
        if many and stack not in self._unlikely:
            self._unlikely.add(stack)
            self.searches.incomplete += 1

    # --- what is left of a longer completion ----------------------------------------------

    def note_next_item(self, frame: ArrayFrame, pending: Pending) -> None:
        """Keep the first item of the known completion, and what follows it.

        ``pending`` is that of the next item of ``frame``; its frame is the key. Only if the goal
        of the array is all that it has to fit (``must``), which is then the key of ``_known``.
        """
        end = self._known.get((frame, frame.goals[0])) if frame.must else None
        if end is not None and end != b"]":
            assert isinstance(pending.frame, ArrayFrame)
            self._next_items[pending.frame] = first_item(end)

    def inherit_by_truth(self, pending: Pending, frame: ArrayFrame, truth: int) -> None:
        """Take over what completes an array after an item, from a completion with such an item.

        ``truth`` is the truth vector of the item. Does nothing where no such completion is noted:
        then ``can_end`` searches.
        """
        assert isinstance(pending.frame, ArrayFrame)
        noted = self._next_items.get(pending.frame)
        if noted is None or not frame.must:
            return
        first, rest = noted
        # If no truth vector and no text of an item matters, all that fit leave the same array.
        matters = pending.remembers or bool(pending.links)
        if not matters or first == self.values.text(self.truths.as_formula(pending.asks, (truth,))):
            self.inherit(frame, rest)

    def next_items(self, stack: int, formula: Formula) -> Formula:
        """Return the next items of an array that leave a completion and fit ``formula``.

        Each completion found shows which items may stand in its first place, and the next one must
        have another item there. After ``MAX_WAYS`` of them more may be missed, which is counted.
        """
        frame = self.stacks.frames[stack]
        assert isinstance(frame, ArrayFrame), frame
        formulas = self.truths.formulas
        want = self.want(frame, self.stacks.parents[stack])
        one_item = formulas.leaf(ItemCount(1, None))

        def realise(literals: Literals) -> list[Formula] | None:
            return ArrayCompletion(
                self.truths.restriction, self.values, frame, literals
            ).item_formulas()

        found: list[Formula] = []
        for _ in range(MAX_WAYS):
            other = formulas.all_of([formula, *map(formulas.negate, found)])
            first = formulas.leaf(Items((other,), TRUE))
            goal = formulas.all_of([want, one_item, first])
            items = satisfy(goal, formulas, realise, self.searches)
            if items is None:
                return formulas.any_of(found)
            found.append(items[0])
        self.searches.incomplete += 1
        return formulas.any_of(found)

    def noted_item(self, frame: ArrayFrame) -> tuple[bytes, bytes] | None:
        """Return the next item in a known completion, and what follows it there."""
        return self._next_items.get(frame)

    def inherit(self, frame: ArrayFrame, rest: bytes) -> None:
        """Take over ``rest`` as what completes an array, known from a longer completion.

        ``rest`` is not checked: it has to complete the array as it is. Only for arrays with
        ``must``, whose ``want`` is only the goal.
        """
        key = (frame, frame.goals[0])
        # Also where a search has failed before: this is what it did not find.
        if frame.must and not self._exists.get(key):
            self._exists[key] = True
            self._known[key] = rest


def first_item(end: bytes) -> tuple[bytes, bytes]:
    """Return the first of the items that complete an array, and what follows it.

    ``end`` has at least one item, and begins with a comma if others came before it; what follows
    begins with a comma or the bracket.
    """
    text = end.decode()
    start = int(text[0] == ",")
    _, after = _DECODER.raw_decode(text, start)
    return text[start:after].encode(), text[after:].encode()


def items_of(end: bytes) -> Iterator[bytes]:
    """Yield all items that complete an array."""
    while end != b"]":
        first, end = first_item(end)
        yield first
