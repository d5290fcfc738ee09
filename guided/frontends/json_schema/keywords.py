"""What becomes of each keyword of JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "ANNOTATIONS",
    "APPLICATORS",
    "ASSERTIONS",
    "DIALECTS",
    "TYPES",
    "UNSUPPORTED",
    "Enforcement",
    "Verdict",
]


class Enforcement(StrEnum):
    """How far an answer is held to a keyword."""

    ENFORCED = "enforced"
    NARROWED = "narrowed"
    """Enforced, and some texts that it would allow are left out as well."""
    ANNOTATION = "annotation"
    """Nothing to enforce: the specification makes it a note."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one occurrence of a keyword."""

    pointer: str
    """JSON pointer of the keyword."""
    enforcement: Enforcement
    note: str = ""


TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

ASSERTIONS = frozenset(
    {
        "additionalProperties",
        "const",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "prefixItems",
        "properties",
        "required",
        "type",
    }
)

APPLICATORS = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
"""Keywords that bring in other schemas for the same place."""

ANNOTATIONS = frozenset(
    {
        "$comment",
        "$defs",
        "$schema",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "default",
        "definitions",
        "deprecated",
        "description",
        "discriminator",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    }
)
"""Keywords that assert nothing where they stand; whatever no draft defines is one as well."""

UNSUPPORTED = frozenset(
    {
        "$anchor",
        "$dynamicAnchor",
        "$dynamicRef",
        "$id",
        "$recursiveAnchor",
        "$recursiveRef",
        "$vocabulary",
        "additionalItems",
        "contains",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "disallow",
        "divisibleBy",
        "else",
        "extends",
        "id",
        "if",
        "maxContains",
        "minContains",
        "not",
        "patternProperties",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    }
)
"""Keywords of some draft that no mask can hold an answer to yet."""

DIALECTS = frozenset(
    {
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    }
)
"""Values of ``$schema`` in which every supported keyword means the same."""
