"""Closes the objects of a schema to further members, where that makes no other document valid.

In JSON Schema an object takes any members besides those that ``properties`` names, and a model that
may write more of them does so without end. OpenAI requires ``additionalProperties: false`` in
strict schemas; other clients omit it and mean it. So objects are closed::

    {"properties": {"a": {}}}  →  {"properties": {"a": {}}, "additionalProperties": false}

An object stays open if one of its keywords says so (``additionalProperties``,
``patternProperties``, …), if a neighbouring keyword may name members (``allOf``, ``$ref``, ``if``,
…), if closing it would leave no document, and if fewer documents of a part may mean more of the
whole: under ``not``, ``if``, ``contains``, ``oneOf`` and the like. Branches of ``oneOf`` are closed
only if a member that all of them require distinguishes them, as in discriminated unions.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from guided.errors import InvalidConstraintError
from guided.spec.discriminators import Discriminators
from guided.spec.references import pointer_of, target_of
from guided.spec.schema_shape import NOTES

__all__ = ["close_objects", "has_parts_with_ids"]

Schema: TypeAlias = dict[str, Any]

_KEEPS_OBJECT_OPEN: Final = frozenset(
    {
        *("additionalProperties", "allOf", "anyOf", "dependencies", "dependentSchemas"),
        *("$dynamicRef", "else", "if", "minProperties", "not", "oneOf", "patternProperties"),
        *("propertyNames", "$recursiveRef", "$ref", "then", "unevaluatedProperties"),
    }
)
"""Keywords of an object that keep it open."""

_SCHEMA_KEYWORDS: Final = ("items", "additionalItems", "additionalProperties", "unevaluatedItems")
"""Keywords with one schema, in which closing an object makes no other document valid."""

_SCHEMA_MAP_KEYWORDS: Final = ("properties", "patternProperties", "$defs", "definitions")
"""The same with schemas by name. Definitions are closed unless an open part refers to them."""

_SCHEMA_LIST_KEYWORDS: Final = ("prefixItems", "anyOf", "items")
"""The same with a list of schemas."""

_APPLICATORS: Final = ("$ref", "anyOf", "oneOf")
"""Keywords that apply other schemas, which are closed if no keyword with an effect is next to them.
"""

_WITHOUT_EFFECT: Final = NOTES | {"$id", "type"}
"""Keywords without an effect on the members of objects."""

_MAPS: Final = frozenset({*_SCHEMA_MAP_KEYWORDS, "dependencies", "dependentSchemas"})
"""All keywords with schemas by name."""
_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords with values, not schemas."""
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def close_objects(schema: Schema) -> Schema:
    """Return the schema with its objects closed; the given one is not changed.

    Raises InvalidConstraintError for a schema that nests too deeply to be traversed.
    """
    if has_parts_with_ids(schema):
        return schema  # only the compiler resolves references in it
    try:
        copy: Schema = _Closer(schema).close(schema)
    except RecursionError as error:
        raise InvalidConstraintError("the schema nests too deeply") from error
    return copy


class _Closer:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._discriminators = Discriminators(root)
        self._open: dict[int, Any] = {}
        """Schemas that must stay open, and lists of them, by identity; kept referenced, so that no
        identity is reused."""
        self._keep_open(root)

    def close(self, schema: Any) -> Any:
        """Return a copy of a schema, closed where possible."""
        if not isinstance(schema, dict) or id(schema) in self._open:
            return schema
        copy = dict(schema)
        for name in _SCHEMA_KEYWORDS:
            if isinstance(copy.get(name), dict):
                copy[name] = self.close(copy[name])
        for name in _SCHEMA_MAP_KEYWORDS:
            if isinstance(copy.get(name), dict):
                copy[name] = {each: self.close(part) for each, part in copy[name].items()}
        for name in (*_SCHEMA_LIST_KEYWORDS, "oneOf"):
            if isinstance(copy.get(name), list):
                copy[name] = [self.close(part) for part in copy[name]]
        if _may_be_closed(schema):
            copy["additionalProperties"] = False
        return copy

    def _keep_open(self, schema: Any) -> None:
        """Find what must stay open in a schema and in all that it refers to."""
        if not isinstance(schema, dict):
            return
        is_discriminated = any(self._discriminators.of(schema.get("oneOf")).values())
        for name, part in schema.items():
            if name in _APPLICATORS and schema.keys() - _WITHOUT_EFFECT - {name}:
                # Neighbouring keywords may name members that closed schemas would not take.
                self._keep_all_open({name: part})
            elif name == "$ref":
                continue
            elif name in _SCHEMA_MAP_KEYWORDS and isinstance(part, dict):
                for each in part.values():
                    self._keep_open(each)
            elif (name in _SCHEMA_LIST_KEYWORDS and isinstance(part, list)) or (
                name == "oneOf" and is_discriminated
            ):
                for each in part:
                    self._keep_open(each)
            elif name in _SCHEMA_KEYWORDS:
                self._keep_open(part)
            else:
                self._keep_all_open(part)

    def _keep_all_open(self, part: Any) -> None:
        """Add all schemas in a part of a schema, and those that they refer to, to the open ones."""
        worklist = [part]
        while worklist:
            value = worklist.pop()
            if not isinstance(value, dict | list) or id(value) in self._open:
                continue
            self._open[id(value)] = value
            if isinstance(value, list):
                worklist.extend(value)
            else:
                worklist.extend(value.values())
                worklist.extend(self._target(value[name]) for name in _REFERENCES if name in value)

    def _target(self, reference: Any) -> Any:
        """Return the target of a reference, or the whole document if it is not obvious."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return self._root
        target = target_of(self._root, reference)
        return self._root if target is None else target


def _may_be_closed(schema: Schema) -> bool:
    members = schema.get("properties")
    if not isinstance(members, dict) or _KEEPS_OBJECT_OPEN & schema.keys():
        return False
    dependent = schema.get("dependentRequired", {})
    lists = [
        schema.get("required", []),
        *(dependent.values() if isinstance(dependent, dict) else ()),
    ]
    # A member that is required but not named could not be written.
    return all(
        isinstance(required, list)
        and all(isinstance(name, str) and name in members for name in required)
        for required in lists
    )


def has_parts_with_ids(schema: Schema) -> bool:
    """Return whether a schema inside this one has an id, so that references start at it.

    The id of the whole does not count, nor do ids in values, such as those of ``examples``.
    ``True`` in doubt: objects then stay open, and ``LiteralSchema`` refuses the schema.
    """
    worklist = _parts_of(schema)
    while worklist:
        value = worklist.pop()
        if isinstance(value, list):
            worklist.extend(value)
        elif isinstance(value, dict):
            # "id" is draft 4's keyword.
            if "$id" in value or isinstance(value.get("id"), str) or _refers_to_value(value):
                return True
            worklist.extend(_parts_of(value))
    return _refers_to_value(schema)


def _parts_of(schema: Schema) -> list[Any]:
    """Return what may be schemas in the keywords of a schema."""
    parts: list[Any] = []
    for name, part in schema.items():
        if name in _MAPS and isinstance(part, dict):
            parts.extend(part.values())  # its keys are names, whatever they say
        elif name not in _VALUES:
            parts.append(part)
    return parts


def _refers_to_value(schema: Schema) -> bool:
    """Return whether a schema may refer to one in what is a value elsewhere, see ``_VALUES``."""
    pointers = (pointer_of(schema.get(name)) or "" for name in _REFERENCES)
    return any(not _VALUES.isdisjoint(pointer.split("/")) for pointer in pointers)
