"""Where schemas stand: resources with a URI of their own, and the schema objects in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from guided.json_schema.reader.dialects import Dialect
from guided.json_schema.reader.reader import Json

__all__ = ["RECURSIVE", "Location", "Resource"]

RECURSIVE: Final = ""
"""Stands for the ``$recursiveAnchor`` of draft 2019-09 among the names of dynamic anchors."""


@dataclass(slots=True, eq=False)
class Resource:
    """A schema with a URI: a document, or a part of one that has an ``$id``."""

    uri: str
    """Empty for a document without one."""
    root: Json
    pointer: str
    """JSON pointer of the root, behind the URI of its document where that is not the schema."""
    dialect: Dialect
    is_standard: bool = False
    """It belongs to a metaschema that the specification publishes."""
    anchors: dict[str, Location] = field(default_factory=dict)
    dynamic: dict[str, Location] = field(default_factory=dict)
    """The anchors that a dynamic reference may be bound to."""
    ambiguous: set[str] = field(default_factory=set)
    """Anchors that several schemas have: no matter until a reference names one."""


class Location:
    """A schema object."""

    __slots__ = ("keywords", "pointer", "resource", "schema")

    def __init__(self, schema: dict[str, Json], pointer: str, resource: Resource) -> None:
        self.schema: Final = schema
        self.pointer: Final = pointer
        self.resource: Final = resource
        self.keywords: Final[dict[str, Json]] = {}
        """Those that say something about values: no notes, nothing hidden by a reference."""
