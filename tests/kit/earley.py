"""An Earley parser without a scanner, which shares no code with ours but the rules it is given.

Terminals are patterns of Python's ``re`` without look-around; ``re`` decides where one may end, and
the module ``regex`` whether one may continue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import regex

from guided.grammar.context_free import Alternation, Body, Call, Concatenation, Repetition, Terminal

__all__ = ["COMPLETE", "DEAD", "OPEN", "Earley"]

COMPLETE: Final = "+"
OPEN: Final = "."
DEAD: Final = "-"
"""Verdicts on a prefix: a text, only the beginning of a text, or neither."""

_START: Final = "all"


class _Word(NamedTuple):
    """A terminal."""

    pattern: str


class _Rule(NamedTuple):
    name: str


_Production = tuple[_Word | _Rule, ...]


class _Item(NamedTuple):
    """A production, read in part from ``origin`` on."""

    name: str
    production: _Production
    dot: int
    origin: int


class Earley:
    """Reads texts of a grammar that starts with its first rule."""

    def __init__(
        self, rules: Mapping[str, Body], pattern_of: Callable[[Terminal], str], ignored: str = ""
    ) -> None:
        self._pattern_of = pattern_of
        self._before = f"(?:{ignored})*" if ignored else ""
        self._productions: dict[str, list[_Production]] = {}
        for name, body in rules.items():
            self._productions[name] = [(self._symbol(body),)]
        self._productions[_START] = [(_Rule(next(iter(rules))), _Word(self._before))]
        self._productive = self._all_productive()

    def verdicts(self, text: str) -> str:
        """The verdicts on all prefixes, the empty one first, as a string of signs."""
        sets: list[dict[_Item, None]] = [{} for _ in range(len(text) + 1)]
        if _START in self._productive:
            sets[0] = {_Item(_START, production, 0, 0): None for production in self._of(_START)}
        signs = []
        for at in range(len(text) + 1):
            self._fill(sets, at, text)
            complete = any(item.name == _START and _is_done(item) for item in sets[at])
            signs.append(COMPLETE if complete else self._open_or_dead(sets, text[:at]))
        return "".join(signs)

    def _fill(self, sets: list[dict[_Item, None]], at: int, text: str) -> None:
        """Add all items that follow from those of one place, there and further on."""
        here, ended_here = sets[at], set[str]()
        waiting: dict[str, list[_Item]] = {}
        todo = list(here)

        def add(item: _Item) -> None:
            if item not in here:
                here[item] = None
                todo.append(item)

        while todo:
            item = todo.pop()
            if _is_done(item):
                if item.origin == at:
                    ended_here.add(item.name)
                    callers = waiting.get(item.name, [])
                else:
                    callers = [
                        each for each in sets[item.origin] if _next(each) == _Rule(item.name)
                    ]
                for caller in callers:
                    add(_behind(caller))
                continue
            match _next(item):
                case _Rule(name):
                    waiting.setdefault(name, []).append(item)
                    for production in self._of(name):
                        add(_Item(name, production, 0, at))
                    if name in ended_here:
                        add(_behind(item))
                case _Word(pattern):
                    for end in range(at, len(text) + 1):
                        if re.fullmatch(pattern, text[at:end]):
                            if end == at:
                                add(_behind(item))
                            else:
                                sets[end][_behind(item)] = None

    def _open_or_dead(self, sets: list[dict[_Item, None]], read: str) -> str:
        begun = {
            (word.pattern, at)
            for at in range(len(read) + 1)
            for item in sets[at]
            if not _is_done(item) and isinstance(word := _next(item), _Word)
        }
        goes_on = (regex.fullmatch(word, read[at:], partial=True) for word, at in begun)
        return OPEN if any(goes_on) else DEAD

    def _of(self, name: str) -> Iterator[_Production]:
        """The productions of a rule that have any text."""
        return filter(self._has_text, self._productions[name])

    def _has_text(self, production: _Production) -> bool:
        return all(
            isinstance(symbol, _Word) or symbol.name in self._productive for symbol in production
        )

    def _all_productive(self) -> set[str]:
        self._productive = set[str]()
        while more := {
            name
            for name, productions in self._productions.items()
            if name not in self._productive and any(map(self._has_text, productions))
        }:
            self._productive |= more
        return self._productive

    def _symbol(self, body: Body) -> _Word | _Rule:
        match body:
            case Call(rule):
                return _Rule(rule)
            case Terminal():
                return _Word(f"{self._before}(?:{self._pattern_of(body)})")
            case Concatenation(parts):
                return self._new([tuple(map(self._symbol, parts))])
            case Alternation(options):
                return self._new([(self._symbol(option),) for option in options])
            case Repetition(item, low, high):
                symbol = self._symbol(item)
                if high is not None:
                    return self._new([(symbol,) * count for count in range(low, high + 1)])
                more = self._new([()])
                self._productions[more.name].append((more, symbol))
                return self._new([(symbol,) * low + (more,)])
        raise AssertionError(f"there is no reading {body}")

    def _new(self, productions: list[_Production]) -> _Rule:
        name = f"{_START} {len(self._productions)}"
        self._productions[name] = productions
        return _Rule(name)


def _is_done(item: _Item) -> bool:
    return item.dot == len(item.production)


def _next(item: _Item) -> _Word | _Rule | None:
    return None if _is_done(item) else item.production[item.dot]


def _behind(item: _Item) -> _Item:
    return item._replace(dot=item.dot + 1)
