"""Items that may come next in an array, including those that have to differ from others."""

from __future__ import annotations

from typing import Final

from guided.json_schema.formulas.assertions import ItemCount, Items, JsonType, Unique
from guided.json_schema.formulas.formula import FALSE, Formula, Not, leaves_of, parts_of
from guided.json_schema.formulas.values import formula_of_value, read_value
from guided.json_schema.machine.awaited_values import AwaitedValues
from guided.json_schema.machine.container_completions import items_of
from guided.json_schema.machine.stacks import ArrayFrame, Pending

__all__ = ["NextItems"]


class NextItems:
    """The stacks of items that leave a completion.

    ``stack`` is always that of an array between two items, except for ``is_roomy``, which takes
    that of an item.
    """

    def __init__(self, awaited: AwaitedValues) -> None:
        self.awaited: Final = awaited
        self.ends: Final = awaited.ends
        self.truths: Final = awaited.truths
        self.arrays: Final = awaited.arrays
        self.values: Final = awaited.values
        self.stacks: Final = awaited.stacks
        self.formulas: Final = awaited.truths.formulas
        self.restriction: Final = awaited.truths.restriction
        self.scalars: Final = awaited.truths.scalars
        self._begun: dict[int, int | None] = {}
        """By the stack of an array between two items, that of its next item."""

    def begun(self, stack: int) -> int | None:
        """Return the stack of the next item, ``None`` if there must not be one."""
        if stack not in self._begun:
            self._begun[stack] = self._find_begun(stack)
        return self._begun[stack]

    def _find_begun(self, stack: int) -> int | None:
        """Return the stack of the next item of an array, ``None`` if no item leaves a completion.

        ``begun`` keeps the result, so it must depend only on the stack.
        """
        frame = self.stacks.frames[stack]
        assert isinstance(frame, ArrayFrame), frame
        pending = self.arrays.item_begun(frame)
        if pending is not None:
            self.ends.note_next_item(frame, pending)
        if pending is not None and pending.remembers:  # its items are compared with later ones
            pending = self._without_traps(stack, pending)
        begun = self.awaited.enter(stack, pending)
        if begun is None and pending is not None and not self.awaited.may_close(stack):
            # The search knows a completion that the likely truth vectors miss: use its first item.
            value = read_value(b"[" + self.ends.shortest(stack).lstrip(b","))[0]
            begun = self.awaited.enter_by_value(stack, pending, value)
            if begun is None:
                begun = self.awaited.enter_only_value(stack, pending, value)
        return begun

    def _without_traps(self, stack: int, pending: Pending) -> Pending | None:
        """Forbid the values after which owed items could not differ, or could not repeat one.

        Returns ``pending`` itself if there are none, ``None`` if clearly no value is left.
        ``ContainerEnds`` keeps what is found out about ends on the way.
        """
        assert isinstance(pending.frame, ArrayFrame)
        if not pending.links and _treats_items_alike(pending.frame):
            return pending  # whichever value is written, as many are left that differ from it
        parent = self.stacks.parents[stack]
        more: dict[Formula, None] = {}
        for truth in self.awaited.possible(stack, pending):
            asked = self.truths.as_formula(pending.asks, (truth,))
            if self.values.text(asked) is None:
                continue
            # A completion after an item of this truth vector with which no later one is compared.
            frame = self.arrays.value_done(pending, truth, None)
            end = None if frame is None else self.ends.shortest_of_frame(frame, parent)
            if end is None and _owes_a_repeat(self.ends.want(pending.frame, parent)):
                again = self.ends.next_items(stack, asked)
                more[self.formulas.any_of([self.formulas.negate(asked), again])] = None
            # The only traps are values of items in that completion, which then could not differ.
            for text in items_of(end) if end is not None else ():
                value = read_value(text)
                if self.truths.of_value(pending.asks, value) == truth:
                    frame = self.arrays.value_done(pending, truth, text)
                    noted = self.ends.noted_item(pending.frame)
                    if frame is not None and noted is not None and noted[0] == text:
                        self.ends.inherit(frame, noted[1])
                    if frame is None or not self.ends.can_end(frame, parent):
                        same = formula_of_value(value, self.formulas)
                        more[self.formulas.negate(same)] = None
        return self.awaited.narrowed(pending, self.formulas.all_of(more)) if more else pending

    def is_roomy(self, stack: int) -> bool:
        """Return whether what may follow an item ignores its text: infinitely many values fit.

        Then no mask has to be made for each text of the item. ``False`` is always right and only
        costs time; ``True`` lets walks continue without the text (``Exits.needs_text``).
        """
        pending = self.awaited.pending(stack)
        assert isinstance(pending.frame, ArrayFrame), pending
        if pending.hazy:
            return False
        return (
            _treats_items_alike(pending.frame)
            and not _owes_a_repeat(self.ends.want(pending.frame, self.stacks.parents[stack]))
            and not self.awaited.accepts(stack, 0)
            and all(map(self._is_endless, pending.asks))
        )

    def _is_endless(self, ask: Formula) -> bool:
        """Return whether each type of scalars has no values that fit, or infinitely many.

        Null and booleans never have infinitely many. ``exits.needs_text`` takes containers for not
        endless without checking.
        """
        to = self.restriction.to
        strings, numbers = to(JsonType.STRING, ask), to(JsonType.NUMBER, ask)
        return (
            not self.restriction.null(ask)
            and not any(self.restriction.boolean(ask, value) for value in (False, True))
            and (strings is FALSE or self.scalars.strings.are_endless(strings))
            and (numbers is FALSE or self.scalars.numbers.are_endless(numbers))
        )


def _treats_items_alike(frame: ArrayFrame) -> bool:
    """Return whether all that matters to later items about one that fits is that they must differ.

    ``ItemCount`` is allowed, as every item adds one.
    """
    return all(
        isinstance(leaf.assertion, Unique | ItemCount)
        or (isinstance(leaf.assertion, Items) and not leaf.assertion.prefix)
        for leaf in leaves_of(frame.goals)
    )


def _owes_a_repeat(want: Formula) -> bool:
    """Return whether items of an array that has to fit a formula may have to repeat others.

    It may return True too often, as for a negation inside a negation: then more is searched, and
    nothing is lost.
    """
    waiting = [want]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Not):
            if any(isinstance(leaf.assertion, Unique) for leaf in leaves_of((part,))):
                return True
        else:
            waiting += parts_of(part)
    return False
