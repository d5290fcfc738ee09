"""Context-free grammars as front ends produce them: rules over terminals, without a scanner.

The language is the context-free one over the languages of the terminals: any text that can be cut
into terminals so that some derivation reads them, whatever a scanner would have cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from guided.regular.expression import Look, Regular, Value

__all__ = [
    "Alone",
    "Alternation",
    "Body",
    "Call",
    "Concatenation",
    "ContextFreeGrammar",
    "Hole",
    "Repetition",
    "Special",
    "Terminal",
    "inner_bodies",
    "map_inner",
    "special_names",
]


class Terminal(Value):
    """A text of a regular language of code points; ignored text may precede it.

    Look-arounds inside ``regular`` see only that text.
    """

    __slots__ = ("after", "before", "regular")
    __match_args__: Final = ("regular", "before", "after")

    def __init__(
        self, regular: Regular, before: tuple[Look, ...] = (), after: tuple[Look, ...] = ()
    ) -> None:
        super().__init__((regular, before, after))
        self.regular: Final = regular
        self.before: Final = before
        """Look-behinds that must hold where it begins; they see all the text before it."""
        self.after: Final = after
        """Look-aheads that must hold where it ends; they see all the text after it."""


class Hole(Value):
    """A text of another recogniser, by the number of the hole; ignored text may precede it."""

    __slots__ = ("number",)
    __match_args__: Final = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__((number,))
        self.number: Final = number


class Special(Value):
    """The special token with a name; ignored text may precede it."""

    __slots__ = ("name",)
    __match_args__: Final = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__((name,))
        self.name: Final = name


class Call(Value):
    """A text of a rule: a nonterminal."""

    __slots__ = ("rule",)
    __match_args__: Final = ("rule",)

    def __init__(self, rule: str) -> None:
        super().__init__((rule,))
        self.rule: Final = rule


class Concatenation(Value):
    """Parts one after another; without parts, the empty text."""

    __slots__ = ("parts",)
    __match_args__: Final = ("parts",)

    def __init__(self, parts: tuple[Body, ...]) -> None:
        super().__init__((parts,))
        self.parts: Final = parts


class Alternation(Value):
    """Any one of the options; without options, no text at all (the empty language)."""

    __slots__ = ("options",)
    __match_args__: Final = ("options",)

    def __init__(self, options: tuple[Body, ...]) -> None:
        super().__init__((options,))
        self.options: Final = options


class Repetition(Value):
    """``item`` at least ``low`` and at most ``high`` times; ``None`` sets no upper bound."""

    __slots__ = ("high", "item", "low")
    __match_args__: Final = ("item", "low", "high")

    def __init__(self, item: Body, low: int, high: int | None) -> None:
        super().__init__((item, low, high))
        self.item: Final = item
        self.low: Final = low
        self.high: Final = high


class Alone(Value):
    """A text of ``item`` whose look-arounds see nothing outside it.

    A grammar that has any must have all its look-arounds inside such items: the automaton of
    assertions has no level outside them (``network.lookarounds``).
    """

    __slots__ = ("item",)
    __match_args__: Final = ("item",)

    def __init__(self, item: Body) -> None:
        super().__init__((item,))
        self.item: Final = item


Body: TypeAlias = (
    Terminal | Hole | Special | Call | Concatenation | Alternation | Repetition | Alone
)


@dataclass(frozen=True, slots=True)
class ContextFreeGrammar:
    """The rules of a grammar; ``start`` and every rule that a body calls are among them.

    Passes over the bodies are recursive, so front ends limit how deep they nest. Outside bodies
    that are ``Alone``, look-arounds see the whole text. ``guided.grammar.dump`` prints a grammar.
    """

    rules: Mapping[str, Body]
    start: str
    ignored: tuple[Terminal, ...] = ()
    """Any number of texts of these may precede each terminal and stand at the end."""


def inner_bodies(body: Body) -> tuple[Body, ...]:
    """Return the direct parts of a body, in order; a call is a leaf, its rule is not followed."""
    match body:
        case Concatenation(parts) | Alternation(parts):
            return parts
        case Repetition(item) | Alone(item):
            return (item,)
    return ()


def special_names(grammar: ContextFreeGrammar) -> frozenset[str]:
    """Return the names of the special tokens that the rules of a grammar use."""
    names: set[str] = set()
    worklist: list[Body] = [*grammar.rules.values()]
    while worklist:
        body = worklist.pop()
        if isinstance(body, Special):
            names.add(body.name)
        worklist += inner_bodies(body)
    return frozenset(names)


def map_inner(body: Body, change: Callable[[Body], Body]) -> Body:
    """Return a copy of the body with ``change`` applied to each direct part; leaves as they are.

    The caller recurses. Rules that the body calls are not followed.
    """
    match body:
        case Concatenation(parts):
            return Concatenation(tuple(map(change, parts)))
        case Alternation(options):
            return Alternation(tuple(map(change, options)))
        case Repetition(item, low, high):
            return Repetition(change(item), low, high)
        case Alone(item):
            return Alone(change(item))
    return body
