"""The syntax tree of a Lark grammar: its statements, and the trees of their bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

__all__ = [
    "Alternatives",
    "Common",
    "Complement",
    "Declare",
    "Define",
    "Ignore",
    "Import",
    "InlineSchema",
    "Literal",
    "Name",
    "Range",
    "Repeated",
    "Series",
    "Shortest",
    "SpecialName",
    "Statement",
    "TemplateUse",
    "Tree",
]


class Name(NamedTuple):
    """The name of a rule, parameter or terminal; ``position`` is that in the text, as below."""

    text: str
    position: int

    @property
    def is_terminal(self) -> bool:
        """Whether it is in capital letters."""
        return self.text.isupper()


class Literal(NamedTuple):
    """A quoted text or a pattern in slashes, with the flags after it."""

    text: str
    position: int


class SpecialName(NamedTuple):
    """A special token, written ``<name>``."""

    text: str
    position: int


class InlineSchema(NamedTuple):
    """A JSON Schema, written ``%json`` and its ``text``; ``position`` is that of the sign."""

    text: str
    position: int


class Range(NamedTuple):
    """Any character from ``first`` to ``last``."""

    first: Literal
    last: Literal

    @property
    def position(self) -> int:
        """Where it begins."""
        return self.first.position

    @property
    def text(self) -> str:
        """The source text of the range."""
        return f"{self.first.text}..{self.last.text}"


class TemplateUse(NamedTuple):
    """A template applied to arguments."""

    template: Name
    arguments: tuple[Tree, ...]


class Series(NamedTuple):
    """Parts one after another."""

    parts: tuple[Tree, ...]


class Alternatives(NamedTuple):
    """Any one of the options."""

    options: tuple[Tree, ...]


class Repeated(NamedTuple):
    """An item at least ``low`` and at most ``high`` times; ``None`` sets no upper bound."""

    item: Tree
    low: int
    high: int | None


class Common(NamedTuple):
    """Texts that all ``parts`` have, in terminals only: ``x & y``; ``position`` is that of a sign.

    This and the two below are of llguidance.
    """

    parts: tuple[Tree, ...]
    position: int


class Complement(NamedTuple):
    """All texts but those of ``item``, in terminals only: ``~x``."""

    item: Tree
    position: int


class Shortest(NamedTuple):
    """Texts of ``item``, a terminal, that begin with no other: the body of a rule ``x[lazy]``."""

    item: Tree
    position: int


Tree: TypeAlias = (
    Name
    | Literal
    | SpecialName
    | InlineSchema
    | Range
    | TemplateUse
    | Series
    | Alternatives
    | Repeated
    | Common
    | Complement
    | Shortest
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
