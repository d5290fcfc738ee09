"""Finds what pydantic checks by running code, which no mask can enforce."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter

from guided.response_types.core_schema import (
    constraint_of,
    encoder_of,
    has_case_conversion,
    join_path,
    length_keyword,
    parts,
)
from guided.response_types.sets import stays_distinct
from guided.spec import UnenforcedValidator

__all__ = ["unenforced_validators"]


def unenforced_validators(adapter: TypeAdapter[Any]) -> tuple[UnenforcedValidator, ...]:
    """Return the code that pydantic runs to check a type, in the order of its fields.

    Recursive types are visited once.
    """
    found = dict.fromkeys(_ValidatorSearch(adapter.core_schema).visit(adapter.core_schema, "", {}))
    return tuple(found)


class _ValidatorSearch:
    """Visits the parts of a core schema, and definitions once."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.definitions: dict[str, Mapping[str, Any]] = {}
        """Core schemas that others refer to, by name."""
        self.visited: set[str] = set()
        """Names of the definitions visited so far."""
        if schema["type"] == "definitions":
            self.definitions = {part["ref"]: part for part in schema["definitions"]}

    def visit(
        self, schema: Mapping[str, Any], path: str, config: Mapping[str, Any]
    ) -> Iterator[UnenforcedValidator]:
        """Yield the validators of a core schema and of its parts, under the surrounding config."""
        kind, config = schema["type"], schema.get("config", config)
        if kind == "definitions":
            yield from self.visit(schema["schema"], path, config)
        elif kind == "definition-ref":
            name = schema["schema_ref"]
            if name not in self.visited:
                self.visited.add(name)
                yield from self.visit(self.definitions[name], path, config)
        else:
            yield from _own_validators(schema, path, config)
            for part, step in parts(schema):
                yield from self.visit(part, join_path(path, step), config)


def _own_validators(
    schema: Mapping[str, Any], path: str, config: Mapping[str, Any]
) -> Iterator[UnenforcedValidator]:
    kind = schema["type"]
    if kind.startswith("function-"):
        function = schema["function"]["function"]
        name = _custom_name(function)
        constraint = constraint_of(function)
        if constraint is not None and length_keyword(constraint[0], schema["schema"]) is None:
            name = "{}={!r}".format(*constraint)
        encoder = encoder_of(schema)
        is_custom = encoder is not None and _module(encoder) != "pydantic.types"
        if encoder is not None and (is_custom or has_case_conversion(schema["schema"], config)):
            name = _name(encoder.decode)
        if name is not None:
            yield UnenforcedValidator(path, name, kind.removeprefix("function-"))
    elif kind == "tagged-union" and callable(schema["discriminator"]):
        yield UnenforcedValidator(path, _name(schema["discriminator"]), "discriminator")
    elif kind in ("model", "dataclass"):
        yield from _class_validators(schema, path)
    elif kind == "chain":
        yield UnenforcedValidator(path, "steps after the first", "chain")
    elif kind == "timedelta" and "multiple_of" in schema:
        yield UnenforcedValidator(path, f"multiple_of={schema['multiple_of']!r}", kind)
    elif schema.get("min_length", 0) > 1 and _may_become_equal(schema):
        # The length counts what is left after equal items have become one.
        yield UnenforcedValidator(path, f"min_length={schema['min_length']}", kind)


def _may_become_equal(schema: Mapping[str, Any]) -> bool:
    """Return whether items or keys that differ in JSON may be equal after reading."""
    if schema["type"] in ("set", "frozenset"):
        return not stays_distinct(schema.get("items_schema", {"type": "any"}))
    return "keys_schema" in schema and not stays_distinct(schema["keys_schema"])


def _class_validators(schema: Mapping[str, Any], path: str) -> Iterator[UnenforcedValidator]:
    owner = schema["cls"]
    if schema.get("custom_init"):
        yield UnenforcedValidator(path, _name(owner.__init__), "__init__")
    hook = "__post_init__" if schema["type"] == "dataclass" else schema.get("post_init")
    if hook and schema.get("post_init"):
        function = getattr(owner, hook)
        if _module(function) != "pydantic._internal._model_construction":
            yield UnenforcedValidator(path, _name(function), hook)


def _custom_name(function: Callable[..., object]) -> str | None:
    """Return the name of a function that is not pydantic's, or that depends on the outside."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    module, name = _module(inner), _name(inner)
    if module == "pydantic._internal._known_annotated_metadata":
        return _predicate_name(inner)
    if module.partition(".")[0] not in ("pydantic", "pydantic_core"):
        return name
    return name if name.startswith(_DEPENDS_ON_OUTSIDE) else None


_DEPENDS_ON_OUTSIDE = ("PathType.", "import_string", "PaymentCardNumber.")
"""Prefixes of pydantic's functions that no pattern can replace: files, modules, check digits."""


def _predicate_name(function: Callable[..., object]) -> str | None:
    """Return the name of the function in ``annotated_types.Predicate``, from pydantic's wrapper."""
    for cell in getattr(function, "__closure__", None) or ():
        predicate = getattr(cell.cell_contents, "func", None)
        if callable(predicate):
            return _name(predicate)
    return None


def _module(function: object) -> str:
    return str(getattr(function, "__module__", ""))


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", None) or repr(function))
