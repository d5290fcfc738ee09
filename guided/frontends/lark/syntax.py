"""What a Lark grammar writes: the trees of its bodies, and its statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

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
    "Statement",
    "Tree",
    "Use",
]


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A rule, a parameter or a terminal."""

    text: str
    position: int

    @property
    def is_terminal(self) -> bool:
        """Which capitals tell."""
        return self.text.isupper()


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A text in quotes or a pattern in slashes, with its flags behind it."""

    text: str
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """A character from the first to the last."""

    first: Literal
    last: Literal

    @property
    def position(self) -> int:
        """Where it begins."""
        return self.first.position

    @property
    def text(self) -> str:
        """How it is written."""
        return f"{self.first.text}..{self.last.text}"


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A template with what it is used for."""

    template: Name
    arguments: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Parts one after another."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Alternatives:
    """Any one of the options."""

    options: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """An item at least ``low`` and at most ``high`` times; ``None`` sets no upper bound."""

    item: Tree
    low: int
    high: int | None


Tree: TypeAlias = Name | Literal | Range | Use | Series | Alternatives | Repeated


@dataclass(frozen=True, slots=True, eq=False)
class Define:
    """A rule or a terminal; ``how`` is what stands before it: nothing, %override or %extend."""

    how: str
    name: Name
    parameters: tuple[Name, ...]
    body: Tree


@dataclass(frozen=True, slots=True, eq=False)
class Declare:
    """Names without a body."""

    names: tuple[Name, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Ignore:
    """What may stand anywhere."""

    body: Tree
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Import:
    """Names in another grammar, and what they are called here."""

    path: tuple[str, ...]
    aliases: Mapping[str, str]
    position: int


Statement: TypeAlias = Define | Declare | Ignore | Import
