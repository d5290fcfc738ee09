"""Closes the objects of a schema to further members, where that makes no other document valid.

In JSON Schema an object takes any members besides those that ``properties`` names, and a model that
may write more of them does so without end. OpenAI requires ``additionalProperties: false`` in
strict schemas; other clients omit it and mean it. So objects are closed::

    {"properties": {"a": {}}}  →  {"properties": {"a": {}}, "additionalProperties": false}

An object stays open where it says so itself (``additionalProperties``, ``patternProperties``, …),
where a neighbouring keyword may name members (``allOf``, ``$ref``, ``if``, …), where closing it
would leave no document, and where fewer documents of a part may mean more of the whole: under
``not``, ``if``, ``contains``, ``oneOf`` and the like. Branches of ``oneOf`` are closed only if a
member that all of them require distinguishes them, as in discriminated unions.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from guided.errors import InvalidConstraintError
from guided.spec.references import target_of
from guided.spec.telling_members import TellingMembers

__all__ = ["closed", "has_parts_with_ids"]

Schema: TypeAlias = dict[str, Any]

_SAYS_ITSELF: Final = frozenset(
    {
        "additionalProperties",
        "allOf",
        "anyOf",
        "dependencies",
        "dependentSchemas",
        "$dynamicRef",
        "else",
        "if",
        "minProperties",
        "not",
        "oneOf",
        "patternProperties",
        "propertyNames",
        "$recursiveRef",
        "$ref",
        "then",
        "unevaluatedProperties",
    }
)
"""Keywords next to which an object stays as it is."""

_KEEPS: Final = ("items", "additionalItems", "additionalProperties", "unevaluatedItems")
"""Keywords with a schema in which closing an object makes nothing else valid."""

_KEEPS_EACH: Final = ("properties", "patternProperties", "$defs", "definitions")
"""Such keywords with schemas by name. Definitions are closed unless an open part refers to them."""

_KEEPS_LISTED: Final = ("prefixItems", "anyOf", "items")
"""Such keywords with a list of schemas."""

_CHOICES: Final = ("$ref", "anyOf", "oneOf")
"""Keywords that stand for other schemas, which are closed if nothing is next to them."""

_NOTES: Final = frozenset(
    {
        "$comment",
        "$defs",
        "$id",
        "$schema",
        "default",
        "definitions",
        "deprecated",
        "description",
        "discriminator",
        "examples",
        "readOnly",
        "title",
        "type",
        "writeOnly",
    }
)
"""Keywords that do not concern members."""

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def closed(schema: Schema) -> Schema:
    """Return the schema with its objects closed; the given one is not changed.

    Raises InvalidConstraintError for a schema that nests too deeply to be traversed.
    """
    if has_parts_with_ids(schema):
        return schema  # only the compiler resolves references in it
    try:
        copy: Schema = _Closing(schema).of(schema)
    except RecursionError as error:
        raise InvalidConstraintError("the schema nests too deeply") from error
    return copy


class _Closing:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._telling = TellingMembers(root)
        self._open: dict[int, Any] = {}
        """Schemas that stay as they are, by id; kept referenced, so that no id is reused."""
        self._keep_open(root)

    def of(self, schema: Any) -> Any:
        """Return a copy of a schema, closed where possible."""
        if not isinstance(schema, dict) or id(schema) in self._open:
            return schema
        copy = dict(schema)
        for name in _KEEPS:
            if isinstance(copy.get(name), dict):
                copy[name] = self.of(copy[name])
        for name in _KEEPS_EACH:
            if isinstance(copy.get(name), dict):
                copy[name] = {each: self.of(part) for each, part in copy[name].items()}
        for name in (*_KEEPS_LISTED, "oneOf"):
            if isinstance(copy.get(name), list):
                copy[name] = [self.of(part) for part in copy[name]]
        if _may_be_closed(schema):
            copy["additionalProperties"] = False
        return copy

    def _keep_open(self, schema: Any) -> None:
        """Find what must stay open in a schema, and in all that it refers to from there."""
        if not isinstance(schema, dict):
            return
        apart = any(self._telling.of(schema.get("oneOf")).values())
        for name, part in schema.items():
            if name in _CHOICES and schema.keys() - _NOTES - {name}:
                # Neighbouring keywords may name members that closed schemas would not take.
                self._leave({name: part})
            elif name == "$ref":
                continue
            elif name in _KEEPS_EACH and isinstance(part, dict):
                for each in part.values():
                    self._keep_open(each)
            elif (name in _KEEPS_LISTED and isinstance(part, list)) or (name == "oneOf" and apart):
                for each in part:
                    self._keep_open(each)
            elif name in _KEEPS:
                self._keep_open(part)
            else:
                self._leave(part)

    def _leave(self, part: Any) -> None:
        """Leave open all schemas in some part of a schema, and those that they refer to."""
        waiting = [part]
        while waiting:
            at = waiting.pop()
            if isinstance(at, list):
                waiting.extend(at)
            elif isinstance(at, dict) and id(at) not in self._open:
                self._open[id(at)] = at
                waiting.extend(at.values())
                waiting.extend(self._target(at[name]) for name in _REFERENCES if name in at)

    def _target(self, reference: Any) -> Any:
        """Return the target of a reference, or the whole document if it is not obvious."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return self._root
        target = target_of(self._root, reference)
        return self._root if target is None else target


def _may_be_closed(schema: Schema) -> bool:
    members = schema.get("properties")
    if not isinstance(members, dict) or _SAYS_ITSELF & schema.keys():
        return False
    required = schema.get("required", [])
    # A member that is required but not named could not be written.
    return isinstance(required, list) and all(
        isinstance(name, str) and name in members for name in required
    )


def has_parts_with_ids(schema: Schema) -> bool:
    """Whether a part of the schema is, or may be, a document of its own."""
    waiting: list[Any] = [*schema.values()]
    while waiting:
        at = waiting.pop()
        if isinstance(at, list):
            waiting.extend(at)
        elif isinstance(at, dict):
            if "$id" in at or ("id" in at and isinstance(at["id"], str)):
                return True
            waiting.extend(at.values())
    return False
