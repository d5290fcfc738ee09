"""Items that may come next in an array, also where they have to differ from each other."""

from __future__ import annotations

import math
from typing import Final

from guided.json_schema.formulas.assertions import ItemCount, Items, JsonType, Unique
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Not, leaves_of, parts_of
from guided.json_schema.formulas.values import formula_of_value, read_value
from guided.json_schema.machine.container_completions import split_items
from guided.json_schema.machine.stacks import ArrayFrame, AwaitedValue
from guided.json_schema.machine.value_stacks import ValueStacks

__all__ = ["NextItems"]

_MAX_VECTORS: Final = 16
"""The most truth vectors of an array that ``_takes_anything`` tries."""


class NextItems:
    """The stacks of items after which an array can be completed.

    ``stack`` is always that of an array between two items, except for ``ignores_text``, which takes
    that of an item.
    """

    def __init__(self, value_stacks: ValueStacks) -> None:
        self.value_stacks: Final = value_stacks
        self.completions: Final = value_stacks.completions
        self.vectors: Final = value_stacks.vectors
        self.arrays: Final = value_stacks.arrays
        self.values: Final = value_stacks.values
        self.stacks: Final = value_stacks.stacks
        self.formulas: Final = value_stacks.vectors.formulas
        self.restriction: Final = value_stacks.vectors.restriction
        self.scalars: Final = value_stacks.vectors.scalars
        self._item_stacks: dict[int, int | None] = {}
        """By the stack of an array between two items, that of its next item."""
        self._anything_taken: dict[int, bool] = {}
        """The results of ``_takes_anything`` by stack."""

    def enter_item(self, stack: int) -> int | None:
        """Return the stack of the next item, ``None`` if no item leaves a completion."""
        if stack not in self._item_stacks:
            self._item_stacks[stack] = self._find_item(stack)
        return self._item_stacks[stack]

    def _find_item(self, stack: int) -> int | None:
        """Compute ``enter_item``."""
        frame = self.stacks.frames[stack]
        assert isinstance(frame, ArrayFrame), frame
        # A bound of the options never leads into a dead end: it ends what can be ended at once.
        if self.arrays.is_full(frame) and self.completions.shortest(stack) == b"]":
            return None
        awaited = expected = self.arrays.expect_item(frame)
        if awaited is not None:
            self.completions.record_next_item(frame, awaited)
        if awaited is not None and awaited.remembers_text and not awaited.always_completable:
            awaited = self._forbid_dead_ends(stack, awaited)  # later items have to differ from it
        item = self.value_stacks.enter(stack, awaited)
        if item is None and expected is not None and not self.value_stacks.may_close(stack):
            # The array must go on, as its known completion does. The truth vector of that item may
            # be none of the likely ones, or the value tried for it, or all that was left of it, a
            # dead end: then only the item itself is allowed.
            value = read_value(b"[" + self.completions.shortest(stack).lstrip(b","))[0]
            if awaited is not None:
                item = self.value_stacks.enter_by_value(stack, awaited, value)
            if item is None:
                item = self.value_stacks.enter_only_value(stack, expected, value)
        return item

    def _forbid_dead_ends(self, stack: int, awaited: AwaitedValue) -> AwaitedValue | None:
        """Forbid the values after which owed items could not differ, or could not repeat one.

        Returns ``awaited`` itself if there are none, ``None`` if no value is left. Completions that
        are found on the way are cached by ``ContainerCompletions``.
        """
        assert isinstance(awaited.frame, ArrayFrame)
        if not awaited.dependent_assertions and _is_uniform(awaited.frame):
            return awaited  # whichever value is written, as many are left that differ from it
        parent = self.stacks.parents[stack]
        more: dict[Formula, None] = {}
        for truth_vector in self.value_stacks.possible_vectors(stack, awaited):
            formula = self.vectors.as_formula(awaited.formulas, (truth_vector,))
            if self.values.text(formula) is None:
                continue
            # A completion after an item with this truth vector whose text is unknown.
            frame = self.arrays.finish_item(awaited, truth_vector, None)
            completion = (
                None if frame is None else self.completions.shortest_of_frame(frame, parent)
            )
            if completion is None and _may_need_repeat(
                self.completions.required_formula(awaited.frame, parent)
            ):
                # Of the values with this vector, only those that a completion follows.
                again = self.completions.completable_items(stack, formula)
                more[self.formulas.any_of([self.formulas.negate(formula), again])] = None
            # Only a value that also occurs in that completion may leave none.
            for text in split_items(completion) if completion is not None else ():
                value = read_value(text)
                if self.vectors.of_value(awaited.formulas, value) == truth_vector:
                    frame = self.arrays.finish_item(awaited, truth_vector, text)
                    recorded = self.completions.recorded_next_item(awaited.frame)
                    if frame is not None and recorded is not None and recorded[0] == text:
                        self.completions.set_completion(frame, recorded[1])
                    if frame is None or not self.completions.can_complete(frame, parent):
                        same = formula_of_value(value, self.formulas)
                        more[self.formulas.negate(same)] = None
        return (
            self.value_stacks.require_also(awaited, self.formulas.all_of(more)) if more else awaited
        )

    def ignores_text(self, stack: int, truth_vector: int, is_string: bool) -> bool:
        """Return whether what may follow an item with a truth vector does not depend on its text.

        An item with another vector is another one. So it is if later items only have to differ from
        it, and values that fit are left for all that are still owed, whatever a token begins the
        next item with. ``is_string`` says that the item is a string; without that it may be any
        scalar that fits. A needless ``False`` only costs time: a mask is then made for each text of
        the item.
        """
        awaited = self.value_stacks.awaited_value(stack)
        assert isinstance(awaited.frame, ArrayFrame), awaited
        if awaited.has_unknown_item:
            return False  # this item may equal the unknown one, which its formulas do not exclude
        if is_string and self._takes_anything(stack):
            return True
        # With this item, the next one and those that are owed after it.
        owed = 2 + _num_owed(awaited.frame)
        return (
            _is_uniform(awaited.frame)
            and not _may_need_repeat(
                self.completions.required_formula(awaited.frame, self.stacks.parents[stack])
            )
            # With the vector 0, values that fit none of the formulas may stand here too.
            and not self.value_stacks.accepts(stack, 0)
            and self._num_left(
                self.vectors.as_formula(awaited.formulas, (truth_vector,)), is_string
            )
            >= owed
        )

    def _takes_anything(self, stack: int) -> bool:
        """Return whether an array may have any items from here on, and close after each of them.

        ``stack`` awaits an item. So it is beside an alternative that asks nothing of the array.
        """
        if stack not in self._anything_taken:
            self._anything_taken[stack] = self._may_take_anything(stack)
        return self._anything_taken[stack]

    def _may_take_anything(self, stack: int) -> bool:
        """Compute ``_takes_anything``: all truth vectors that may still come are accepted."""
        awaited, parent = self.value_stacks.awaited_value(stack), self.stacks.parents[stack]
        assert isinstance(awaited.frame, ArrayFrame), awaited
        # Where an array around this one compares it with others, its text matters as well.
        if awaited.required or awaited.frame.required or self.stacks.num_texts(parent):
            return False
        vectors = [0]
        for bit, goal in enumerate(awaited.frame.goals):
            if goal is not FALSE:
                met = [vector | 1 << bit for vector in vectors]
                vectors = met if goal is TRUE else vectors + met
            if len(vectors) > _MAX_VECTORS:
                return False
        return all(self.value_stacks.accepts(parent, vector) for vector in vectors)

    def _num_left(self, formula: Formula, is_string: bool) -> float:
        """Return how many scalars that fit are left, however a token begins one, at least.

        Only strings count after one that ``is_string``. Infinite if no scalar fits: a container
        does not repeat one. 0, which may be too small, if others than strings fit: with a 0 only
        one integer begins.
        """
        restriction, to = self.restriction, self.restriction.to_type
        strings = to(JsonType.STRING, formula)
        if not is_string and (
            restriction.fits_null(formula)
            or any(restriction.fits_boolean(formula, value) for value in (False, True))
            or to(JsonType.NUMBER, formula) is not FALSE
        ):
            return 0
        return math.inf if strings is FALSE else self.scalars.strings.num_left(strings)


def _num_owed(frame: ArrayFrame) -> int:
    """Return how many more items an array must have, at most."""
    return max(
        (
            leaf.assertion.low
            for leaf in leaves_of(frame.goals)
            if isinstance(leaf.assertion, ItemCount)
        ),
        default=0,
    )


def _is_uniform(frame: ArrayFrame) -> bool:
    """Return whether later items depend on one that fits only by having to differ from it."""
    return all(
        isinstance(leaf.assertion, Unique | ItemCount)
        or (isinstance(leaf.assertion, Items) and not leaf.assertion.prefix)
        for leaf in leaves_of(frame.goals)
    )


def _may_need_repeat(required_formula: Formula) -> bool:
    """Return whether items of an array that has to fit a formula may have to repeat others.

    A needless ``True``, as for a double negation, only costs time.
    """
    worklist = [required_formula]
    while worklist:
        part = worklist.pop()
        if isinstance(part, Not):
            if any(isinstance(leaf.assertion, Unique) for leaf in leaves_of((part,))):
                return True
        else:
            worklist += parts_of(part)
    return False
