"""Arrays, evaluated item by item: what is left to fit, and what may follow."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any as Json
from typing import Final

from guided.automata.fuel import spend
from guided.grammar.assertions import (
    Assertion,
    Booleans,
    Contains,
    Has,
    ItemCount,
    Items,
    JsonType,
    Members,
    NumberChoices,
    StringChoices,
    Types,
    Unique,
)
from guided.grammar.formula import FALSE, TRUE, Formula, Formulas, Leaf
from guided.recognizer.asking import asked_of
from guided.recognizer.contexts import ArrayFrame, Pending
from guided.recognizer.json_value import read_value
from guided.recognizer.restriction import Restriction
from guided.recognizer.scalars import evaluate_with, sorted_leaves
from guided.recognizer.search import Literals
from guided.recognizer.values import Values

__all__ = ["Arrays", "formula_of_value"]

MAX_OWED_ITEMS: Final = 10_000
"""Items written at most to end one array."""
MAX_UNIQUE_TRIES: Final = 16
"""Ways tried at most to write items that have to differ."""


class Arrays:
    """The rules of arrays."""

    def __init__(self, formulas: Formulas, restriction: Restriction, values: Values) -> None:
        self.formulas = formulas
        self.restriction = restriction
        self.sharing = restriction.sharing
        self.values = values
        self._begun: dict[ArrayFrame, Pending | None] = {}
        self._shifted: dict[Leaf, Formula] = {}

    # --- evaluation -----------------------------------------------------------------------

    def open(self, asks: tuple[Formula, ...], *, must: bool) -> ArrayFrame:
        """An array of which these formulas are asked, before its first item."""
        return ArrayFrame(tuple(self.restriction.to(JsonType.ARRAY, ask) for ask in asks), must)

    def item_begun(self, frame: ArrayFrame) -> Pending | None:
        """The next item is awaited; ``None`` where there must not be one."""
        if frame not in self._begun:
            self._begun[frame] = self._item_begun(frame)
        return self._begun[frame]

    def _item_begun(self, frame: ArrayFrame) -> Pending | None:
        goals = frame.goals
        if frame.must and isinstance(goals[0], Leaf) and _says_one_thing(goals[0].assertion):
            item = self._child(goals[0])
            inner = ArrayFrame(goals, must=True, begun=True)
            pending = Pending(inner, (item,), must=True, hazy=frame.hazy, sure=True)
            return None if item is FALSE else pending
        leaves = sorted_leaves(goals)
        by: dict[Leaf, Formula] = {}
        for leaf in leaves:
            if isinstance(leaf.assertion, ItemCount):
                by[leaf] = self._counted(leaf.assertion)
        goals = self._replaced(goals, by)
        # What lies behind comes last: the names of an item keep the order of the schema.
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
        goals = self._replaced(goals, dict.fromkeys(failed, FALSE))
        if frame.must and (goals[0] is FALSE or asked.asks[0] is FALSE):
            return None
        remembers = any(isinstance(leaf.assertion, Unique) for leaf in sorted_leaves(goals))
        inner = ArrayFrame(goals, frame.must, begun=True)
        pending = Pending(inner, asked.asks, asked.must, asked.links, remembers, frame.hazy)
        if frame.must and len(asked.asks) == 1 and not remembers:
            behind = self.value_done(pending, 1, None)
            if behind is not None and evaluate_with(behind.goals[0], at_the_end):
                return pending._replace(sure=True)
        return pending

    def value_done(self, pending: Pending, verdict: int, text: bytes | None) -> ArrayFrame | None:
        """The array behind an item with this verdict; ``None`` where it had to fit better.

        ``text`` is the item as it was written; without it, further items may equal this one.
        """
        frame = pending.frame
        assert isinstance(frame, ArrayFrame)
        if pending.must and not verdict & 1:
            return None
        fits = {leaf: bool(verdict >> ask & 1) for leaf, ask in pending.links}
        by: dict[Leaf, Formula] = {}
        for leaf in sorted_leaves(frame.goals):
            about = leaf.assertion
            if isinstance(about, Contains):
                # What was not asked for holds of every item, or of none.
                met = fits.get(leaf, self.sharing.of(about.item) is TRUE)
                by[leaf] = self._matched(about) if met else leaf
            elif not fits.get(leaf, True):
                by[leaf] = FALSE
            elif isinstance(about, Items):
                by[leaf] = self._behind(leaf, about)
            elif isinstance(about, Unique) and text is not None:
                by[leaf] = self.formulas.leaf(self._with(about, read_value(text)))
        goals = self._replaced(frame.goals, by)
        return ArrayFrame(goals, frame.must, begun=True, hazy=pending.remembers and text is None)

    def verdict(self, frame: ArrayFrame) -> int:
        """Which formulas the array fits if it closes here, one bit each."""
        return sum(evaluate_with(goal, at_the_end) << i for i, goal in enumerate(frame.goals))

    def _child(self, leaf: Leaf) -> Formula:
        """What an assertion asks of the next item."""
        about = leaf.assertion
        if isinstance(about, Items):
            return self.sharing.of(about.prefix[0] if about.prefix else about.rest)
        assert isinstance(about, Unique), leaf
        return self.formulas.negate(self.one_of_taken(about))

    def one_of_taken(self, about: Unique) -> Formula:
        """That a value equals one of the items that lie behind."""
        leaf, parts = self.formulas.leaf, list(about.others)
        for kind, values in (
            (JsonType.STRING, StringChoices(about.strings) if about.strings else None),
            (JsonType.NUMBER, NumberChoices(about.numbers) if about.numbers else None),
        ):
            if values is not None:
                parts.append(self.formulas.all_of([leaf(Types(frozenset((kind,)))), leaf(values)]))
        return self.formulas.any_of(parts)

    def _with(self, about: Unique, value: Json) -> Unique:
        if isinstance(value, str):
            return replace(about, strings=(*about.strings, value))
        if isinstance(value, Decimal):
            return replace(about, numbers=(*about.numbers, value))
        return replace(about, others=(*about.others, formula_of_value(value, self.formulas)))

    def _behind(self, leaf: Leaf, about: Items) -> Formula:
        if not about.prefix:
            return leaf
        if leaf not in self._shifted:
            rest = Items(about.prefix[1:], about.rest)
            trivial = not rest.prefix and rest.rest is TRUE
            self._shifted[leaf] = TRUE if trivial else self.formulas.leaf(rest)
        return self._shifted[leaf]

    def _counted(self, about: ItemCount) -> Formula:
        high = None if about.high is None else about.high - 1
        low = max(about.low - 1, 0)
        if high is not None and high < 0:
            return FALSE
        return TRUE if low == 0 and high is None else self.formulas.leaf(ItemCount(low, high))

    def _matched(self, about: Contains) -> Formula:
        high = None if about.high is None else about.high - 1
        low = max(about.low - 1, 0)
        if high is not None and high < 0:
            return FALSE
        if low == 0 and high is None:
            return TRUE
        return self.formulas.leaf(Contains(about.item, low, high))

    def _replaced(self, goals: tuple[Formula, ...], by: dict[Leaf, Formula]) -> tuple[Formula, ...]:
        if not by:
            return goals
        spend(len(goals) + len(by))
        return tuple(
            self.formulas.replace(goal, lambda leaf: by.get(leaf, leaf))  # type: ignore[arg-type]
            for goal in goals
        )

    # --- ways out -------------------------------------------------------------------------

    def end(self, frame: ArrayFrame, literals: Literals) -> bytes | None:
        """What completes the array so that these assertions hold, closing bracket included."""
        return _Completion(self, frame, literals).text()


class _Completion:
    """Items that make a choice of assertions come true."""

    def __init__(self, arrays: Arrays, frame: ArrayFrame, literals: Literals) -> None:
        self.arrays = arrays
        self.formulas = arrays.formulas
        self.values = arrays.values
        self.frame = frame
        self.abouts = [(leaf.assertion, kept) for leaf, kept in literals.items()]
        self.counts = [a for a, kept in self.abouts if kept and isinstance(a, ItemCount)]
        self.contains = [a for a, kept in self.abouts if kept and isinstance(a, Contains)]
        self.items = [a for a, kept in self.abouts if kept and isinstance(a, Items)]

    def text(self) -> bytes | None:
        """The items; where they have to differ, an item may be in the way of a later one."""
        avoided: list[dict[int, list[Formula]]] = [{}]
        tries = 0
        while avoided and tries < MAX_UNIQUE_TRIES:
            tries += 1
            self.avoided = avoided.pop()
            found = self._text()
            if found is not None:
                return found
            if self.unique:
                for place, text in enumerate(self.texts[:MAX_UNIQUE_TRIES]):
                    value = formula_of_value(read_value(text), self.formulas)
                    more = [*self.avoided.get(place, ()), value]
                    avoided.insert(0, {**self.avoided, place: more})
        return None

    def _text(self) -> bytes | None:
        self.broken = [a for a, kept in self.abouts if not kept and isinstance(a, Items)]
        self.met = [0] * len(self.contains)
        self.unique = [a for a, kept in self.abouts if kept and isinstance(a, Unique)]
        self.repeated = [a for a, kept in self.abouts if not kept and isinstance(a, Unique)]
        self.texts: list[bytes] = []
        low = max((count.low for count in self.counts), default=0)
        high = min((c.high for c in self.counts if c.high is not None), default=MAX_OWED_ITEMS)
        if low > MAX_OWED_ITEMS:
            self.values.too_long = True
            return None
        if not (self.contains or self.broken or self.unique or self.repeated):
            return self._least(low) if low <= high else None
        while not (len(self.texts) >= low and self._is_met()):
            spend(1)
            if len(self.texts) >= high or not self._add(low):
                return None
        comma = b"," if self.frame.begun and self.texts else b""
        return comma + b",".join(self.texts) + b"]"

    def _least(self, low: int) -> bytes | None:
        """As few items as may be, where nothing but their place tells them apart."""
        places = max((len(about.prefix) for about in self.items), default=0)
        for place in range(min(low, places + 1)):
            text = self.values.text(self.formulas.all_of(self._due(place)))
            if text is None:
                return None
            self.texts.append(text)
        spend(low // 8)
        self.texts += self.texts[-1:] * (low - len(self.texts))
        comma = b"," if self.frame.begun and self.texts else b""
        return comma + b",".join(self.texts) + b"]"

    def _due(self, place: int) -> list[Formula]:
        """What is said about the item at a place, whichever it is."""
        shared = self.arrays.sharing.of
        return [shared(a.prefix[place] if place < len(a.prefix) else a.rest) for a in self.items]

    def _is_met(self) -> bool:
        contained = all(m >= c.low for m, c in zip(self.met, self.contains, strict=True))
        return contained and not self.broken and not self.repeated

    def _add(self, low: int) -> bool:
        """Write one more item, one that does as much of what is still due as can be."""
        place = len(self.texts)
        spend(15 + place // 16)
        base = self._due(place)
        base += [self.arrays._child(self.formulas.leaf(about)) for about in self.unique]
        base += [self.formulas.negate(value) for value in self.avoided.get(place, ())]
        for number, about in enumerate(self.contains):
            if about.high is not None and self.met[number] >= about.high:
                base.append(self.formulas.negate(about.item))
        formula = self.formulas.all_of(base)
        if self.values.text(formula) is None:
            return False
        broken, repeated = list(self.broken), list(self.repeated)
        for items in list(broken):
            item = items.prefix[place] if place < len(items.prefix) else items.rest
            more = self.formulas.all_of([formula, self.formulas.negate(item)])
            if self.values.text(more) is not None:
                formula = more
                broken.remove(items)
        for again in list(repeated):
            earlier = self.arrays.one_of_taken(again)
            more = self.formulas.all_of([formula, earlier])
            if self.values.text(more) is not None:
                formula = more
                repeated.remove(again)
        met = list(self.met)
        for number, about in enumerate(self.contains):
            if met[number] >= about.low:
                if about.high is None:
                    continue
                # An item more than is due would count against the bound.
                more = self.formulas.all_of([formula, self.formulas.negate(about.item)])
                if self.values.text(more) is not None:
                    formula = more
                else:
                    met[number] += 1
                continue
            more = self.formulas.all_of([formula, about.item])
            if self.values.text(more) is not None:
                formula = more
                met[number] += 1
            elif about.high is not None:
                formula = self.formulas.all_of([formula, self.formulas.negate(about.item)])
        text = self.values.text(formula)
        if text is None:
            return False
        if (broken, repeated, met) == (self.broken, self.repeated, self.met):
            # Nothing came of it; further items help only as long as places differ or are owed.
            longest = max((len(a.prefix) for a in (*self.items, *self.broken)), default=0)
            if place >= max(low, longest + 1) and not self.repeated:
                return False
            if self.repeated and place > max(low, longest + 1):
                return False
        self.broken, self.repeated, self.met = broken, repeated, met
        self.texts.append(text)
        if self.unique or self.repeated:
            value = read_value(text)
            self.unique = [self.arrays._with(about, value) for about in self.unique]
            self.repeated = [self.arrays._with(about, value) for about in self.repeated]
        return True


def _says_one_thing(about: Assertion) -> bool:
    """Whether an assertion says the same of every item, and nothing of the array."""
    return isinstance(about, Items) and not about.prefix


def at_the_end(leaf: Leaf) -> bool:
    """Whether an assertion that is still open holds of an array that closes."""
    about = leaf.assertion
    if isinstance(about, ItemCount | Contains):
        return about.low == 0
    return True


def formula_of_value(value: Json, formulas: Formulas) -> Formula:
    """What only values equal to this one fit; numbers are Decimal."""
    if value is None:
        return formulas.leaf(Types(frozenset((JsonType.NULL,))))
    if isinstance(value, bool):
        return formulas.all_of(
            [
                formulas.leaf(Types(frozenset((JsonType.BOOLEAN,)))),
                formulas.leaf(Booleans(frozenset((value,)))),
            ]
        )
    if isinstance(value, Decimal | int):
        kind, parts = JsonType.NUMBER, [formulas.leaf(NumberChoices((Decimal(value),)))]
    elif isinstance(value, str):
        kind, parts = JsonType.STRING, [formulas.leaf(StringChoices((value,)))]
    elif isinstance(value, list):
        kind = JsonType.ARRAY
        items = tuple(formula_of_value(item, formulas) for item in value)
        parts = [
            formulas.leaf(Items(items, FALSE)),
            formulas.leaf(ItemCount(len(items), len(items))),
        ]
    else:
        kind = JsonType.OBJECT
        named = tuple((name, formula_of_value(item, formulas)) for name, item in value.items())
        parts = [
            formulas.leaf(Members(named, (), FALSE)),
            *(formulas.leaf(Has(name)) for name in value),
        ]
    return formulas.all_of([formulas.leaf(Types(frozenset((kind,)))), *parts])
