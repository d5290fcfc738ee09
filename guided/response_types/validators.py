"""What pydantic checks by running code, which no mask can hold a model to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

__all__ = ["UnenforcedValidator", "unenforced_validators"]


@dataclass(frozen=True, slots=True)
class UnenforcedValidator:
    """A piece of code that may refuse an answer which fits its schema."""

    place: str
    """Dotted path of what it checks, ``[]`` for items and ``{}`` for values; empty for the root."""
    name: str
    """The function's qualified name."""
    kind: str
    """When it runs: ``before``, ``after``, ``wrap`` or ``plain``, as pydantic calls it, or the
    part of a type that is code, e.g. ``discriminator``."""


def unenforced_validators(adapter: TypeAdapter[Any]) -> tuple[UnenforcedValidator, ...]:
    """Every such piece of code in a type, in the order of its fields, recursive types once."""
    found = dict.fromkeys(_Walk(adapter.core_schema).visit(adapter.core_schema, ""))
    return tuple(found)


class _Walk:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.definitions: dict[str, Mapping[str, Any]] = {}
        self.entered: set[str] = set()
        if schema["type"] == "definitions":
            self.definitions = {part["ref"]: part for part in schema["definitions"]}

    def visit(self, schema: Mapping[str, Any], place: str) -> Iterator[UnenforcedValidator]:
        """The validators of a core schema and of its parts."""
        kind = schema["type"]
        if kind == "definitions":
            yield from self.visit(schema["schema"], place)
        elif kind == "definition-ref":
            name = schema["schema_ref"]
            if name not in self.entered:
                self.entered.add(name)
                yield from self.visit(self.definitions[name], place)
        else:
            yield from _own(schema, place)
            for part, step in _parts(schema):
                yield from self.visit(part, _join(place, step))


def _own(schema: Mapping[str, Any], place: str) -> Iterator[UnenforcedValidator]:
    kind = schema["type"]
    if kind.startswith("function-"):
        name = _custom_name(schema["function"]["function"])
        if name is not None:
            yield UnenforcedValidator(place, name, kind.removeprefix("function-"))
    elif kind == "tagged-union" and callable(schema["discriminator"]):
        yield UnenforcedValidator(place, _name(schema["discriminator"]), "discriminator")
    elif kind in ("model", "dataclass"):
        yield from _class_code(schema, place)
    elif kind == "chain":
        yield UnenforcedValidator(place, "steps after the first", "chain")


def _class_code(schema: Mapping[str, Any], place: str) -> Iterator[UnenforcedValidator]:
    owner = schema["cls"]
    if schema.get("custom_init"):
        yield UnenforcedValidator(place, _name(owner.__init__), "__init__")
    hook = "__post_init__" if schema["type"] == "dataclass" else schema.get("post_init")
    if hook and schema.get("post_init"):
        function = getattr(owner, hook)
        if _module(function) != "pydantic._internal._model_construction":
            yield UnenforcedValidator(place, _name(function), hook)


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The core schemas inside another, each with its step in a dotted path."""
    match schema["type"]:
        case "model-fields" | "typed-dict":
            for name, field in schema["fields"].items():
                yield field["schema"], name
            if "extras_schema" in schema:
                yield schema["extras_schema"], "{}"
        case "dataclass-args" | "named-tuple":
            for field in schema["fields"]:
                yield field["schema"], field["name"]
        case "arguments" | "arguments-v3":
            for argument in schema["arguments_schema"]:
                yield argument["schema"], argument["name"]
        case "call":
            yield schema["arguments_schema"], ""
        case "tuple":
            for index, item in enumerate(schema["items_schema"]):
                yield item, f"[{index}]"
        case "union":
            for choice in schema["choices"]:
                yield (choice[0] if isinstance(choice, tuple) else choice), ""
        case "tagged-union":
            for choice in schema["choices"].values():
                yield choice, ""
        case "chain":
            for part in schema["steps"]:
                yield part, ""
        case "json-or-python":
            yield schema["json_schema"], ""
        case "lax-or-strict":
            yield schema["strict_schema" if schema.get("strict") else "lax_schema"], ""
        case _:
            for name, step in (
                ("schema", ""),
                ("items_schema", "[]"),
                ("keys_schema", "{key}"),
                ("values_schema", "{}"),
            ):
                if isinstance(schema.get(name), Mapping):
                    yield schema[name], step


def _join(place: str, step: str) -> str:
    if not step or not place:
        return place + step
    return f"{place}{step}" if step[0] in "[{" else f"{place}.{step}"


def _custom_name(function: Callable[..., object]) -> str | None:
    """The name of a function that is not pydantic's own, or that asks about the outer world."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    module, name = _module(inner), _name(inner)
    if module == "pydantic._internal._known_annotated_metadata":
        return _predicate_name(inner)
    if module.partition(".")[0] not in ("pydantic", "pydantic_core"):
        return name
    return name if name.startswith(_OUTER_WORLD) else None


_OUTER_WORLD = ("PathType.", "ImportString.", "PaymentCardNumber.")
"""Functions of pydantic's that no pattern can stand for: files, modules, check digits."""


def _predicate_name(function: Callable[..., object]) -> str | None:
    """The name of what ``annotated_types.Predicate`` was given, out of pydantic's wrapper of it."""
    for cell in getattr(function, "__closure__", None) or ():
        predicate = getattr(cell.cell_contents, "func", None)
        if callable(predicate):
            return _name(predicate)
    return None


def _module(function: object) -> str:
    return str(getattr(function, "__module__", ""))


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", None) or repr(function))
