"""Values that are awaited: which of them leave a completion of everything around them."""

from __future__ import annotations

from typing import Final

from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.formulas.formula import FALSE, Formula
from guided.json_schema.formulas.values import Json, formula_of_value
from guided.json_schema.machine.container_completions import ContainerCompletions
from guided.json_schema.machine.stacks import (
    ArrayFrame,
    AwaitedValue,
    Frame,
    ObjectFrame,
    accepts_any_fitting,
)
from guided.json_schema.machine.truth_vectors import TruthVectors

__all__ = ["ValueStacks"]

_ONLY_FITTING: Final = (1,)
"""The truth vectors accepted where ``accepts_any_fitting``: there is one formula, which holds."""
_TYPE_BY_BRACKET: Final = {ord("{"): JsonType.OBJECT, ord("["): JsonType.ARRAY}
MAX_JOINED_VECTORS: Final = 64
"""With more accepted truth vectors than this, ``short_value`` tries them one by one."""


class ValueStacks:
    """The stacks in which a value is awaited, and the moves into and out of containers.

    A truth vector is *accepted* in a stack if a completion follows a value that has it. Results are
    cached by stack and final, except for stacks that ``enter_by_value`` gives a hint for. ``None``
    and ``False`` may mean that a search gave up: ``Searches`` counts that, and such texts are left
    out of the language.
    """

    def __init__(self, vectors: TruthVectors, completions: ContainerCompletions) -> None:
        self.vectors: Final = vectors
        self.values: Final = vectors.values
        self.completions: Final = completions
        self.objects: Final = completions.objects
        self.arrays: Final = completions.arrays
        self.stacks: Final = completions.stacks
        self.searches: Final = completions.searches
        # ``completions`` calls this for the containers around one, further and further out.
        completions.accepted_vectors = self.accepted_vectors
        self._accepted_vectors: dict[int, tuple[int, ...]] = {}
        """The accepted truth vectors among the possible ones, by stack."""
        self._accepts: dict[tuple[int, int], bool] = {}
        """The results of ``accepts``, by stack and truth vector."""
        self._short_values: dict[int, bytes] = {}
        """The results of ``short_value`` by stack."""
        self._has_completion: dict[int, bool] = {}
        """The results of ``has_completion`` by stack."""
        self._closing_vectors: dict[int, int] = {}
        """The truth vector of a container that closes, by its stack."""

    # --- moves ----------------------------------------------------------------------------

    def open(self, stack: int, kind: JsonType) -> int | None:
        """Return the stack of a container that opens where a value is awaited.

        ``kind`` is OBJECT or ARRAY. ``None`` if no completion of it was found. The container has
        the formulas of the value, so its truth vector is that of the value.
        """
        awaited = self.awaited_value(stack)
        # With one formula that must hold there is one goal to reach, which keeps frames equal.
        required = awaited.required and len(awaited.formulas) == 1
        frame = (
            self.objects.open(awaited.formulas, required=required)
            if kind is JsonType.OBJECT
            else self.arrays.open(awaited.formulas, required=required)
        )
        if not self.completions.can_complete(frame, stack):
            return None
        return self.stacks.enter(frame, stack)

    def finish_value(self, stack: int, truth_vector: int, text: bytes | None = None) -> int | None:
        """Return the stack after a value; not for the value of the whole document.

        ``None`` if the value does not fit, or nothing completes its container after it. ``text`` is
        as for ``ArrayRules.finish_item``.
        """
        awaited = self.awaited_value(stack)
        parent = self.stacks.parents[stack]
        frame: Frame | None
        if isinstance(awaited.frame, ObjectFrame):
            frame = self.objects.finish_value(awaited, truth_vector)
        else:
            frame = self.arrays.finish_item(awaited, truth_vector, text)
        if frame is None or not (
            awaited.always_completable or self.completions.can_complete(frame, parent)
        ):
            return None
        return self.stacks.enter(frame, parent)

    def closing_vector(self, stack: int) -> int:
        """Return the truth vector of a container if it closes here, even if it may not."""
        found = self._closing_vectors.get(stack)
        if found is None:
            frame = self.stacks.frames[stack]
            if isinstance(frame, ObjectFrame):
                found = self.objects.closing_vector(frame)
            else:
                assert isinstance(frame, ArrayFrame), frame
                found = self.arrays.closing_vector(frame)
            self._closing_vectors[stack] = found
        return found

    def may_close(self, stack: int) -> bool:
        """Return whether a container may close."""
        parent = self.stacks.parents[stack]
        return self.accepts(parent, self.closing_vector(stack))

    # --- stacks in which a value is awaited -----------------------------------------------

    def enter(self, stack: int, awaited: AwaitedValue | None) -> int | None:
        """Return the stack in which a value is awaited in the container of ``stack``.

        ``awaited``, which holds the container's frame, takes its place in the stack. ``None`` if
        ``awaited`` is ``None`` (no value may stand there), or if no value is known after which the
        document can be completed.
        """
        if awaited is None:
            return None
        inner = self.stacks.enter(awaited, self.stacks.parents[stack])
        return inner if self.has_completion(inner) else None

    def enter_by_value(self, stack: int, awaited: AwaitedValue, value: Json) -> int | None:
        """Like ``enter``, where a search has found a value after which there is a completion.

        Its truth vector may be none of the likely ones: it is stored as a hint, and results found
        without it are dropped. ``None`` if even so no value is found that can be written here.
        """
        inner = self.stacks.enter(awaited, self.stacks.parents[stack])
        truth_vector = self.vectors.of_value(awaited.formulas, value)
        self.completions.hints[inner] = truth_vector
        # ``_accepts`` stays: a hint only adds a truth vector to those that are tried.
        for cache in (self._has_completion, self._accepted_vectors, self._short_values):
            cache.pop(inner, None)
        return inner if self.has_completion(inner) else None

    def enter_only_value(self, stack: int, awaited: AwaitedValue, value: Json) -> int | None:
        """Like ``enter_by_value``, but allow only ``value``; count that others are left out.

        For where other values with the same truth vector may be dead ends.
        """
        self.searches.num_incomplete += 1
        only = self.require_also(awaited, formula_of_value(value, self.vectors.formulas))
        return None if only is None else self.enter_by_value(stack, only, value)

    def require_also(self, awaited: AwaitedValue, also: Formula) -> AwaitedValue | None:
        """Return ``awaited`` with one more formula that the value has to fit.

        ``None`` if no value can fit it. The formula joins the required one. If no formula is
        required, it is put in front, and the indices in ``dependent_assertions`` grow by one. The
        result is not ``always_completable``, so completions are searched for by truth vector.
        """
        formulas, dependent = awaited.formulas, awaited.dependent_assertions
        if awaited.required:
            formulas = (self.vectors.formulas.all_of([formulas[0], also]), *formulas[1:])
        else:
            formulas = (also, *formulas)
            dependent = tuple([(leaf, index + 1) for leaf, index in dependent])
        if formulas[0] is FALSE:
            return None
        return awaited._replace(
            formulas=formulas,
            required=True,
            dependent_assertions=dependent,
            always_completable=False,
        )

    def has_completion(self, stack: int) -> bool:
        """Return whether a completion follows some value; ``False`` also if a search gave up."""
        found = self._has_completion.get(stack)
        if found is None:
            awaited = self.awaited_value(stack)
            # If any value that fits will do, there only has to be one.
            found = (
                self.values.text(awaited.formulas[0]) is not None
                if awaited.always_completable
                else self._find_completion(stack, awaited)
            )
            self._has_completion[stack] = found
        return found

    def _find_completion(self, stack: int, awaited: AwaitedValue) -> bool:
        """Compute ``has_completion``, by truth vector.

        If only likely truth vectors were tried, ``False`` is counted as a possible miss.
        """
        for truth_vector in self.possible_vectors(stack, awaited):
            if self.leaves_completion(stack, truth_vector):
                formula = self.vectors.as_formula(awaited.formulas, (truth_vector,))
                if self._find_text(stack, formula) is not None:
                    return True
        self.completions.count_possible_miss(stack)
        return False

    def _find_text(self, stack: int, formula: Formula) -> bytes | None:
        """Return a text that fits ``formula`` and may be written here; ``None`` if none is found.

        A container may not open if the search for its completion gave up, which looks for all
        accepted truth vectors at once: then a scalar is tried.
        """
        text = self.values.text(formula)
        kind = None if text is None else _TYPE_BY_BRACKET.get(text[0])
        if kind is None or self.open(stack, kind) is not None:
            return text
        return self.values.scalar(formula)

    # --- what may come of a value ---------------------------------------------------------

    def accepts(self, stack: int, truth_vector: int) -> bool:
        """Return whether a completion follows a value with this truth vector.

        Results never change: stack transitions rely on that.
        """
        # Containers have truth vectors that are not among the likely ones.
        key = (stack, truth_vector)
        found = self._accepts.get(key)
        if found is None:
            found = truth_vector in self.accepted_vectors(stack) or self.leaves_completion(
                stack, truth_vector
            )
            self._accepts[key] = found
        return found

    def accepted_vectors(self, stack: int) -> tuple[int, ...]:
        """Return those truth vectors in ``possible_vectors`` that are accepted.

        Where it lists only likely ones, others may be accepted too; ``accepts`` decides each.
        """
        found = self._accepted_vectors.get(stack)
        if found is None:
            awaited = self.awaited_value(stack)
            if accepts_any_fitting(awaited):
                return _ONLY_FITTING
            possible = self.possible_vectors(stack, awaited)
            found = tuple(v for v in possible if self.leaves_completion(stack, v))
            self._accepted_vectors[stack] = found
        return found

    def possible_vectors(self, stack: int, awaited: AwaitedValue) -> list[int]:
        """Return the truth vectors that a value may have: all, or only likely ones of very many.

        Includes the hint for the stack (``ContainerCompletions.hints``). The list may be shared:
        callers must not change it.
        """
        if accepts_any_fitting(awaited):
            return [1]
        likely = self.vectors.possible_vectors(awaited.formulas)
        hint = self.completions.hints.get(stack)
        return likely if hint is None or hint in likely else [*likely, hint]

    def leaves_completion(self, stack: int, truth_vector: int) -> bool:
        """Compute whether the containers around a value with this vector can be completed after it.

        If later items have to differ from the value, an example stands for all values with the
        vector: another one may still be refused for its text (``finish_value``), or be left out
        though it would do. ``accepted_vectors`` and ``accepts`` cache the result.
        """
        awaited = self.awaited_value(stack)
        if accepts_any_fitting(awaited):
            return truth_vector == 1
        if awaited.required and not truth_vector & 1:
            return False
        example = self._example_text(awaited, truth_vector)
        frame = (
            self.objects.finish_value(awaited, truth_vector)
            if isinstance(awaited.frame, ObjectFrame)
            else self.arrays.finish_item(awaited, truth_vector, example)
        )
        if isinstance(frame, ArrayFrame):
            # Before ``can_complete``, whose search may give up where a completion is known.
            self.completions.reuse_completion(awaited, frame, truth_vector)
        parent = self.stacks.parents[stack]
        return frame is not None and self.completions.can_complete(frame, parent)

    def _example_text(self, awaited: AwaitedValue, truth_vector: int) -> bytes | None:
        """Return an item with this truth vector where what follows depends on its text.

        Else ``None``, and also if an earlier item is not known either, or if none was found.
        """
        if not awaited.remembers_text or awaited.has_unknown_item:
            return None
        return self.values.text(self.vectors.as_formula(awaited.formulas, (truth_vector,)))

    def short_value(self, stack: int) -> bytes:
        """Return a short value with an accepted truth vector.

        Only for stacks with a completion (``has_completion``), which was found with a value of one
        accepted truth vector: so one of the searches below finds a value again.
        """
        found = self._short_values.get(stack)
        if found is None:
            formulas, truth_vectors = (
                self.awaited_value(stack).formulas,
                self.accepted_vectors(stack),
            )
            # The formula of all vectors gives the shortest value, but its search may give up where
            # one for a single vector succeeds.
            choices: list[tuple[int, ...]] = [(truth_vector,) for truth_vector in truth_vectors]
            if len(truth_vectors) <= MAX_JOINED_VECTORS:
                choices.insert(0, truth_vectors)
            text: bytes | None = None
            for vectors in choices:
                text = self._find_text(stack, self.vectors.as_formula(formulas, vectors))
                if text is not None:
                    break
            assert text is not None, formulas
            found = self._short_values[stack] = text
        return found

    def awaited_value(self, stack: int) -> AwaitedValue:
        """Return the frame of a stack in which a value is awaited."""
        awaited = self.stacks.frames[stack]
        assert isinstance(awaited, AwaitedValue), awaited
        return awaited
