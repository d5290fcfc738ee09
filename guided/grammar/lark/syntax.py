"""What a Lark grammar writes: the trees of its bodies, and its statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

__all__ = [
    "Alternatives",
    "Declare",
    "Define",
    "Ignore",
    "Import",
    "Literal",
    "Name",
    "Range",
    "Repeated",
    "Series",
    "SpecialName",
    "Statement",
    "Tree",
    "Use",
]


class Name:
    """A rule, a parameter or a terminal; ``position``, here as below, is that in its text."""

    __slots__ = ("position", "text")
    __match_args__: Final = ("text", "position")

    def __init__(self, text: str, position: int) -> None:
        self.text: Final = text
        self.position: Final = position

    @property
    def is_terminal(self) -> bool:
        """Whether it is in capital letters."""
        return self.text.isupper()


class Literal:
    """A text in quotes or a pattern in slashes, with its flags after it."""

    __slots__ = ("position", "text")
    __match_args__: Final = ("text", "position")

    def __init__(self, text: str, position: int) -> None:
        self.text: Final = text
        self.position: Final = position


class SpecialName:
    """The name of a special token, as ``<name>``."""

    __slots__ = ("position", "text")
    __match_args__: Final = ("text", "position")

    def __init__(self, text: str, position: int) -> None:
        self.text: Final = text
        self.position: Final = position


class Range:
    """A character from the first to the last."""

    __slots__ = ("first", "last")
    __match_args__: Final = ("first", "last")

    def __init__(self, first: Literal, last: Literal) -> None:
        self.first: Final = first
        self.last: Final = last

    @property
    def position(self) -> int:
        """Where it begins."""
        return self.first.position

    @property
    def text(self) -> str:
        """The range as it is written."""
        return f"{self.first.text}..{self.last.text}"


class Use:
    """A template with its arguments."""

    __slots__ = ("arguments", "template")
    __match_args__: Final = ("template", "arguments")

    def __init__(self, template: Name, arguments: tuple[Tree, ...]) -> None:
        self.template: Final = template
        self.arguments: Final = arguments


class Series:
    """Parts one after another."""

    __slots__ = ("parts",)
    __match_args__: Final = ("parts",)

    def __init__(self, parts: tuple[Tree, ...]) -> None:
        self.parts: Final = parts


class Alternatives:
    """Any one of the options."""

    __slots__ = ("options",)
    __match_args__: Final = ("options",)

    def __init__(self, options: tuple[Tree, ...]) -> None:
        self.options: Final = options


class Repeated:
    """An item at least ``low`` and at most ``high`` times; ``None`` sets no upper bound."""

    __slots__ = ("high", "item", "low")
    __match_args__: Final = ("item", "low", "high")

    def __init__(self, item: Tree, low: int, high: int | None) -> None:
        self.item: Final = item
        self.low: Final = low
        self.high: Final = high


Tree: TypeAlias = Name | Literal | SpecialName | Range | Use | Series | Alternatives | Repeated


class Define(NamedTuple):
    """A rule or a terminal; ``how`` is what stands before it: nothing, %override or %extend."""

    how: str
    name: Name
    parameters: tuple[Name, ...]
    body: Tree


class Declare(NamedTuple):
    """Names without a body."""

    names: tuple[Name, ...]


class Ignore(NamedTuple):
    """What may stand anywhere."""

    body: Tree
    position: int


class Import(NamedTuple):
    """Names in another grammar, and what they are called here."""

    path: tuple[str, ...]
    aliases: Mapping[str, str]
    position: int


Statement: TypeAlias = Define | Declare | Ignore | Import
