"""Arrays, evaluated item by item: what is left to fit, and what may follow."""

from __future__ import annotations

from guided.json_schema.formulas.assertions import (
    Assertion,
    Contains,
    ItemCount,
    Items,
    JsonType,
    Unique,
)
from guided.json_schema.formulas.formula import (
    FALSE,
    TRUE,
    Formula,
    Formulas,
    Leaf,
    evaluate,
    leaves_of,
    truth_vector,
)
from guided.json_schema.formulas.values import differs, read_value, with_value
from guided.json_schema.machine.containers import asked_of, one_fewer, replaced
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.shortest_values import ShortestValues
from guided.json_schema.machine.stacks import ArrayFrame, Pending

__all__ = ["ArrayRules"]


class ArrayRules:
    """The rules of arrays: how they open, what their items decide, and how they close.

    Nothing here knows what surrounds an array. A frame is a value: methods never change one, they
    return others. What is remembered depends only on its key, and is kept as long as the machine.
    """

    def __init__(
        self, formulas: Formulas, restriction: Restriction, values: ShortestValues
    ) -> None:
        self.formulas = formulas
        self.restriction = restriction
        self.sharing = restriction.sharing
        self.values = values
        self._begun: dict[ArrayFrame, Pending | None] = {}
        self._shifted: dict[Leaf, Formula] = {}
        """What an assertion about items, with a prefix, asks of those after the first."""

    # --- evaluation -----------------------------------------------------------------------

    def open(self, asks: tuple[Formula, ...], *, must: bool) -> ArrayFrame:
        """Return an array that is asked these formulas, before its first item."""
        return ArrayFrame(tuple(self.restriction.to(JsonType.ARRAY, ask) for ask in asks), must)

    def item_begun(self, frame: ArrayFrame) -> Pending | None:
        """Return the next item as an awaited value; ``None`` if there must not be one."""
        if frame not in self._begun:
            self._begun[frame] = self._item_begun(frame)
        return self._begun[frame]

    def _item_begun(self, frame: ArrayFrame) -> Pending | None:
        """Compute ``item_begun``: what is asked of the item, and of the array after it.

        ``every`` has for each assertion about all items what it asks of this one, ``some`` likewise
        for those that count items.
        """
        goals = frame.goals
        # The common array, whose items all fit one formula: nothing is left to decide about it.
        if frame.must and isinstance(goals[0], Leaf) and _says_one_thing(goals[0].assertion):
            item = self._child(goals[0])
            inner = ArrayFrame(goals, must=True, begun=True)
            pending = Pending(inner, (item,), must=True, hazy=frame.hazy, sure=True)
            return None if item is FALSE else pending
        leaves = leaves_of(goals)
        by: dict[Leaf, Formula] = {}
        for leaf in leaves:
            if isinstance(leaf.assertion, ItemCount):
                by[leaf] = one_fewer(leaf.assertion, self.formulas)
        goals = replaced(self.formulas, goals, by)
        # Earlier items come last: the names of an item keep the order of the schema.
        every = [
            (leaf, self._child(leaf))
            for kind in (Items, Unique)
            for leaf in leaves
            if isinstance(leaf.assertion, kind)
        ]
        some = [
            (leaf, self.sharing.of(leaf.assertion.item))
            for leaf in leaves
            if isinstance(leaf.assertion, Contains)
        ]
        asked, failed = asked_of(goals, every, some, self.formulas, must=frame.must)
        goals = replaced(self.formulas, goals, dict.fromkeys(failed, FALSE))
        if frame.must and (goals[0] is FALSE or asked.asks[0] is FALSE):
            return None
        remembers = any(isinstance(leaf.assertion, Unique) for leaf in leaves_of(goals))
        inner = ArrayFrame(goals, frame.must, begun=True)
        pending = Pending(inner, asked.asks, asked.must, asked.links, remembers, frame.hazy)
        # If the array could close after any item that fits, every such item leaves a completion.
        if frame.must and len(asked.asks) == 1 and not remembers:
            after = self.value_done(pending, 1, None)
            if after is not None and evaluate(after.goals[0], at_the_end):
                return pending._replace(sure=True)
        return pending

    def value_done(self, pending: Pending, truth: int, text: bytes | None) -> ArrayFrame | None:
        """Return the array after an item with this truth vector; ``None`` if it had to fit better.

        ``text`` is the item as it was written; without it, further items may equal this one, and if
        that matters, the array is hazy. An ``ItemCount`` was lowered when the item began.
        """
        frame = pending.frame
        assert isinstance(frame, ArrayFrame)
        if pending.must and not truth & 1:
            return None
        fits = {leaf: bool(truth >> ask & 1) for leaf, ask in pending.links}
        by: dict[Leaf, Formula] = {}
        for leaf in leaves_of(frame.goals):
            about = leaf.assertion
            if isinstance(about, Contains):
                # What was not asked holds of every item, or of none.
                met = fits.get(leaf, self.sharing.of(about.item) is TRUE)
                by[leaf] = one_fewer(about, self.formulas) if met else leaf
            elif not fits.get(leaf, True):
                by[leaf] = FALSE
            elif isinstance(about, Items):
                by[leaf] = self._without_first(leaf, about)
            elif isinstance(about, Unique) and text is not None:
                by[leaf] = self.formulas.leaf(with_value(about, read_value(text), self.formulas))
        goals = replaced(self.formulas, frame.goals, by)
        return ArrayFrame(goals, frame.must, begun=True, hazy=pending.remembers and text is None)

    def truth(self, frame: ArrayFrame) -> int:
        """Return which formulas the array fits if it closes here, one bit each."""
        return truth_vector(evaluate(goal, at_the_end) for goal in frame.goals)

    def _child(self, leaf: Leaf) -> Formula:
        """Return what an assertion asks of the next item.

        Only ``Items`` and ``Unique`` ask something of every item; counts are handled elsewhere.
        """
        about = leaf.assertion
        if isinstance(about, Items):
            return self.sharing.of(about.prefix[0] if about.prefix else about.rest)
        assert isinstance(about, Unique), leaf
        return differs(about, self.formulas)

    def _without_first(self, leaf: Leaf, about: Items) -> Formula:
        """Return what an assertion about items asks of those after the first.

        TRUE if it asks nothing of those.
        """
        if not about.prefix:
            return leaf
        if leaf not in self._shifted:
            rest = Items(about.prefix[1:], about.rest)
            trivial = not rest.prefix and rest.rest is TRUE
            self._shifted[leaf] = TRUE if trivial else self.formulas.leaf(rest)
        return self._shifted[leaf]


def _says_one_thing(about: Assertion) -> bool:
    """Return whether an assertion asks the same of every item, and nothing of the array."""
    return isinstance(about, Items) and not about.prefix


def at_the_end(leaf: Leaf) -> bool:
    """Return whether an open assertion holds of an array that closes.

    Each item lowered the counts (``one_fewer``): what is left of ``low`` is missing, and a count
    whose ``high`` was passed is FALSE by now, so ``high`` need not be checked.
    """
    about = leaf.assertion
    if isinstance(about, ItemCount | Contains):
        return about.low == 0
    return True
