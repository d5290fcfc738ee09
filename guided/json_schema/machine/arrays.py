"""Arrays, evaluated item by item: what is left to fit, and what is asked of the next item."""

from __future__ import annotations

import sys
from typing import Final

from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import (
    ANY_STRING,
    Contains,
    ItemCount,
    Items,
    JsonType,
    Unique,
    without_first,
)
from guided.json_schema.formulas.formula import (
    FALSE,
    TRUE,
    Formula,
    Formulas,
    Leaf,
    evaluate,
    leaves_of,
    pack_truth_vector,
)
from guided.json_schema.formulas.values import differs_from_earlier, read_value, with_earlier_item
from guided.json_schema.machine.containers import (
    decrement_count,
    derive_value_formulas,
    replace_leaves,
)
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.shortest_values import ShortestValues
from guided.json_schema.machine.stacks import ArrayFrame, AwaitedValue

__all__ = ["ArrayRules"]


class ArrayRules:
    """The rules of arrays: how they open, what their items decide, and how they close.

    Nothing here depends on what surrounds an array. Frames are immutable: methods return new ones.
    Caches live as long as the machine.
    """

    def __init__(
        self,
        formulas: Formulas,
        restriction: Restriction,
        values: ShortestValues,
        max_items: int | None = None,
        *,
        any_spelling: bool = False,
    ) -> None:
        """``max_items`` bounds arrays that the schema does not bound.

        ``any_spelling`` says that strings may be spelled in any way, see ``JsonOptions.spelling``.
        """
        self.formulas = formulas
        self.restriction = restriction
        self.inliner = restriction.inliner
        self.values = values
        self.max_items = max_items
        self._canonical: Final = formulas.leaf(ANY_STRING) if any_spelling else TRUE
        """What a string fits that may only be spelled in one way, whatever it is."""
        self._awaited_items: dict[ArrayFrame, AwaitedValue | None] = {}
        """The results of ``expect_item`` by frame."""
        self._without_first_cache: dict[Leaf, Formula] = {}
        """What is left of an ``Items`` with a prefix after its first item."""

    # --- evaluation -----------------------------------------------------------------------

    def open(self, formulas: tuple[Formula, ...], *, required: bool) -> ArrayFrame:
        """Return the frame of an array before its first item, which is to fit these formulas."""
        return ArrayFrame(
            tuple(self.restriction.to_type(JsonType.ARRAY, formula) for formula in formulas),
            required,
        )

    def expect_item(self, frame: ArrayFrame) -> AwaitedValue | None:
        """Return the frame that awaits the next item; ``None`` if no item may follow."""
        if frame not in self._awaited_items:
            self._awaited_items[frame] = self._expect_item(frame)
        return self._awaited_items[frame]

    def _expect_item(self, frame: ArrayFrame) -> AwaitedValue | None:
        """Compute ``expect_item``: the formulas of the item, and the frame of the array after it.

        ``universal`` and ``counting`` are as for ``derive_value_formulas``.
        """
        goals = frame.goals
        # First what every item decides, then what is left to ask of this one.
        by: dict[Leaf, Formula] = {}
        for leaf in leaves_of(goals):
            if isinstance(leaf.assertion, ItemCount):
                by[leaf] = decrement_count(leaf.assertion, self.formulas)
        goals = replace_leaves(self.formulas, goals, by)
        leaves = leaves_of(goals)
        # ``Unique``, which knows earlier items, comes last, so that the names of an item keep the
        # order of the schema.
        universal = [
            (leaf, self._item_formula(leaf, frame))
            for kind in (Items, Unique)
            for leaf in leaves
            if isinstance(leaf.assertion, kind)
        ]
        counting = [
            (leaf, self.inliner.inline(leaf.assertion.item))
            for leaf in leaves
            if isinstance(leaf.assertion, Contains)
        ]
        value, failed = derive_value_formulas(
            goals, universal, counting, self.formulas, required=frame.required
        )
        goals = replace_leaves(self.formulas, goals, dict.fromkeys(failed, FALSE))
        if frame.required and (goals[0] is FALSE or value.formulas[0] is FALSE):
            return None
        remembers = any(isinstance(leaf.assertion, Unique) for leaf in leaves_of(goals))
        num_items = 0 if self.max_items is None else min(frame.num_items + 1, self.max_items)
        inner = ArrayFrame(goals, frame.required, has_items=True, num_items=num_items)
        awaited = AwaitedValue(
            inner,
            value.formulas,
            value.required,
            value.dependent_assertions,
            remembers,
            frame.has_unknown_item,
        )
        # If the array may close after any item that fits, every such item leaves a completion.
        # Later items have to differ from it, but none is owed.
        if frame.required and len(value.formulas) == 1:
            after = self.finish_item(awaited, 1, None)
            if after is not None and evaluate(after.goals[0], holds_at_close):
                return awaited._replace(always_completable=True)
        return awaited

    def finish_item(
        self, awaited: AwaitedValue, truth_vector: int, text: bytes | None
    ) -> ArrayFrame | None:
        """Return the array after an item with this truth vector; ``None`` if the item does not fit.

        A frame may be returned whose required goal is FALSE by now, as after one item too many that
        contains something: whether it can be completed, callers ask separately. ``text`` is the
        item as it was written, ``None`` if it is not known. Then later items are not compared with
        it, and if they had to be, the frame says so (``has_unknown_item``). An ``ItemCount`` was
        lowered when the item began.
        """
        frame = awaited.frame
        assert isinstance(frame, ArrayFrame)
        if awaited.required and not truth_vector & 1:
            return None
        fits = {
            leaf: bool(truth_vector >> index & 1) for leaf, index in awaited.dependent_assertions
        }
        by: dict[Leaf, Formula] = {}
        for leaf in leaves_of(frame.goals):
            assertion = leaf.assertion
            if isinstance(assertion, Contains):
                # If it does not depend on the value, it holds of every item, or of none.
                met = fits.get(leaf, self.inliner.inline(assertion.item) is TRUE)
                by[leaf] = decrement_count(assertion, self.formulas) if met else leaf
            elif not fits.get(leaf, True):
                by[leaf] = FALSE
            elif isinstance(assertion, Items):
                by[leaf] = self._without_first(leaf, assertion)
            elif isinstance(assertion, Unique) and text is not None:
                by[leaf] = self._remember(assertion, text)
        goals = replace_leaves(self.formulas, frame.goals, by)
        return ArrayFrame(
            goals,
            frame.required,
            has_items=True,
            num_items=frame.num_items,
            has_unknown_item=awaited.has_unknown_item or (awaited.remembers_text and text is None),
        )

    def _remember(self, assertion: Unique, text: bytes) -> Formula:
        """Return the assertion after an item with this text; raises LimitExceededError."""
        try:
            return self.formulas.leaf(with_earlier_item(assertion, read_value(text), self.formulas))
        except RecursionError as error:
            # How deep items nest is up to the model.
            raise LimitExceededError(
                "an item that has to differ from others nests too deeply",
                limit=sys.getrecursionlimit(),
                hint="bound the depth of the items, or leave out uniqueItems",
            ) from error

    def is_full(self, frame: ArrayFrame) -> bool:
        """Return whether an array has as many items as the options allow.

        Never where the schema bounds it, or has something to say of the very next item.
        """
        if self.max_items is None or frame.num_items < self.max_items:
            return False
        assertions = [leaf.assertion for leaf in leaves_of(frame.goals)]
        return not any(
            (isinstance(each, ItemCount) and each.high is not None)
            or (isinstance(each, Items) and bool(each.prefix))
            for each in assertions
        )

    def closing_vector(self, frame: ArrayFrame) -> int:
        """Return the truth vector of the array if it closes here."""
        return pack_truth_vector(evaluate(goal, holds_at_close) for goal in frame.goals)

    def _item_formula(self, leaf: Leaf, frame: ArrayFrame) -> Formula:
        """Return what an assertion asks of the next item; it is an ``Items`` or a ``Unique``."""
        assertion = leaf.assertion
        if isinstance(assertion, Items):
            return self.inliner.inline(assertion.prefix[0] if assertion.prefix else assertion.rest)
        assert isinstance(assertion, Unique), leaf
        differs = differs_from_earlier(assertion, self.formulas)
        # Strings after a known string are compared with it in their canonical spelling: so they
        # are after an unknown one, which is always a string.
        if frame.has_unknown_item and self._canonical is not TRUE:
            return self.formulas.all_of([differs, self._canonical])
        return differs

    def _without_first(self, leaf: Leaf, assertion: Items) -> Formula:
        """Return what is left of ``leaf``, an ``Items``, after its first item; TRUE for nothing."""
        if not assertion.prefix:
            return leaf
        if leaf not in self._without_first_cache:
            rest = Items(without_first(assertion.prefix), assertion.rest)
            trivial = not rest.prefix and rest.rest is TRUE
            self._without_first_cache[leaf] = TRUE if trivial else self.formulas.leaf(rest)
        return self._without_first_cache[leaf]


def holds_at_close(leaf: Leaf) -> bool:
    """Return whether an assertion that is still open holds of an array that closes.

    Each item lowered the counts (``decrement_count``): what is left of ``low`` is missing, and a
    count whose ``high`` was passed is FALSE by now, so ``high`` need not be checked. An ``Items``
    or a ``Unique`` that an item did not fit is FALSE by now, too, so one that is open holds.
    """
    assertion = leaf.assertion
    if isinstance(assertion, ItemCount | Contains):
        return assertion.low == 0
    return True
