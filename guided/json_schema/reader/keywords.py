"""Every keyword of every draft: its form, the drafts that define it, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from guided.json_schema.reader import forms
from guided.json_schema.reader.drafts import Draft
from guided.json_schema.reader.forms import Form

__all__ = ["KEYWORDS", "Keyword", "Role"]


class Role(StrEnum):
    """What a keyword is for."""

    ASSERTION = "assertion"
    APPLICATOR = "applicator"
    """Applies other schemas to the value, its members or its items."""
    IDENTIFIER = "identifier"
    """Names a schema or says how to read it."""
    ANNOTATION = "annotation"
    """Asserts nothing."""


@dataclass(frozen=True, slots=True)
class Keyword:
    """One keyword as a range of drafts defines it."""

    name: str
    role: Role
    form: Form
    vocabulary: str
    """The vocabulary of draft 2020-12 that defines it, by the last part of its URI."""
    first: Draft = Draft.DRAFT_4
    last: Draft = Draft.DRAFT_2020_12
    note: str = ""
    """What there is to know beyond that it is enforced or not."""


_4, _6, _7, _2019, _2020 = Draft
_KEPT = "the draft drops it, and schemas still use it: enforced as in the drafts before"

KEYWORDS: tuple[Keyword, ...] = (
    # --- identifiers ----------------------------------------------------------------------
    Keyword("$schema", Role.IDENTIFIER, forms.STRING, "core", note="chooses the draft"),
    Keyword("$vocabulary", Role.IDENTIFIER, forms.OBJECT, "core", _2019),
    Keyword("id", Role.IDENTIFIER, forms.STRING, "core", last=_4),
    Keyword("$id", Role.IDENTIFIER, forms.STRING, "core", _6),
    Keyword("$anchor", Role.IDENTIFIER, forms.STRING, "core", _2019),
    Keyword("$recursiveAnchor", Role.IDENTIFIER, forms.BOOLEAN, "core", _2019, _2019),
    Keyword("$dynamicAnchor", Role.IDENTIFIER, forms.STRING, "core", _2020),
    Keyword("definitions", Role.IDENTIFIER, forms.SCHEMAS_BY_NAME, "core", note="holds schemas"),
    Keyword("$defs", Role.IDENTIFIER, forms.SCHEMAS_BY_NAME, "core", _2019, note="holds schemas"),
    # --- references -----------------------------------------------------------------------
    Keyword(
        "$ref",
        Role.APPLICATOR,
        forms.STRING,
        "core",
        note="into the schema itself, the documents given with it and the metaschemas; never "
        "fetched; hides the keywords beside it up to draft 7",
    ),
    Keyword("$recursiveRef", Role.APPLICATOR, forms.STRING, "core", _2019, _2019),
    Keyword("$dynamicRef", Role.APPLICATOR, forms.STRING, "core", _2020),
    # --- any value ------------------------------------------------------------------------
    Keyword("type", Role.ASSERTION, forms.TYPE, "validation"),
    Keyword("enum", Role.ASSERTION, forms.LISTED, "validation"),
    Keyword("const", Role.ASSERTION, forms.ANYTHING, "validation", _6),
    Keyword("allOf", Role.APPLICATOR, forms.SCHEMAS, "applicator"),
    Keyword("anyOf", Role.APPLICATOR, forms.SCHEMAS, "applicator"),
    Keyword("oneOf", Role.APPLICATOR, forms.SCHEMAS, "applicator"),
    Keyword("not", Role.APPLICATOR, forms.SCHEMA, "applicator"),
    Keyword("if", Role.APPLICATOR, forms.SCHEMA, "applicator", _7),
    Keyword("then", Role.APPLICATOR, forms.SCHEMA, "applicator", _7, note="only beside `if`"),
    Keyword("else", Role.APPLICATOR, forms.SCHEMA, "applicator", _7, note="only beside `if`"),
    # --- numbers --------------------------------------------------------------------------
    Keyword("multipleOf", Role.ASSERTION, forms.POSITIVE, "validation", note="exact, in decimal"),
    Keyword("maximum", Role.ASSERTION, forms.NUMBER, "validation"),
    Keyword("exclusiveMaximum", Role.ASSERTION, forms.BOUND_SWITCH, "validation"),
    Keyword("minimum", Role.ASSERTION, forms.NUMBER, "validation"),
    Keyword("exclusiveMinimum", Role.ASSERTION, forms.BOUND_SWITCH, "validation"),
    # --- strings --------------------------------------------------------------------------
    Keyword("maxLength", Role.ASSERTION, forms.COUNT, "validation", note="counts code points"),
    Keyword("minLength", Role.ASSERTION, forms.COUNT, "validation", note="counts code points"),
    Keyword("pattern", Role.ASSERTION, forms.STRING, "validation", note="ECMA-262"),
    Keyword(
        "format",
        Role.ASSERTION,
        forms.STRING,
        "format-annotation",
        note="asserted unless the options say otherwise; unknown formats are notes",
    ),
    # --- arrays ---------------------------------------------------------------------------
    Keyword("prefixItems", Role.APPLICATOR, forms.SCHEMAS, "applicator", _2020),
    Keyword(
        "items",
        Role.APPLICATOR,
        forms.ITEMS,
        "applicator",
        note="a list means items by position, which 2020-12 itself calls `prefixItems`",
    ),
    Keyword(
        "additionalItems",
        Role.APPLICATOR,
        forms.SCHEMA,
        "applicator",
        note="only beside a list of `items`",
    ),
    Keyword("contains", Role.APPLICATOR, forms.SCHEMA, "applicator", _6),
    Keyword("maxContains", Role.ASSERTION, forms.COUNT, "validation", _2019),
    Keyword("minContains", Role.ASSERTION, forms.COUNT, "validation", _2019),
    Keyword("maxItems", Role.ASSERTION, forms.COUNT, "validation"),
    Keyword("minItems", Role.ASSERTION, forms.COUNT, "validation"),
    Keyword("uniqueItems", Role.ASSERTION, forms.BOOLEAN, "validation"),
    Keyword("unevaluatedItems", Role.APPLICATOR, forms.SCHEMA, "unevaluated", _2019),
    # --- objects --------------------------------------------------------------------------
    Keyword("properties", Role.APPLICATOR, forms.SCHEMAS_BY_NAME, "applicator"),
    Keyword("patternProperties", Role.APPLICATOR, forms.SCHEMAS_BY_NAME, "applicator"),
    Keyword("additionalProperties", Role.APPLICATOR, forms.SCHEMA, "applicator"),
    Keyword("propertyNames", Role.APPLICATOR, forms.SCHEMA, "applicator", _6),
    Keyword("maxProperties", Role.ASSERTION, forms.COUNT, "validation"),
    Keyword("minProperties", Role.ASSERTION, forms.COUNT, "validation"),
    Keyword("required", Role.ASSERTION, forms.NAMES, "validation"),
    Keyword("dependentRequired", Role.ASSERTION, forms.NAMES_BY_NAME, "validation", _2019),
    Keyword("dependentSchemas", Role.APPLICATOR, forms.SCHEMAS_BY_NAME, "applicator", _2019),
    Keyword("dependencies", Role.APPLICATOR, forms.DEPENDENCIES, "applicator", last=_7),
    Keyword(
        "dependencies",
        Role.APPLICATOR,
        forms.DEPENDENCIES,
        "applicator",
        _2019,
        note=_KEPT,
    ),
    Keyword("unevaluatedProperties", Role.APPLICATOR, forms.SCHEMA, "unevaluated", _2019),
    # --- annotations ----------------------------------------------------------------------
    Keyword("title", Role.ANNOTATION, forms.ANYTHING, "meta-data"),
    Keyword("description", Role.ANNOTATION, forms.ANYTHING, "meta-data"),
    Keyword("default", Role.ANNOTATION, forms.ANYTHING, "meta-data"),
    Keyword("examples", Role.ANNOTATION, forms.ANYTHING, "meta-data", _6),
    Keyword("$comment", Role.ANNOTATION, forms.ANYTHING, "core", _7),
    Keyword("readOnly", Role.ANNOTATION, forms.ANYTHING, "meta-data", _7),
    Keyword("writeOnly", Role.ANNOTATION, forms.ANYTHING, "meta-data", _7),
    Keyword("deprecated", Role.ANNOTATION, forms.ANYTHING, "meta-data", _2019),
    Keyword("contentMediaType", Role.ANNOTATION, forms.ANYTHING, "content", _7),
    Keyword("contentEncoding", Role.ANNOTATION, forms.ANYTHING, "content", _7),
    Keyword("contentSchema", Role.ANNOTATION, forms.ANYTHING, "content", _2019),
)
"""In the order in which the specification goes through them."""
