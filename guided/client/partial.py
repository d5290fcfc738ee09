"""Builds partial answers of a Python type while they grow, from pydantic's core schema of the type.

Complete values are read by their part of the type, with all of its validators. For incomplete
values no user code runs: models, dataclasses, typed dictionaries, lists and dictionaries hold what
has come of them, strings the text so far, and everything else waits for its end.

What is complete stays as it is, so of an open list only the last item is made anew::

    [{"a": 1}, {"a": 2}, {"a": 3    kept: the first two items; made now: the third, and a list
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from itertools import islice
from typing import Any, Final, Generic, TypeVar, cast

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticUndefined, SchemaValidator, core_schema

from guided.client.growing_json import GrowingJson, KeptParts, Node
from guided.errors import LimitExceededError
from guided.response_types.core_schema import CoreSchema, parts

__all__ = ["Partials"]

T = TypeVar("T")

_MISSING: Final[Any] = object()
"""Stands for a value that has not begun, or that cannot be shown yet."""

_ANY: Final[CoreSchema] = {"type": "any"}
_HAS_OWN_FIELDS: Final = frozenset({"model-fields", "dataclass-args", "typed-dict"})


class Partials(Generic[T]):
    """The answer of one type at any moment of its growth."""

    def __init__(self, adapter: TypeAdapter[T] | None, context: Any = None) -> None:
        """Without an adapter the answer is the JSON itself; ``context`` is for validators."""
        schema: CoreSchema = _ANY if adapter is None else adapter.core_schema
        self._definitions: list[Any] = []
        if schema["type"] == "definitions":
            self._definitions = schema["definitions"]
            schema = schema["schema"]
        self._named = {part["ref"]: part for part in self._definitions}
        self._root = schema
        self._adapter = adapter
        self._context = context
        self._validators: dict[int, SchemaValidator | None] = {}
        self._document = GrowingJson()

    def feed(self, text: str) -> list[T]:
        """Add text; returns the answer so far, if any."""
        self._document.feed(text)
        return self._now()

    def end(self) -> list[T]:
        """End the text; returns the answer if only now it is known to be complete."""
        return self._now() if self._document.end() else []

    def _now(self) -> list[T]:
        root = self._document.root
        if root is None:
            return []
        try:
            value = self._of(self._root, root, {})
        except RecursionError as error:
            limit = sys.getrecursionlimit()
            raise LimitExceededError(
                f"the answer is nested more deeply than partials are made of (at {limit} calls)",
                limit=limit,
                hint="read its values() or its text",
            ) from error
        return [] if value is _MISSING else [value]

    def _of(self, schema: CoreSchema, node: Node, config: CoreSchema) -> Any:
        """Return a value so far; ``config`` is that of the surrounding model."""
        if node.end is not None:
            if node.typed is None:
                node.typed = (self._whole(schema, node, config),)
            return node.typed[0]
        match schema["type"]:
            case "definition-ref":
                return self._of(self._named[schema["schema_ref"]], node, config)
            case "nullable":
                return self._of(schema["schema"], node, config)
            case "default" if schema.get("on_error", "raise") == "raise":
                return self._of(schema["schema"], node, config)
            case "json-or-python":
                return self._of(schema["json_schema"], node, config)
            case "tagged-union":
                choice = self._choice(schema, node)
                return _MISSING if choice is None else self._of(choice, node, config)
            case "model" if schema.get("root_model"):
                return self._root_model(schema, node)
            case "any":
                return self._raw(node)
            case "str":
                text = self._document.growing_text(node)
                return _MISSING if text is None else text
        if isinstance(node.inside, dict):
            return self._object(schema, node, node.inside, config)
        if isinstance(node.inside, list):
            return self._array(schema, node, config)
        return _MISSING

    def _object(
        self, schema: CoreSchema, node: Node, inside: dict[str, Node], config: CoreSchema
    ) -> Any:
        match schema["type"]:
            case "function-after":
                return self._object(self._resolved(schema["schema"]), node, inside, config)
            case "model":
                return self._model(schema, node, inside)
            case "dataclass":
                return self._dataclass(schema, inside)
            case "typed-dict":
                config = schema.get("config", config)
                return dict(self._fields(schema["fields"].items(), inside, config))
            case "dict" if schema.get("keys_schema", _ANY)["type"] in ("any", "str"):
                values = schema.get("values_schema", _ANY)
                return _members_of(node, inside, lambda _, one: self._of(values, one, config))
        return _MISSING

    def _array(self, schema: CoreSchema, node: Node, config: CoreSchema) -> Any:
        if schema["type"] == "function-after":
            return self._array(self._resolved(schema["schema"]), node, config)
        if schema["type"] != "list" or not isinstance(node.inside, list):
            return _MISSING
        items = schema.get("items_schema", _ANY)
        return _items_of(node, node.inside, lambda one: self._of(items, one, config))

    # Objects with fields. None of their own code runs: their state is set as by unpickling.

    def _model(self, schema: CoreSchema, node: Node, inside: dict[str, Node]) -> Any:
        config = schema.get("config", {})
        described = schema["schema"]
        while described["type"] == "function-after":
            described = described["schema"]
        if described["type"] != "model-fields" or schema.get("custom_init"):
            return _MISSING
        fields = described["fields"]
        found = dict(self._fields(fields.items(), inside, config))
        extra = None
        if "allow" in (described.get("extra_behavior"), config.get("extra_fields_behavior")):
            own = {name for key, field in fields.items() for name in _members(key, field, config)}

            def read_extra(name: str, one: Node) -> Any:
                return _MISSING if name in own or one.end is None else one.value

            extra = _members_of(node, inside, read_extra)
        return _made(schema["cls"], dict.fromkeys(fields) | found, {*found}, extra)

    def _root_model(self, schema: CoreSchema, node: Node) -> Any:
        value = self._of(schema["schema"], node, schema.get("config", {}))
        if value is _MISSING:
            return _MISSING
        return _made(schema["cls"], {"root": value}, {"root"}, None)

    def _dataclass(self, schema: CoreSchema, inside: dict[str, Node]) -> Any:
        described = schema["schema"]
        if described["type"] != "dataclass-args":
            return _MISSING
        named = [(field["name"], field) for field in described["fields"]]
        found = dict(self._fields(iter(named), inside, schema.get("config", {})))
        made = object.__new__(schema["cls"])
        for name in schema["fields"]:
            # The class may be frozen.
            object.__setattr__(made, name, found.get(name))
        return made

    def _fields(
        self, fields: Iterator[tuple[str, Any]], inside: dict[str, Node], config: CoreSchema
    ) -> Iterator[tuple[str, Any]]:
        """Yield the fields that have a value so far, by their names in Python."""
        for key, field in fields:
            found = (inside[name] for name in _members(key, field, config) if name in inside)
            if (node := next(found, None)) is not None:
                value = self._of(field["schema"], node, config)
                if value is not _MISSING:
                    yield key, value

    # What is complete

    def _whole(self, schema: CoreSchema, node: Node, config: CoreSchema) -> Any:
        """Return a complete value, or missing if its type refuses it, as it will the answer."""
        if schema["type"] == "any":
            return node.value
        text = self._document.text[node.start : node.end]
        try:
            if schema is self._root and self._adapter is not None:
                return self._adapter.validate_json(text, context=self._context)
            validator = self._validator(schema, config)
            if validator is None:
                return _MISSING
            return validator.validate_json(text, context=self._context)
        except Exception:  # a validator may raise anything; the whole answer reports it
            return _MISSING

    def _validator(self, schema: CoreSchema, config: CoreSchema) -> SchemaValidator | None:
        """Return the validator of a part of the type; ``None`` if it needs neighbouring fields."""
        if id(schema) not in self._validators:
            made = None
            if not self._asks_for_neighbours(schema, set()):
                part, around = cast("Any", schema), cast("Any", config)
                made = SchemaValidator(
                    core_schema.definitions_schema(part, self._definitions), around
                )
            self._validators[id(schema)] = made
        return self._validators[id(schema)]

    def _asks_for_neighbours(self, schema: CoreSchema, seen: set[int]) -> bool:
        """Whether a validator gets the fields next to its value (``info.data``)."""
        schema = self._resolved(schema)
        if schema["type"] in _HAS_OWN_FIELDS or id(schema) in seen:
            return False
        seen.add(id(schema))
        if schema["type"].startswith("function-") and schema["function"]["type"] == "with-info":
            return True
        return any(self._asks_for_neighbours(part, seen) for part, _ in parts(schema))

    # What helps

    def _resolved(self, schema: CoreSchema) -> CoreSchema:
        while schema["type"] == "definition-ref":
            schema = self._named[schema["schema_ref"]]
        return schema

    def _choice(self, schema: CoreSchema, node: Node) -> CoreSchema | None:
        """Return the branch of a tagged union, once its discriminator is complete."""
        if not isinstance(node.inside, dict) or callable(schema["discriminator"]):
            return None
        choices: Mapping[object, CoreSchema] = schema["choices"]
        for name in _first_steps(schema["discriminator"]):
            found = node.inside.get(name)
            if found is not None and found.end is not None:
                return choices.get(found.value) if isinstance(found.value, str | int) else None
        return None

    def _raw(self, node: Node) -> Any:
        if node.end is not None:
            return node.value
        if isinstance(node.inside, dict):
            return _members_of(node, node.inside, lambda _, one: self._raw(one))
        if isinstance(node.inside, list):
            return _items_of(node, node.inside, self._raw)
        text = self._document.growing_text(node)
        return _MISSING if text is None else text


# Open objects and arrays of any length: all of their parts but the last are complete.


def _items_of(node: Node, inside: list[Node], read: Callable[[Node], Any]) -> list[Any]:
    """Return the values of an open array that can be shown; ``read`` makes that of an item."""
    kept = node.kept = node.kept or KeptParts(0, [])
    for one in inside[kept.num_read :]:
        value = read(one)
        if one.end is None:
            return list(kept.values) if value is _MISSING else [*kept.values, value]
        kept.num_read += 1
        if value is not _MISSING:
            kept.values.append(value)
    return list(kept.values)


def _members_of(
    node: Node, inside: dict[str, Node], read: Callable[[str, Node], Any]
) -> dict[str, Any]:
    """Return the members of an open object that can be shown, as ``_items_of`` does."""
    kept = node.kept = node.kept or KeptParts(0, {})
    unread = [*islice(reversed(inside.items()), len(inside) - kept.num_read)]
    for name, one in reversed(unread):
        value = read(name, one)
        if one.end is None:
            return dict(kept.values) if value is _MISSING else {**kept.values, name: value}
        kept.num_read += 1
        if value is not _MISSING:
            kept.values[name] = value
    return dict(kept.values)


def _made(
    kind: type[BaseModel], values: dict[str, Any], begun: set[str], extra: dict[str, Any] | None
) -> BaseModel:
    made = kind.__new__(kind)
    private = {
        name: attribute.default
        for name, attribute in kind.__private_attributes__.items()
        if attribute.default is not PydanticUndefined  # a factory would be user code
    }
    state = {
        "__dict__": values,
        "__pydantic_fields_set__": begun,
        "__pydantic_extra__": extra,
        "__pydantic_private__": deepcopy(private) if kind.__private_attributes__ else None,
    }
    BaseModel.__setstate__(made, state)
    return made


def _members(key: str, field: Mapping[str, Any], config: CoreSchema) -> Iterator[str]:
    """Yield the members that a field is read from, in the order in which pydantic tries them."""
    alias = field.get("validation_alias")
    if alias is None:
        yield key
        return
    yield from _first_steps(alias)
    if config.get("validate_by_name") or config.get("populate_by_name"):
        yield key


def _first_steps(alias: Any) -> Iterator[str]:
    """Yield the member names of an alias: a name, a path, or several paths."""
    if isinstance(alias, str):
        yield alias
        return
    paths = alias if alias and isinstance(alias[0], list) else [alias]
    yield from (path[0] for path in paths if len(path) == 1 and isinstance(path[0], str))
