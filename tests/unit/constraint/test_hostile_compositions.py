"""Compositions made to take for ever: refused, or accepted, in time that grows with size."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from guided.constraint import ConstraintCompiler
from guided.errors import InvalidConstraintError, LimitExceededError, RequestError
from guided.spec import MAX_PARTS, JsonSchema, Lark, Structure
from guided.spec.composition import MAX_TEXT_LENGTH, Sequence, Template, Text
from guided.spec.tagged import FreeText, Tag, Tagged
from tests.kit.walks import BYTES

_SECONDS = 30
"""Many times what they take now; before, they took minutes, or all memory."""


def _schema(number: int) -> str:
    return json.dumps({"const": number})


_HOSTILE: dict[str, Callable[[], Structure]] = {
    "holes of a template": lambda: Template(
        "".join(f"{{a{n}}}" for n in range(60_000)), {f"a{n}": "x" for n in range(60_000)}
    ),
    "tags and triggers": lambda: Tagged([Tag(f"<{n}>", "x") for n in range(MAX_PARTS - 1)]),
    "triggers": lambda: Tagged([Tag(f"<{n}>", "x") for n in range(500)]),
    "schemas": lambda: Sequence([JsonSchema(_schema(n)) for n in range(MAX_PARTS - 1)]),
    "schemas in a grammar": lambda: Lark(
        "start: " + " | ".join(f"%json {_schema(n)}" for n in range(8_000))
    ),
    "a long text": lambda: Text("a" * (MAX_TEXT_LENGTH + 1)),
    "many texts": lambda: Sequence(["a" * MAX_TEXT_LENGTH] * 80),
    "a long end of free text": lambda: FreeText("ab" * MAX_TEXT_LENGTH),
    "a long grammar": lambda: Lark("start: %json true\n// JSON_0" + "_" * 4_000_000),
    "a name that is taken": lambda: Lark("start: %json 1\n// JSON_0" + "_" * 190_000),
    "a text without end": lambda: Lark('start: "' + '\\"' * 90_000),
    "a pattern without end": lambda: Lark("start: /a" + "\\/" * 90_000),
    "a number after %json": lambda: Lark("start: %json " + "1" * 5_000),
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_what_is_too_large_is_refused_soon(name: str) -> None:
    begun = time.thread_time()
    with pytest.raises(RequestError) as caught:
        ConstraintCompiler(BYTES).start(_HOSTILE[name]())
    assert isinstance(caught.value, LimitExceededError | InvalidConstraintError)
    assert time.thread_time() - begun < _SECONDS
