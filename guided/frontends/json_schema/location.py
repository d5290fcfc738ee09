"""A place in a schema on its way to a shape."""

from __future__ import annotations

from dataclasses import dataclass, field

from guided.frontends.json_schema.reader import Json
from guided.grammar.json_grammar import ValueShape

__all__ = ["Location"]


@dataclass(slots=True)
class Location:
    """A schema object on its way to a shape."""

    pointer: str
    schema: Json
    own: ValueShape = field(default_factory=ValueShape)
    united: list[int] = field(default_factory=list)
    exclusive: bool = False
    """The united locations come from ``oneOf``: a value may fit only one of them."""
    remark: str | None = None
