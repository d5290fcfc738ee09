"""Nested fields of requests over HTTP: each accepted one is honoured, or listed here."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

from tests.service.nested_field_rows import ABSENT, ROWS
from tests.service.test_http_fields import FACES, asked, refusal
from tests.service.test_http_honoured import seen

# Every field of the models that read bodies


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from _models_in(part)


def _inner_models(kind: type[BaseModel]) -> list[type[BaseModel]]:
    """All models that occur inside of a request."""
    found: list[type[BaseModel]] = []
    waiting = [kind]
    while waiting:
        for field in waiting.pop().model_fields.values():
            for model in _models_in(field.annotation):
                if model not in found:
                    found.append(model)
                    waiting.append(model)
    return found


def _is_tag(annotation: Any) -> bool:
    """Whether a field has a single value, which identifies the object around it."""
    return get_origin(annotation) is Literal and len(get_args(annotation)) == 1


def _declared() -> Iterator[tuple[str, str]]:
    for face, (kind, *_) in FACES.items():
        for model in _inner_models(kind):
            for name, field in model.model_fields.items():
                if not _is_tag(field.annotation):
                    yield face, f"{model.__name__}.{field.alias or name}"


NEUTRAL = {
    "chat": {
        "AssistantTurn.annotations",
        "AssistantTurn.audio",
        "AssistantTurn.function_call",
        "StreamOptions.include_obfuscation",
        "ToolTurn.name",
    },
    "completions": {"StreamOptions.include_obfuscation"},
    "responses": {
        "MessageItem.phase",
        "CustomOutputItem.name",
        "OutputItem.name",
        "StreamOptions.include_obfuscation",
        "Text.annotations",
        "Text.type",
        "TextOptions.verbosity",
        "ThoughtItem.encrypted_content",
    },
}
"""Fields of which only the value that equals their absence is accepted."""
IGNORED = {
    "chat": {
        "AssistantTurn.name",
        "AssistantTurn.parsed",
        "CallMade.index",
        "CustomCallMade.index",
        "Called.parsed_arguments",
        "NamedSchema.name",
        "SystemTurn.name",
        "UserTurn.name",
    },
    "completions": {"NamedSchema.name"},
    "responses": {
        "CallItem.id",
        "CallItem.parsed_arguments",
        "CallItem.status",
        "CustomCallItem.id",
        "CustomCallItem.status",
        "CustomOutputItem.id",
        "CustomOutputItem.status",
        "MessageItem.id",
        "MessageItem.status",
        "OutputItem.id",
        "OutputItem.status",
        "Text.logprobs",
        "Text.parsed",
        "ThoughtItem.id",
        "ThoughtItem.status",
        "ThoughtItem.summary",
        "ThoughtPart.type",
    },
}
"""Fields whose values are accepted and ignored; docs/openai.md says why for each."""


def _changed(fields: dict[str, Any], place: str, other: Any) -> dict[str, Any]:
    """The fields with another value at a place."""
    made = copy.deepcopy(fields)
    *steps, last = place.split(".")
    at: Any = made
    for step in steps:
        at = at[int(step) if isinstance(at, list) else step]
    if other is ABSENT:
        del at[last]
    else:
        at[last] = other
    return made


@pytest.mark.parametrize(("face", "field"), [*_declared()])
def test_a_field_inside_that_is_taken_is_honoured(face: str, field: str) -> None:
    fields, place, other = ROWS[face][field]
    if face == "completions" and "description" in str(fields):
        if field == "NamedSchema.description":
            assert refusal(face, **fields).field == "response_format.json_schema.description"
            return
        fields = _changed(fields, "response_format.json_schema.description", ABSENT)
    is_same = seen(asked(face, **fields)) == seen(asked(face, **_changed(fields, place, other)))
    assert is_same == (field in NEUTRAL[face] | IGNORED[face])


@pytest.mark.parametrize("face", FACES)
def test_every_row_is_of_a_field_that_there_is(face: str) -> None:
    declared = {field for of, field in _declared() if of == face}
    assert ROWS[face].keys() == declared
    assert NEUTRAL[face] | IGNORED[face] <= declared


@pytest.mark.parametrize("face", FACES)
def test_the_page_tells_what_is_not_looked_at(face: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "openai.md").read_text("utf-8")
    for field in NEUTRAL[face] | IGNORED[face]:
        _, _, name = field.partition(".")
        assert f"`{name}`" in page, field
