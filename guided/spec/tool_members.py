"""Arguments that a format of calls writes one by one, in tags: texts as they are, the rest as JSON.

::

    {"city": "Oslo", "days": 3}  →  <parameter=city>⏎Oslo⏎</parameter>⏎<parameter=days>⏎3⏎…

What stands in a tag is known by the schema of the tool alone: a member of type ``string`` is text,
up to the first end of its tag, and any other is JSON. A schema that says more of a text than which
texts there are, or of the arguments than which members they have, cannot be held to and is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from guided.errors import UnsupportedFeatureError
from guided.spec.composition import Repeat, Sequence
from guided.spec.constraints import Choice, JsonSchema
from guided.spec.structure import Structure
from guided.spec.tagged import Until

__all__ = ["MemberFormat", "members_of", "text_members", "written_members"]

_NAME: Final = re.compile(r"[\w.$-]{1,256}")
_NOTES: Final = frozenset(
    {"$comment", "default", "deprecated", "description", "examples", "readOnly", "title"}
)
_OF_OBJECT: Final = _NOTES | {
    *("$defs", "$schema", "additionalProperties", "definitions"),
    *("properties", "required", "type"),
}
_SHARED: Final = ("#/$defs/", "#/definitions/")
_OF_TEXT: Final = _NOTES | {"const", "enum", "type"}


@dataclass(frozen=True, slots=True)
class MemberFormat:
    """What stands around the name and the value of an argument."""

    before_name: str
    before_value: str
    end: str

    def header(self, name: str) -> str:
        """What stands before a value."""
        return f"{self.before_name}{name}{self.before_value}"


def members_of(schema: JsonSchema, form: MemberFormat) -> Structure:
    """The constraint of arguments that fit a schema, in the order of its properties.

    Raises UnsupportedFeatureError for what the format cannot be held to.
    """
    read = json.loads(schema.text)
    _check_keywords(read, _OF_OBJECT, "")
    properties, required = read.get("properties", {}), read.get("required", [])
    if missing := [name for name in required if name not in properties]:
        raise _unsupported(f"no property says what {missing[0]!r} is", "/required")
    shared = {name: read[name] for name in ("$defs", "definitions") if name in read}
    parts: list[Structure] = []
    for name, told in properties.items():
        pointer = f"/properties/{name}"
        if not _NAME.fullmatch(name):
            raise _unsupported(f"the name {name[:80]!r} cannot stand in a tag", pointer)
        member = Sequence([form.header(name), _value(told, shared, form.end, pointer)])
        parts.append(member if name in required else Repeat(member, 0, 1))
    return Sequence(parts)


def text_members(parameters: str) -> frozenset[str]:
    """The names of arguments that are written as text, by the schema of a tool as text."""
    properties = json.loads(parameters).get("properties", {}) if parameters else {}
    return frozenset(name for name, told in properties.items() if _is_text(told))


def written_members(arguments: str, form: MemberFormat) -> Iterator[str]:
    """The arguments of a call as chat templates write them."""
    for name, value in json.loads(arguments).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"{form.header(name)}{text}{form.end}"


def _is_text(told: object) -> bool:
    return isinstance(told, dict) and told.get("type") == "string"


def _value(told: Any, shared: Mapping[str, Any], end: str, pointer: str) -> Structure:
    """The constraint of a value with what ends it."""
    if not _is_text(told):
        _check_references([told, shared], pointer)
        whole = told if isinstance(told, bool) else {**shared, **told}
        schema = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
        return Sequence([JsonSchema(schema), end])
    _check_keywords(told, _OF_TEXT, pointer)
    texts = [told["const"]] if "const" in told else told.get("enum")
    if texts is None:
        return Until(end)
    texts = [text for text in texts if isinstance(text, str)]
    if odd := [text for text in texts if f"{text}{end}".find(end) < len(text)]:
        raise _unsupported(f"the text {odd[0][:80]!r} ends its own tag", pointer)
    return Sequence([Choice(texts), end])


def _check_references(schema: Any, pointer: str) -> None:
    """Refuse references to what a value by itself has not: the arguments as a whole are gone."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            to = part.get("$ref")
            if isinstance(to, str) and to.startswith("#") and not to.startswith(_SHARED):
                raise _unsupported(f"the reference to {to[:80]!r} is not held to", pointer)
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _check_keywords(schema: Mapping[str, object], known: frozenset[str], pointer: str) -> None:
    for name in schema:
        if name not in known:
            raise _unsupported(f"the keyword {name!r} is not held to", f"{pointer}/{name}")


def _unsupported(what: str, pointer: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{what} where the model writes arguments in tags",
        pointer=pointer,
        hint="leave it out of the parameters, or nest the arguments in one of them",
    )
