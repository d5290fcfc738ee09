"""The search for items that complete an array so that chosen assertions hold or fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from guided.json_schema.formulas.assertions import Contains, ItemCount, Items, Unique
from guided.json_schema.formulas.formula import TRUE, Formula
from guided.json_schema.formulas.values import (
    differs_from_earlier,
    equals_earlier,
    formula_of_value,
    read_value,
)
from guided.json_schema.machine.distinct import DistinctTexts
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.search import Literals
from guided.json_schema.machine.shortest_values import ShortestValues
from guided.json_schema.machine.stacks import ArrayFrame
from guided.runtime.work_budget import spend

__all__ = ["ArrayCompletion"]

MAX_COMPLETION_ITEMS: Final = 10_000
"""The most items in the completion of one array."""
MAX_DEAD_ENDS: Final = 100
"""The most steps taken back in one search."""
_Counts = tuple[int, ...]


class _Step:
    """One more item, and what is still owed after it; immutable, as branches share steps."""

    __slots__ = ("counts", "equal_item", "formula", "helps", "items_to_break", "unique_to_break")

    def __init__(
        self,
        formula: Formula,
        items_to_break: tuple[Items, ...],
        counts: _Counts,
        unique_to_break: tuple[Unique, ...],
        *,
        helps: bool,
        equal_item: int | None = None,
    ) -> None:
        self.formula: Final = formula
        """The formula of the item."""
        self.items_to_break: Final = items_to_break
        """The ``Items`` assertions that have to fail and that no item has broken yet."""
        self.counts: Final = counts
        """How many items so far fit each ``Contains``."""
        self.unique_to_break: Final = unique_to_break
        """The ``Unique`` assertions that have to fail and that no item has broken yet."""
        self.helps: Final = helps
        """Whether less is owed than before."""
        self.equal_item: Final = equal_item
        """The index of an earlier item of the search that this one has to equal."""


class ArrayCompletion:
    """The search for items that complete an open array, depth first.

    Each item first does as much of what is owed as it can, less after a dead end; ``DistinctTexts``
    finds items that differ. Exhaustive up to MAX_DEAD_ENDS, counted (``Searches.num_missed``).
    Indices and counts are of items to come. Use it once, for ``text`` or for ``item_formulas``.
    """

    def __init__(
        self,
        restriction: Restriction,
        values: ShortestValues,
        frame: ArrayFrame,
        literals: Literals,
    ) -> None:
        self.formulas = restriction.formulas
        self.inliner = restriction.inliner
        self.values = values
        self.has_items = frame.has_items
        # What has to hold, by kind; what has to fail is in the steps, until an item breaks it. A
        # count that has to fail is no literal: ``satisfy`` turns it into other counts.
        assertions = [(leaf.assertion, holds) for leaf, holds in literals.items()]
        self.items = [a for a, holds in assertions if holds and isinstance(a, Items)]
        self.contains = [a for a, holds in assertions if holds and isinstance(a, Contains)]
        self.unique = [a for a, holds in assertions if holds and isinstance(a, Unique)]
        counts = [a for a, holds in assertions if holds and isinstance(a, ItemCount)]
        items_to_break = tuple([a for a, holds in assertions if not holds and isinstance(a, Items)])
        unique_to_break = tuple(
            [a for a, holds in assertions if not holds and isinstance(a, Unique)]
        )
        self.start = _Step(
            TRUE, items_to_break, (0,) * len(self.contains), unique_to_break, helps=False
        )
        self.low = max((count.low for count in counts), default=0)
        highs = [count.high for count in counts if count.high is not None]
        self.highest = min(highs, default=None)
        """The most items that assertions allow."""
        self.high = MAX_COMPLETION_ITEMS if self.highest is None else self.highest
        self.num_distinguished = max(
            (len(a.prefix) for a in (*self.items, *items_to_break)), default=0
        )
        """How many items, from the first on, assertions distinguish."""
        # An item for each that is counted, one to break each ``Items``, two that are equal.
        owed = (
            sum([assertion.low for assertion in self.contains])
            + len(items_to_break)
            + 2 * bool(unique_to_break)
        )
        self.max_items = min(self.high, max(self.low, self.num_distinguished + owed))
        """The most items that a search may need."""

    def text(self) -> bytes | None:
        """Return the items and the closing bracket; ``None`` if no such items were found.

        A comma comes first if the array already has items.
        """
        if not self._counts_agree():
            return None
        if self.contains or self.start.items_to_break or self.unique or self.start.unique_to_break:
            texts = self._search_items()
        else:
            texts = self._fewest_items()
        if texts is None:
            return None
        comma = b"," if self.has_items and texts else b""
        return comma + b",".join(texts) + b"]"

    def item_formulas(self) -> list[Formula] | None:
        """Return the formula of each item that completes the array; ``None`` as for ``text``.

        After any first item that fits its formula the rest can still be found. For
        ``ContainerCompletions.completable_items``, which reads only the first formula and asks for
        at least one item.
        """
        found = self._search_steps() if self._counts_agree() else None
        if found is None:
            return None
        steps, distinct = found
        if distinct is None:
            return _formulas_of(steps)
        # Of items that differ, the others were chosen to differ from exactly these.
        values = map(read_value, distinct.texts)
        return [formula_of_value(value, self.formulas) for value in values]

    def _counts_agree(self) -> bool:
        """Return whether some count of items fits all ``ItemCount`` bounds and the limit.

        More than MAX_COMPLETION_ITEMS are noted as exceeding it.
        """
        if self.highest is not None and self.low > self.highest:
            return False
        if self.low > MAX_COMPLETION_ITEMS:
            self.values.note_exceeded(MAX_COMPLETION_ITEMS, "items in one array")
            return False
        return self.low <= self.high

    def _fewest_items(self) -> list[bytes] | None:
        """Return as few items as possible, where each is only asked to fit ``Items`` assertions.

        ``None`` if one of them has no value. One text serves for all items that are not
        distinguished.
        """
        texts: list[bytes] = []
        for index in range(min(self.low, self.num_distinguished + 1)):
            text = self.values.text(self.inliner.join(self._required_at(index)))
            if text is None:
                return None
            texts.append(text)
        spend(self.low // 8)
        return texts + texts[-1:] * (self.low - len(texts))

    def _search_items(self) -> list[bytes] | None:
        """Return the texts of the items that the search finds, ``None`` if it finds none."""
        found = self._search_steps()
        if found is None:
            return None
        steps, distinct = found
        if distinct is not None:
            return distinct.texts
        texts: list[bytes] = []
        for formula in _formulas_of(steps):
            text = self.values.text(formula)
            assert text is not None, formula  # each formula had one when its step was made
            texts.append(text)
        return texts

    def _search_steps(self) -> tuple[list[_Step], DistinctTexts | None] | None:
        """Search for steps after which nothing is owed, depth first.

        Returns the start and one step for each item; and where items have to differ, their texts.
        ``None`` if there are none, or too many dead ends were met.
        """
        steps = [self.start]
        # An iterator of next steps for each step taken; no recursion, since arrays may need
        # thousands of items.
        iterators: list[Iterator[_Step]] = []
        distinct = DistinctTexts(self.formulas, self.values.text) if self.unique else None
        failed: set[object] = set()
        dead_ends = 0
        while not self._may_close(steps):
            if len(iterators) < len(steps):
                iterators.append(self._next_steps(steps, failed))
            step = next(iterators[-1], None)
            if step is not None:
                if distinct is None or distinct.add(step.formula):
                    steps.append(step)
                    continue
            else:
                iterators.pop()
                # Nothing completes the array from here, nor from any steps with an equal key.
                failed.add(self._search_key(steps))
                steps.pop()
                if not iterators:
                    return None
                if distinct is not None:
                    distinct.drop()
            dead_ends += 1
            if dead_ends > MAX_DEAD_ENDS:
                self.values.searches.num_missed += 1
                return None
        return steps, distinct

    def _may_close(self, steps: list[_Step]) -> bool:
        """Return whether the array may close after these steps: nothing is owed any more."""
        last = steps[-1]
        return len(steps) > self.low and not (
            last.items_to_break or last.unique_to_break or self._is_below_minimum(last.counts)
        )

    def _is_below_minimum(self, counts: _Counts) -> bool:
        """Return whether ``counts``, those of a step, are too low for some ``Contains``."""
        return any(n < assertion.low for n, assertion in zip(counts, self.contains, strict=True))

    def _search_key(self, steps: list[_Step]) -> object:
        """Return all that further steps depend on, where items need not differ or repeat others."""
        last = steps[-1]
        return (
            min(len(steps) - 1, max(self.low, self.num_distinguished)),
            last.items_to_break,
            last.counts,
        )

    def _required_at(self, index: int) -> list[Formula]:
        """Return the formulas that ``Items`` assertions ask of the item at an index."""
        inline = self.inliner.inline
        return [inline(a.prefix[index] if index < len(a.prefix) else a.rest) for a in self.items]

    def _next_steps(self, steps: list[_Step], failed: set[object]) -> Iterator[_Step]:
        """Yield the steps that may come next, the most helpful first.

        ``steps`` is read again for each of them, so it has to be the same at each request. Yields
        nothing if there are ``max_items`` items, or if the key of ``steps`` is in ``failed``.
        """
        index, last = len(steps) - 1, steps[-1]
        # Long arrays cost more than their items, since each step copies what is owed.
        spend(15 + index // 16)
        if index >= self.max_items:
            return
        use_failed = not self.unique and not self.start.unique_to_break
        if use_failed and self._search_key(steps) in failed:
            return
        base = self._required_at(index)
        base += [differs_from_earlier(assertion, self.formulas) for assertion in self.unique]
        # No item that helps comes after one that does not: where items are not distinguished, the
        # two could be exchanged. Not together with ``failed``, whose keys ignore the last step.
        helps_too_late = index > self.num_distinguished and not last.helps and bool(self.unique)
        for step in self._choose_broken(self.inliner.join(base), steps, 0, ()):
            if step.helps:
                if not helps_too_late:
                    yield step
            # Needed for the least count, to pass a distinguished place, or to be repeated.
            elif index < max(self.low, self.num_distinguished) or last.unique_to_break:
                yield step

    def _choose_broken(
        self, formula: Formula, steps: list[_Step], first: int, left: tuple[Items, ...]
    ) -> Iterator[_Step]:
        """Yield steps for each choice of ``items_to_break`` that the item breaks, most first.

        Those before ``first`` are decided: ``left`` are the ones that the item does not break, and
        ``formula`` is what the item has to fit so far.
        """
        if self.values.text(formula) is None:
            return
        last, index = steps[-1], len(steps) - 1
        if first == len(last.items_to_break):
            yield from self._choose_counted(formula, steps, left, ())
            return
        assertion = last.items_to_break[first]
        item = assertion.prefix[index] if index < len(assertion.prefix) else assertion.rest
        opposite = self.formulas.negate(self.inliner.inline(item))
        more = self.formulas.all_of([formula, opposite])
        # First an item that breaks it: the sooner all is done, the shorter the array.
        yield from self._choose_broken(more, steps, first + 1, left)
        yield from self._choose_broken(formula, steps, first + 1, (*left, assertion))

    def _choose_counted(
        self,
        formula: Formula,
        steps: list[_Step],
        items_to_break: tuple[Items, ...],
        counts: _Counts,
    ) -> Iterator[_Step]:
        """Yield steps for each choice of the ``Contains`` assertions that the item counts for.

        ``counts`` has the counts after the item for those decided so far, ``items_to_break`` what
        is still to break then, ``formula`` what the item has to fit so far. Without an upper bound
        an uncounted item may fit: a count that is too low only leads to more items.
        """
        if self.values.text(formula) is None:
            return
        last, which = steps[-1], len(counts)
        if which == len(self.contains):
            yield from self._choose_repeated(formula, steps, items_to_break, counts)
            return
        assertion, count = self.contains[which], last.counts[which]
        item = self.inliner.inline(assertion.item)
        fits = self.formulas.all_of([formula, item])
        other = self.formulas.all_of([formula, self.formulas.negate(item)])
        uncounted, counted = (*counts, count), (*counts, count + 1)
        is_due = count < assertion.low
        if is_due and (assertion.high is None or count < assertion.high):
            yield from self._choose_counted(fits, steps, items_to_break, counted)
        if assertion.high is None:
            yield from self._choose_counted(formula, steps, items_to_break, uncounted)
            return
        # An item more than is owed counts against the bound.
        yield from self._choose_counted(other, steps, items_to_break, uncounted)
        if not is_due and count < assertion.high:
            yield from self._choose_counted(fits, steps, items_to_break, counted)

    def _choose_repeated(
        self,
        formula: Formula,
        steps: list[_Step],
        items_to_break: tuple[Items, ...],
        counts: _Counts,
    ) -> Iterator[_Step]:
        """Yield the steps: first those that repeat an earlier item, if a ``Unique`` has to break.

        They repeat an item that the array already has (``equals_earlier``), which breaks the
        ``Unique`` that knows the item, or one of this search (``equal_item``), which breaks all.
        Last comes the step without a repetition. Arguments are as for ``_choose_counted``, with all
        counts decided.
        """
        last = steps[-1]
        for assertion in last.unique_to_break:
            more = self.formulas.all_of([formula, equals_earlier(assertion, self.formulas)])
            if self.values.text(more) is not None:
                left = tuple([other for other in last.unique_to_break if other is not assertion])
                yield _Step(more, items_to_break, counts, left, helps=True)
        for earlier, step in enumerate(steps[1:] if last.unique_to_break else ()):
            more = self.formulas.all_of([formula, step.formula])
            if self.values.text(more) is not None:
                yield _Step(more, items_to_break, counts, (), helps=True, equal_item=earlier)
        helps = len(items_to_break) < len(last.items_to_break) or any(
            before < assertion.low and now > before
            for assertion, before, now in zip(self.contains, last.counts, counts, strict=True)
        )
        yield _Step(formula, items_to_break, counts, last.unique_to_break, helps=helps)


def _formulas_of(steps: list[_Step]) -> list[Formula]:
    """Return the formula of each item of a finished search.

    Items that have to be equal get the same one, the later, which includes the earlier one, and so
    the same text. At most one step has an ``equal_item``, as after it no ``Unique`` is left to
    break.
    """
    formulas = [step.formula for step in steps[1:]]
    for step in steps[1:]:
        if step.equal_item is not None:
            formulas[step.equal_item] = step.formula
    return formulas
