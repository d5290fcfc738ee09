"""The places of schemas: schema objects, and the resources that URIs name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from guided.json_schema.formulas.values import Json
from guided.json_schema.reader.dialects import Dialect

__all__ = ["Location", "Resource"]


@dataclass(slots=True, eq=False)
class Resource:
    """A schema with a URI: a document, or a part of one that has an ``$id``."""

    uri: str
    """Empty for a document without one."""
    root: Json
    pointer: str
    """The JSON pointer of the root; in other documents than the schema, after the document's URI.
    """
    dialect: Dialect
    is_standard: bool = False
    """Whether it belongs to a metaschema that the specification publishes."""
    anchors: dict[str, Location] = field(default_factory=dict)
    dynamic_anchors: dict[str, Location] = field(default_factory=dict)
    """The anchors that are possible targets of dynamic references."""
    ambiguous_anchors: set[str] = field(default_factory=set)
    """Anchors that several schemas have, which is an error only if a reference names one."""


class Location:
    """A schema object, with its place and its keywords.

    Compared by identity. ``SchemaIndex._read_keywords`` fills ``keywords`` once; later nothing
    changes.
    """

    __slots__ = ("keywords", "pointer", "resource", "schema")

    def __init__(self, schema: dict[str, Json], pointer: str, resource: Resource) -> None:
        self.schema: Final = schema
        self.pointer: Final = pointer
        self.resource: Final = resource
        self.keywords: Final[dict[str, Json]] = {}
        """The keywords that restrict values, in the order of the text.

        Annotations, and keywords that a ``$ref`` hides, are left out.
        """
