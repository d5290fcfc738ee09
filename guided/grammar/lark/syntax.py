"""The syntax tree of a Lark grammar: its statements, and the trees of their bodies."""

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
    "TemplateUse",
    "Tree",
]


class Name:
    """The name of a rule, parameter or terminal; ``position`` is that in the text, as below."""

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
    """A quoted text or a pattern in slashes, with the flags after it."""

    __slots__ = ("position", "text")
    __match_args__: Final = ("text", "position")

    def __init__(self, text: str, position: int) -> None:
        self.text: Final = text
        self.position: Final = position


class SpecialName:
    """A special token, written ``<name>``."""

    __slots__ = ("position", "text")
    __match_args__: Final = ("text", "position")

    def __init__(self, text: str, position: int) -> None:
        self.text: Final = text
        self.position: Final = position


class Range:
    """Any character from ``first`` to ``last``."""

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
        """The source text of the range."""
        return f"{self.first.text}..{self.last.text}"


class TemplateUse:
    """A template applied to arguments."""

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


Tree: TypeAlias = (
    Name | Literal | SpecialName | Range | TemplateUse | Series | Alternatives | Repeated
)


class Define(NamedTuple):
    """A definition of a rule or terminal; ``modifier`` is empty, "%override" or "%extend"."""

    modifier: str
    name: Name
    parameters: tuple[Name, ...]
    body: Tree


class Declare(NamedTuple):
    """``%declare``: names without a body, which holes fill."""

    names: tuple[Name, ...]


class Ignore(NamedTuple):
    """``%ignore``: what may precede each terminal and stand at the end."""

    body: Tree
    position: int


class Import(NamedTuple):
    """``%import``: names of the grammar ``path``, each with its name here."""

    path: tuple[str, ...]
    aliases: Mapping[str, str]
    position: int


Statement: TypeAlias = Define | Declare | Ignore | Import
