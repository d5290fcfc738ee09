"""Every keyword of every draft: its role, the form of its value, and the drafts that define it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final, TypeAlias

from guided.errors import InvalidConstraintError
from guided.json_schema.formulas.values import Json, is_number
from guided.json_schema.reader.text import child_pointer, short_json

__all__ = ["KEYWORDS", "LATEST", "TYPES", "Draft", "Keyword", "Role", "check_form"]


class Draft(IntEnum):
    """A version of the specification; later versions are greater."""

    DRAFT_4 = 4
    DRAFT_6 = 6
    DRAFT_7 = 7
    DRAFT_2019_09 = 2019
    DRAFT_2020_12 = 2020

    @property
    def uri(self) -> str:
        """Its URI in ``$schema``, without the empty fragment."""
        if self <= Draft.DRAFT_7:
            return f"http://json-schema.org/draft-0{self.value}/schema"
        return f"https://json-schema.org/draft/{self.label}/schema"

    @property
    def label(self) -> str:
        """Its common name."""
        return {2019: "2019-09", 2020: "2020-12"}.get(self.value, f"draft {self.value}")


LATEST = Draft.DRAFT_2020_12
TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_Schemas: TypeAlias = Iterable[tuple[str, Json]]
"""Schemas, each with its JSON pointer relative to the value of the keyword."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a keyword's value."""

    phrase: str
    """Describes such a value, for the message about an invalid one."""
    is_valid: Callable[[Json], bool]
    subschemas: Callable[[Json], _Schemas] | None = None
    """Returns the schemas in a valid value."""


def check_form(keyword: str, value: Json, form: Form, pointer: str) -> None:
    """Raise InvalidConstraintError for an invalid value; ``pointer`` is that of the schema.

    For the forms TYPE and NAMES, which are recognised by identity, the error says which name is
    wrong. The hint is for the ``required`` of draft 3, true or false in the schema of a member.
    """
    if form.is_valid(value):
        return
    here = child_pointer(pointer, keyword)
    if form is TYPE and (isinstance(value, str) or _is_names(value)):
        names = value if isinstance(value, list) else [value]
        wrong = next((name for name in names if name not in TYPES), None)
        if wrong is not None:
            raise InvalidConstraintError(
                f"{short_json(wrong)} is no type", pointer=here, hint="one of " + ", ".join(TYPES)
            )
    if form is NAMES and isinstance(value, list):
        index = next(index for index, name in enumerate(value) if not isinstance(name, str))
        raise InvalidConstraintError(
            f"{keyword} lists names, not {short_json(value[index])}",
            pointer=child_pointer(here, index),
        )
    raise InvalidConstraintError(
        f"{keyword} is {form.phrase}, not {short_json(value)}",
        pointer=here,
        hint="list the names in the object's own 'required'" if form is NAMES else None,
    )


def _is_schema(value: Json) -> bool:
    return isinstance(value, dict | bool)


def _is_count(value: Json) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


def _is_names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_type(value: Json) -> bool:
    """Return whether it is a type, or a list of at least one type."""
    if isinstance(value, str):
        return value in TYPES
    return bool(value) and _is_names(value) and all(name in TYPES for name in value)


def _only_schema(value: Json) -> _Schemas:
    return (("", value),)


def _by_index(value: Json) -> _Schemas:
    return [(f"/{index}", schema) for index, schema in enumerate(value)]


def _by_name(value: Json) -> _Schemas:
    return [(child_pointer("", name), schema) for name, schema in value.items()]


def _item_schemas(value: Json) -> _Schemas:
    return _by_index(value) if isinstance(value, list) else _only_schema(value)


def _dependent_schemas(value: Json) -> _Schemas:
    return _by_name({name: item for name, item in value.items() if not isinstance(item, list)})


ANYTHING = Form("a value", lambda _: True)
BOOLEAN = Form("true or false", lambda value: isinstance(value, bool))
NUMBER = Form("a number", is_number)
BOUND_SWITCH = Form(
    "a number, or true or false as in draft 4",
    lambda value: is_number(value) or isinstance(value, bool),
)
POSITIVE = Form("a number above 0", lambda value: is_number(value) and value > 0)
COUNT = Form("a whole number from 0 on", _is_count)
STRING = Form("a string", lambda value: isinstance(value, str))
LIST = Form("a list", lambda value: isinstance(value, list))
OBJECT = Form("an object", lambda value: isinstance(value, dict))
NAMES: Final = Form("a list", _is_names)
NAMES_BY_NAME = Form(
    "an object of lists of names",
    lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
)
TYPE: Final = Form("a name or a list of at least one name", _is_type)
SCHEMA = Form("a schema", _is_schema, _only_schema)
SCHEMAS = Form(
    "a list of at least one schema",
    lambda value: isinstance(value, list) and bool(value),
    _by_index,
)
SCHEMAS_BY_NAME = Form("an object", lambda value: isinstance(value, dict), _by_name)
ITEMS = Form(
    "a schema or a list of schemas",
    lambda value: isinstance(value, dict | list | bool),
    _item_schemas,
)
DEPENDENCIES = Form(
    "an object of schemas and lists of names",
    lambda value: (
        isinstance(value, dict)
        and all(_is_schema(item) or _is_names(item) for item in value.values())
    ),
    _dependent_schemas,
)


class Role(StrEnum):
    """The role of a keyword."""

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
    """A note for the table in the documentation."""


_4, _6, _7, _2019, _2020 = Draft
_STILL_USED = "the draft drops it, and schemas still use it: enforced as in the drafts before"
KEYWORDS: tuple[Keyword, ...] = (
    # --- identifiers ----------------------------------------------------------------------
    Keyword("$schema", Role.IDENTIFIER, STRING, "core", note="chooses the draft"),
    Keyword("$vocabulary", Role.IDENTIFIER, OBJECT, "core", _2019),
    Keyword("id", Role.IDENTIFIER, STRING, "core", last=_4),
    Keyword("$id", Role.IDENTIFIER, STRING, "core", _6),
    Keyword("$anchor", Role.IDENTIFIER, STRING, "core", _2019),
    Keyword("$recursiveAnchor", Role.IDENTIFIER, BOOLEAN, "core", _2019, _2019),
    Keyword("$dynamicAnchor", Role.IDENTIFIER, STRING, "core", _2020),
    Keyword("definitions", Role.IDENTIFIER, SCHEMAS_BY_NAME, "core", note="holds schemas"),
    Keyword("$defs", Role.IDENTIFIER, SCHEMAS_BY_NAME, "core", _2019, note="holds schemas"),
    # --- references -----------------------------------------------------------------------
    Keyword(
        "$ref",
        Role.APPLICATOR,
        STRING,
        "core",
        note="into the schema itself, the documents given with it and the metaschemas; never "
        "fetched; hides the keywords beside it up to draft 7",
    ),
    Keyword("$recursiveRef", Role.APPLICATOR, STRING, "core", _2019, _2019),
    Keyword("$dynamicRef", Role.APPLICATOR, STRING, "core", _2020),
    # --- any value ------------------------------------------------------------------------
    Keyword("type", Role.ASSERTION, TYPE, "validation"),
    Keyword("enum", Role.ASSERTION, LIST, "validation"),
    Keyword("const", Role.ASSERTION, ANYTHING, "validation", _6),
    Keyword("allOf", Role.APPLICATOR, SCHEMAS, "applicator"),
    Keyword("anyOf", Role.APPLICATOR, SCHEMAS, "applicator"),
    Keyword("oneOf", Role.APPLICATOR, SCHEMAS, "applicator"),
    Keyword("not", Role.APPLICATOR, SCHEMA, "applicator"),
    Keyword("if", Role.APPLICATOR, SCHEMA, "applicator", _7),
    Keyword("then", Role.APPLICATOR, SCHEMA, "applicator", _7, note="only beside `if`"),
    Keyword("else", Role.APPLICATOR, SCHEMA, "applicator", _7, note="only beside `if`"),
    # --- numbers --------------------------------------------------------------------------
    Keyword(
        "multipleOf",
        Role.ASSERTION,
        POSITIVE,
        "validation",
        note="exact, in decimal; see the limits",
    ),
    Keyword("maximum", Role.ASSERTION, NUMBER, "validation"),
    Keyword(
        "exclusiveMaximum",
        Role.ASSERTION,
        BOUND_SWITCH,
        "validation",
        note="a truth value only beside `maximum`",
    ),
    Keyword("minimum", Role.ASSERTION, NUMBER, "validation"),
    Keyword(
        "exclusiveMinimum",
        Role.ASSERTION,
        BOUND_SWITCH,
        "validation",
        note="a truth value only beside `minimum`",
    ),
    # --- strings --------------------------------------------------------------------------
    Keyword("maxLength", Role.ASSERTION, COUNT, "validation", note="counts code points"),
    Keyword("minLength", Role.ASSERTION, COUNT, "validation", note="counts code points"),
    Keyword("pattern", Role.ASSERTION, STRING, "validation", note="ECMA-262"),
    Keyword(
        "format",
        Role.ASSERTION,
        STRING,
        "format-annotation",
        note="asserted unless the options say otherwise; unknown formats are notes",
    ),
    # --- arrays ---------------------------------------------------------------------------
    Keyword("prefixItems", Role.APPLICATOR, SCHEMAS, "applicator", _2020),
    Keyword(
        "items",
        Role.APPLICATOR,
        ITEMS,
        "applicator",
        note="a list means items by position, which 2020-12 itself calls `prefixItems`",
    ),
    Keyword(
        "additionalItems",
        Role.APPLICATOR,
        SCHEMA,
        "applicator",
        note="only beside a list of `items`",
    ),
    Keyword("contains", Role.APPLICATOR, SCHEMA, "applicator", _6),
    Keyword("maxContains", Role.ASSERTION, COUNT, "validation", _2019),
    Keyword("minContains", Role.ASSERTION, COUNT, "validation", _2019),
    Keyword("maxItems", Role.ASSERTION, COUNT, "validation"),
    Keyword("minItems", Role.ASSERTION, COUNT, "validation"),
    Keyword("uniqueItems", Role.ASSERTION, BOOLEAN, "validation"),
    Keyword("unevaluatedItems", Role.APPLICATOR, SCHEMA, "unevaluated", _2019),
    # --- objects --------------------------------------------------------------------------
    Keyword("properties", Role.APPLICATOR, SCHEMAS_BY_NAME, "applicator"),
    Keyword("patternProperties", Role.APPLICATOR, SCHEMAS_BY_NAME, "applicator"),
    Keyword("additionalProperties", Role.APPLICATOR, SCHEMA, "applicator"),
    Keyword("propertyNames", Role.APPLICATOR, SCHEMA, "applicator", _6),
    Keyword("maxProperties", Role.ASSERTION, COUNT, "validation"),
    Keyword("minProperties", Role.ASSERTION, COUNT, "validation"),
    Keyword("required", Role.ASSERTION, NAMES, "validation"),
    Keyword("dependentRequired", Role.ASSERTION, NAMES_BY_NAME, "validation", _2019),
    Keyword("dependentSchemas", Role.APPLICATOR, SCHEMAS_BY_NAME, "applicator", _2019),
    Keyword("dependencies", Role.APPLICATOR, DEPENDENCIES, "applicator", last=_7),
    Keyword(
        "dependencies",
        Role.APPLICATOR,
        DEPENDENCIES,
        "applicator",
        _2019,
        note=_STILL_USED,
    ),
    Keyword("unevaluatedProperties", Role.APPLICATOR, SCHEMA, "unevaluated", _2019),
    # --- annotations ----------------------------------------------------------------------
    Keyword("title", Role.ANNOTATION, ANYTHING, "meta-data"),
    Keyword("description", Role.ANNOTATION, ANYTHING, "meta-data"),
    Keyword("default", Role.ANNOTATION, ANYTHING, "meta-data"),
    Keyword("examples", Role.ANNOTATION, ANYTHING, "meta-data", _6),
    Keyword("$comment", Role.ANNOTATION, ANYTHING, "core", _7),
    Keyword("readOnly", Role.ANNOTATION, ANYTHING, "meta-data", _7),
    Keyword("writeOnly", Role.ANNOTATION, ANYTHING, "meta-data", _7),
    Keyword("deprecated", Role.ANNOTATION, ANYTHING, "meta-data", _2019),
    Keyword("contentMediaType", Role.ANNOTATION, ANYTHING, "content", _7),
    Keyword("contentEncoding", Role.ANNOTATION, ANYTHING, "content", _7),
    Keyword("contentSchema", Role.ANNOTATION, ANYTHING, "content", _2019),
)
"""In the order of the specification."""
