"""What the value of a keyword has to look like, and which of its parts are schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from guided.errors import InvalidConstraintError
from guided.json_schema.reader.pointers import child
from guided.json_schema.reader.reader import Json, is_number, json_text

__all__ = [
    "ANYTHING",
    "BOOLEAN",
    "BOUND_SWITCH",
    "COUNT",
    "DEPENDENCIES",
    "ITEMS",
    "LISTED",
    "NAMES",
    "NAMES_BY_NAME",
    "NUMBER",
    "OBJECT",
    "POSITIVE",
    "SCHEMA",
    "SCHEMAS",
    "SCHEMAS_BY_NAME",
    "STRING",
    "TYPE",
    "TYPES",
    "Form",
    "check_form",
]

TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")

_Schemas: TypeAlias = Iterable[tuple[str, Json]]
"""Schemas, each behind the JSON pointer that leads to it from the value of the keyword."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a keyword's value."""

    phrase: str
    """What such a value is, for the message about one that is not."""
    fits: Callable[[Json], bool]
    subschemas: Callable[[Json], _Schemas] | None = None
    """The schemas in a value."""


def check_form(keyword: str, value: Json, form: Form, pointer: str) -> None:
    """Raise InvalidConstraintError for a value that does not fit; ``pointer`` is the schema's."""
    if form.fits(value):
        return
    here = child(pointer, keyword)
    if form is TYPE and (isinstance(value, str) or _is_names(value)):
        names = value if isinstance(value, list) else [value]
        wrong = next((name for name in names if name not in TYPES), None)
        if wrong is not None:
            raise InvalidConstraintError(
                f"{json_text(wrong)} is no type", pointer=here, hint="one of " + ", ".join(TYPES)
            )
    if form is NAMES and isinstance(value, list):
        index = next(index for index, name in enumerate(value) if not isinstance(name, str))
        raise InvalidConstraintError(
            f"{keyword} lists names, not {json_text(value[index])[:40]}", pointer=child(here, index)
        )
    raise InvalidConstraintError(
        f"{keyword} is {form.phrase}, not {json_text(value)[:40]}",
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
    if isinstance(value, str):
        return value in TYPES
    return bool(value) and _is_names(value) and all(name in TYPES for name in value)


def _here(value: Json) -> _Schemas:
    return (("", value),)


def _by_index(value: Json) -> _Schemas:
    return [(f"/{index}", schema) for index, schema in enumerate(value)]


def _by_name(value: Json) -> _Schemas:
    return [(child("", name), schema) for name, schema in value.items()]


def _item_schemas(value: Json) -> _Schemas:
    return _by_index(value) if isinstance(value, list) else _here(value)


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
LISTED = Form("a list", lambda value: isinstance(value, list))
OBJECT = Form("an object", lambda value: isinstance(value, dict))
NAMES: Final = Form("a list", _is_names)
NAMES_BY_NAME = Form(
    "an object of lists of names",
    lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
)
TYPE: Final = Form("a name or a list of at least one name", _is_type)
SCHEMA = Form("a schema", _is_schema, _here)
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
