"""Builds the grammar of call arguments in tags, one by one: texts as they are, the rest as JSON.

::

    {"city": "Oslo", "days": 3}  →  <parameter=city>⏎Oslo⏎</parameter>⏎<parameter=days>⏎3⏎…

The schema of the tool alone determines the content of a tag (``text_members``): a member that is
only a string, or a string or ``null``, is text up to the first end of its tag, and any other is
JSON. If a member may be ``null``, the text "null" means that. Both fit everything that the schema
says of the member. What the schema says of the arguments as a whole, except which members they
have, cannot be enforced and is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from guided.errors import UnsupportedFeatureError
from guided.spec.bare_string import BareString
from guided.spec.composition import AnyOf, Repeat, Sequence
from guided.spec.constraints import JsonSchema
from guided.spec.declared_types import DeclaredTypes
from guided.spec.schema_shape import NOTES, check_shape
from guided.spec.structure import Structure
from guided.spec.tagged import Until
from guided.spec.tools import Tool
from guided.spec.whole_schema import WholeSchema

__all__ = ["NULL", "MemberFormat", "members_of", "text_members", "write_members"]

NULL: Final = "null"
"""How ``null`` is written."""
_NAME: Final = re.compile(r"[\w.$-]{1,256}")
_ALLOWED_FOR_ARGUMENTS: Final = NOTES | {"additionalProperties", "properties", "required", "type"}
_TEXT_OR_NULL: Final = frozenset({"null", "string"})
_ALLOWED_FOR_ANY_TEXT: Final = NOTES | {"type"}


@dataclass(frozen=True, slots=True)
class MemberFormat:
    """The texts around the name and the value of an argument."""

    before_name: str
    before_value: str
    end: str

    def header(self, name: str) -> str:
        """Return the text before a value."""
        return f"{self.before_name}{name}{self.before_value}"


def members_of(tool: Tool, schema: JsonSchema, form: MemberFormat) -> Structure:
    """Return the constraint of arguments that fit a tool's schema, in the order of its properties.

    Raises UnsupportedFeatureError for what the format cannot enforce.
    """
    parsed = json.loads(schema.text)
    check_shape(parsed, "")
    _check_keywords(parsed)
    properties, required = parsed.get("properties", {}), parsed.get("required", [])
    if missing := [name for name in required if name not in properties]:
        raise _unsupported(f"no property says what {missing[0]!r} is", "/required")
    owed = frozenset(required)
    texts, whole = _text_members(parsed), WholeSchema(f"tool:{tool.name}", schema)
    parts: list[Structure] = []
    for name, value_schema in properties.items():
        pointer = f"/properties/{name}"
        if not _NAME.fullmatch(name):
            raise _unsupported(f"the name {name[:80]!r} cannot stand in a tag", pointer)
        header = form.header(name)
        if name not in texts:
            member: Structure = Sequence([header, whole.at(pointer), form.end])
        elif value_schema.keys() <= _ALLOWED_FOR_ANY_TEXT:
            member = Sequence([header, Until(form.end)])
        else:
            # One character of the header is the string's, so that no other part begins like it.
            rest: Structure = BareString(header[-1], whole.at(pointer), form.end)
            if texts[name]:
                rest = AnyOf([rest, f"{header[-1]}{NULL}{form.end}"])
            member = Sequence([header[:-1], rest])
        parts.append(member if name in owed else Repeat(member, 0, 1))
    return Sequence(parts)


def text_members(tool: Tool) -> Mapping[str, bool]:
    """Return the arguments that are written as text, each with whether it may be ``null``."""
    return _text_members(json.loads(tool.schema))


def _text_members(schema: Mapping[str, Any]) -> Mapping[str, bool]:
    """Return the text members of a parsed schema, each with whether it may be ``null``."""
    properties, types_of = schema.get("properties"), DeclaredTypes(schema)
    names = properties if isinstance(properties, dict) else ()
    types = {name: types_of.of_property(name) for name in names}
    return {name: "null" in of for name, of in types.items() if {"string"} <= of <= _TEXT_OR_NULL}


def write_members(arguments: str, form: MemberFormat) -> Iterator[str]:
    """Yield the arguments of a call as chat templates write them."""
    for name, value in json.loads(arguments).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"{form.header(name)}{text}{form.end}"


def _check_keywords(schema: Mapping[str, object]) -> None:
    for name in schema:
        if name not in _ALLOWED_FOR_ARGUMENTS:
            raise _unsupported(f"the keyword {name!r} is not held to", f"/{name}")


def _unsupported(what: str, pointer: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{what} where the model writes arguments in tags",
        pointer=pointer,
        hint="leave it out of the parameters, or nest the arguments in one of them",
    )
