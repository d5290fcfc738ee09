"""Items that complete an array so that a choice of its assertions comes true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from guided.json_schema.formulas.assertions import Contains, ItemCount, Items, Unique
from guided.json_schema.formulas.formula import TRUE, Formula
from guided.json_schema.formulas.values import (
    differs,
    equals_earlier,
    formula_of_value,
    read_value,
)
from guided.json_schema.machine.distinct import DistinctTexts
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.search import Literals
from guided.json_schema.machine.shortest_values import ShortestValues
from guided.json_schema.machine.stacks import ArrayFrame
from guided.runtime.fuel import spend

__all__ = ["ArrayCompletion"]

MAX_OWED_ITEMS: Final = 10_000
"""The most items written to end one array."""
MAX_DEAD_ENDS: Final = 100
"""The most items taken back."""
_Met = tuple[int, ...]


class _Step:
    """One more item, and what is still due after it.

    Steps never change: several ways of the search may begin with the same step.
    """

    __slots__ = ("broken", "formula", "helps", "met", "repeated", "same_as")

    def __init__(
        self,
        formula: Formula,
        broken: tuple[Items, ...],
        met: _Met,
        repeated: tuple[Unique, ...],
        *,
        helps: bool,
        same_as: int | None = None,
    ) -> None:
        self.formula: Final = formula
        """What the item fits."""
        self.broken: Final = broken
        """The assertions that have to fail and that no item has made fail yet."""
        self.met: Final = met
        """The number of items so far that each count counts."""
        self.repeated: Final = repeated
        """The ``Unique`` assertions that have to fail and that no item has made fail yet."""
        self.helps: Final = helps
        """Whether less is due than before."""
        self.same_as: Final = same_as
        """The number of the item that this one is meant to equal."""


class ArrayCompletion:
    """The search for items that complete an open array, depth first.

    Each item does as much of what is due as it can; where that leads nowhere, less. Items that have
    to differ are matched: places with values. The search is exhaustive unless it meets
    MAX_DEAD_ENDS, which counts as missed. There is one object for each choice of literals, used
    once: either for ``text`` or for ``item_formulas``.
    """

    def __init__(
        self,
        restriction: Restriction,
        values: ShortestValues,
        frame: ArrayFrame,
        literals: Literals,
    ) -> None:
        self.formulas = restriction.formulas
        self.sharing = restriction.sharing
        self.values = values
        self.begun = frame.begun
        # What has to hold, by kind; what has to fail is due from the start, and so part of a step.
        # A failing count is no literal: the search turns it into other counts.
        abouts = [(leaf.assertion, kept) for leaf, kept in literals.items()]
        self.items = [a for a, kept in abouts if kept and isinstance(a, Items)]
        self.contains = [a for a, kept in abouts if kept and isinstance(a, Contains)]
        self.unique = [a for a, kept in abouts if kept and isinstance(a, Unique)]
        counts = [a for a, kept in abouts if kept and isinstance(a, ItemCount)]
        broken = tuple([a for a, kept in abouts if not kept and isinstance(a, Items)])
        repeated = tuple([a for a, kept in abouts if not kept and isinstance(a, Unique)])
        self.start = _Step(TRUE, broken, (0,) * len(self.contains), repeated, helps=False)
        self.low = max((count.low for count in counts), default=0)
        highs = [count.high for count in counts if count.high is not None]
        self.high = min(highs, default=MAX_OWED_ITEMS)
        self.alike = max((len(a.prefix) for a in (*self.items, *broken)), default=0)
        """The first place from which on no assertion distinguishes places."""
        # An item for each that is counted, one to break each assertion, two that are equal.
        owed = sum([about.low for about in self.contains]) + len(broken) + 2 * bool(repeated)
        self.most = min(self.high, max(self.low, self.alike + owed))
        """The greatest number of items that can help."""

    def text(self) -> bytes | None:
        """Return the items and the closing bracket; ``None`` if there are none, or none was found.

        A comma comes first if the array already has items. With nothing but counts and ``Items``
        to fit, no search is needed.
        """
        if not self._counts_agree():
            return None
        if self.contains or self.start.broken or self.unique or self.start.repeated:
            texts = self._searched()
        else:
            texts = self._least()
        if texts is None:
            return None
        comma = b"," if self.begun and texts else b""
        return comma + b",".join(texts) + b"]"

    def item_formulas(self) -> list[Formula] | None:
        """Return the formula of each item that completes the array; ``None`` as for ``text``.

        With any other first item that fits its formula the rest can still be found: an item that
        repeats the first is then another text. For ``ContainerEnds.next_items``, which reads only
        the first and requests at least one item.
        """
        found = self._found_steps() if self._counts_agree() else None
        if found is None:
            return None
        steps, distinct = found
        if distinct is None:
            return _formulas_of(steps)
        # Of items that differ, the others were chosen to differ from exactly these.
        values = map(read_value, distinct.texts)
        return [formula_of_value(value, self.formulas) for value in values]

    def _counts_agree(self) -> bool:
        """Return whether no count needs more items than another allows, or than are written.

        More than can be written is noted as too long, not as impossible.
        """
        if self.low > MAX_OWED_ITEMS:
            self.values.too_long = True
            return False
        return self.low <= self.high

    def _least(self) -> list[bytes] | None:
        """Return as few items as possible, if only their place distinguishes them.

        From ``alike`` on one text serves for all. ``None`` if one of them has no value.
        """
        texts: list[bytes] = []
        for place in range(min(self.low, self.alike + 1)):
            text = self.values.text(self.formulas.all_of(self._due(place)))
            if text is None:
                return None
            texts.append(text)
        spend(self.low // 8)
        return texts + texts[-1:] * (self.low - len(texts))

    def _searched(self) -> list[bytes] | None:
        """Return the items that the search finds, ``None`` if it finds none.

        Each formula was found to have a value when its step was made.
        """
        found = self._found_steps()
        if found is None:
            return None
        steps, distinct = found
        if distinct is not None:
            return distinct.texts
        texts: list[bytes] = []
        for formula in _formulas_of(steps):
            text = self.values.text(formula)
            assert text is not None, formula
            texts.append(text)
        return texts

    def _found_steps(self) -> tuple[list[_Step], DistinctTexts | None] | None:
        """Items one by one, depth first, until all that is due is done.

        ``None`` if there are none, or too many dead ends were met. ``steps`` has the start and
        one step for each item; ``distinct``, where items have to differ, a place for each item.
        """
        steps = [self.start]
        # An iterator of further steps for each step taken: a search without recursion, since
        # arrays may need thousands of items.
        ways: list[Iterator[_Step]] = []
        distinct = DistinctTexts(self.formulas, self.values.text) if self.unique else None
        failed: set[object] = set()
        dead_ends = 0
        while not self._is_met(steps):
            if len(ways) < len(steps):
                ways.append(self._ways(steps, failed))
            step = next(ways[-1], None)
            if step is not None:
                if distinct is None or distinct.add(step.formula):
                    steps.append(step)
                    continue
            else:
                ways.pop()
                # Nothing completes the array from here, nor from any situation like this one.
                failed.add(self._situation(steps))
                steps.pop()
                if not ways:
                    return None
                if distinct is not None:
                    distinct.drop()
            dead_ends += 1
            if dead_ends > MAX_DEAD_ENDS:
                self.values.searches.missed += 1
                return None
        return steps, distinct

    def _is_met(self, steps: list[_Step]) -> bool:
        """Return whether the array may close after these steps: nothing is due any more.

        The first step is the start, so ``len(steps)`` is one more than the number of items.
        """
        last = steps[-1]
        return len(steps) > self.low and not (last.broken or last.repeated or self._lacks(last.met))

    def _lacks(self, met: _Met) -> bool:
        return any(n < about.low for n, about in zip(met, self.contains, strict=True))

    def _situation(self, steps: list[_Step]) -> object:
        """Return what all that follows depends on, if items need not differ or repeat others."""
        last = steps[-1]
        return (min(len(steps) - 1, max(self.low, self.alike)), last.broken, last.met)

    def _due(self, place: int) -> list[Formula]:
        """Return what is asked of any item at a place."""
        shared = self.sharing.of
        return [shared(a.prefix[place] if place < len(a.prefix) else a.rest) for a in self.items]

    def _ways(self, steps: list[_Step], failed: set[object]) -> Iterator[_Step]:
        """Yield the items that may come next, the most helpful first.

        ``steps`` is read again for each of them: at each request it has to be as it was when this
        began. Yields nothing if there are ``most`` items, or if this situation has failed
        before.
        """
        place, last = len(steps) - 1, steps[-1]
        # Long arrays cost more than their items, since each step copies what is due.
        spend(15 + place // 16)
        if place >= self.most:
            return
        by_situation = not self.unique and not self.start.repeated
        if by_situation and self._situation(steps) in failed:
            return
        base = self._due(place)
        base += [differs(about, self.formulas) for about in self.unique]
        # No item that helps comes after one that does not: no place distinguishes the two, so they
        # could change places. Not where situations are remembered, which ignore items before.
        idle = place > self.alike and not last.helps and bool(self.unique)
        for step in self._breaking(self.formulas.all_of(base), steps, 0, ()):
            if step.helps:
                if not idle:
                    yield step
            elif place < max(self.low, self.alike) or last.repeated:
                yield step

    def _breaking(
        self, formula: Formula, steps: list[_Step], number: int, left: tuple[Items, ...]
    ) -> Iterator[_Step]:
        """Decide which of the assertions about items that have to fail the item makes fail.

        Begins with the one at ``number``; ``left`` are those before it that the item does not make
        fail, and ``formula`` is what the item fits so far. Yields steps, first those that make more
        of them fail.
        """
        if self.values.text(formula) is None:
            return
        last, place = steps[-1], len(steps) - 1
        if number == len(last.broken):
            yield from self._counting(formula, steps, left, ())
            return
        about = last.broken[number]
        item = about.prefix[place] if place < len(about.prefix) else about.rest
        opposite = self.formulas.negate(self.sharing.of(item))
        more = self.formulas.all_of([formula, opposite])
        # First with the item that makes it fail: the sooner all is done, the shorter the array.
        yield from self._breaking(more, steps, number + 1, left)
        yield from self._breaking(formula, steps, number + 1, (*left, about))

    def _counting(
        self, formula: Formula, steps: list[_Step], broken: tuple[Items, ...], met: _Met
    ) -> Iterator[_Step]:
        """Decide which counts the item adds to, from the one at ``len(met)`` on.

        ``met`` has the counts after the item, as far as they are decided. If a count has no
        upper bound and is not due, it does not matter whether the item adds to it.
        """
        if self.values.text(formula) is None:
            return
        last, number = steps[-1], len(met)
        if number == len(self.contains):
            yield from self._repeating(formula, steps, broken, met)
            return
        about, count = self.contains[number], last.met[number]
        item = self.sharing.of(about.item)
        fits = self.formulas.all_of([formula, item])
        other = self.formulas.all_of([formula, self.formulas.negate(item)])
        uncounted, counted = (*met, count), (*met, count + 1)
        is_due = count < about.low
        if is_due and (about.high is None or count < about.high):
            yield from self._counting(fits, steps, broken, counted)
        if about.high is None:
            yield from self._counting(formula, steps, broken, uncounted)
            return
        # An item more than is due counts against the bound.
        yield from self._counting(other, steps, broken, uncounted)
        if not is_due and count < about.high:
            yield from self._counting(fits, steps, broken, counted)

    def _repeating(
        self, formula: Formula, steps: list[_Step], broken: tuple[Items, ...], met: _Met
    ) -> Iterator[_Step]:
        """Yield the finished steps: first those that repeat an earlier item, where that is due.

        They may repeat an item before the array's current place (``equals_earlier``), or a step of
        this search (``same_as``); last comes the item without any repetition. Repeating a step
        makes every ``Unique`` fail at once, repeating an earlier item only the one that knows that
        item.
        """
        last = steps[-1]
        for about in last.repeated:
            more = self.formulas.all_of([formula, equals_earlier(about, self.formulas)])
            if self.values.text(more) is not None:
                left = tuple([other for other in last.repeated if other is not about])
                yield _Step(more, broken, met, left, helps=True)
        for number, step in enumerate(steps[1:] if last.repeated else ()):
            more = self.formulas.all_of([formula, step.formula])
            if self.values.text(more) is not None:
                yield _Step(more, broken, met, (), helps=True, same_as=number)
        helps = len(broken) < len(last.broken) or any(
            before < about.low and now > before
            for about, before, now in zip(self.contains, last.met, met, strict=True)
        )
        yield _Step(formula, broken, met, last.repeated, helps=helps)


def _formulas_of(steps: list[_Step]) -> list[Formula]:
    """Return the formula of each item of a finished search; repeated items get equal ones.

    ``same_as`` is an index in the result; the later formula serves for both, as it includes the
    earlier one.
    """
    formulas = [step.formula for step in steps[1:]]
    for step in steps[1:]:
        if step.same_as is not None:
            # Both get the stricter formula, and with it the same text.
            formulas[step.same_as] = step.formula
    return formulas
