"""Unions that select one member for a value, so that only this member reports faults.

Pydantic's default tries all members and reports what is wrong for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

__all__ = ["NO_MEMBER", "OneOf", "OneOfKinds", "OneOfPrompts"]

NO_MEMBER: Final = "no_member"
"""The fault of a value that matches no member; its context has the ``members``, and the ``field``
if one distinguishes them."""

_OBJECT: Final = "an object"
_PROMPTS: Final = "a text or a list"


@dataclass(frozen=True, slots=True)
class OneOfKinds:
    """Selects the member by the value's kind: a text, a list, or an object."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        members = {_kind_of_type(each): handler.generate_schema(each) for each in get_args(source)}
        return _union(members, kind_of, {"members": " or ".join(members)})


@dataclass(frozen=True, slots=True)
class OneOfPrompts:
    """Selects among a text, texts, token ids and lists of token ids: a list by its first value."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        kinds = ("a text", "a list", "token ids", "lists of token ids")
        schemas = map(handler.generate_schema, get_args(source))
        return _union(
            dict(zip(kinds, schemas, strict=True)), _kind_of_prompt, {"members": _PROMPTS}
        )


@dataclass(frozen=True, slots=True)
class OneOf:
    """Selects the model that has the value's text in this field."""

    field: str
    default: str | None = None
    """The text assumed for a value without the field."""
    hint: str | None = None
    """What to do instead of a value that selects no member; without it, the texts are listed."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        members = {
            text: handler.generate_schema(model)
            for model in get_args(source) or (source,)
            for text in _texts(model, self.field)
        }
        # No body has fields with these names, so paths of faults stay unambiguous.
        tagged = {self._tag(text): schema for text, schema in members.items()}
        told = {"field": self.field, "members": ", ".join(map(repr, members))}
        if self.hint is not None:
            told["hint"] = self.hint
        return _union(tagged, self._meant, told)

    def _meant(self, value: object) -> str | None:
        if isinstance(value, BaseModel):  # where a model is dumped
            text = getattr(value, self.field)
        elif isinstance(value, dict):
            text = value.get(self.field, self.default)
        else:
            return None
        return self._tag(text) if isinstance(text, str) else None

    def _tag(self, text: str) -> str:
        return f"{self.field} {text}"


def kind_of(value: object) -> str | None:
    """Return the kind of a JSON value that members are distinguished by, or ``None``."""
    match value:
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return _OBJECT
    return None


def _kind_of_prompt(value: object) -> str | None:
    match value:
        case [int(), *_]:
            return "token ids"
        case [list(), *_]:
            return "lists of token ids"
    kind = kind_of(value)
    return None if kind == _OBJECT else kind


def _union(
    members: dict[str, CoreSchema], meant: Callable[[Any], str | None], told: dict[str, str]
) -> CoreSchema:
    return core_schema.tagged_union_schema(
        {**members},
        meant,
        custom_error_type=NO_MEMBER,
        custom_error_message="should be {members}",
        custom_error_context={**told},
    )


def _kind_of_type(member: object) -> str:
    """Return the kind of a type's values: listed texts, lists, or objects."""
    while hasattr(member, "__metadata__"):
        member = get_args(member)[0]
    if member is str or (get_args(member) and isinstance(get_args(member)[0], str)):
        return "a text"
    return "a list" if get_origin(member) is list else _OBJECT


def _texts(model: type[BaseModel], field: str) -> Iterator[str]:
    yield from get_args(model.model_fields[field].annotation)
