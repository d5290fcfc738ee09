"""Prompts to generate training data from: read from files, or made by a seeded program.

A file holds JSON lines::

    {"id": "t1", "prompt": "Card payments fail.", "schema": {...}, "max_tokens": 64}
    {"messages": [{"role": "user", "content": "Hi"}], "grammar": "start: \\"Hello\\""}
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final, NotRequired, TypeAlias

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from guided.errors import RequestError
from guided.json_lines import read_json_lines
from guided.spec import GenerationRequest, JsonSchema, Lark, Message
from guided.train.prompts.extraction import make_extraction
from guided.train.prompts.tasks import TASKS

__all__ = ["PromptRow", "PromptTurn", "Prompts", "made_prompts", "read_prompts"]

Prompts: TypeAlias = dict[str, GenerationRequest]
"""Greedy requests by their names, in order."""

_MAX_TOKENS: Final = 256
_EXTRACTIONS: Final = 8
"""The weight of extraction tasks, relative to the weights of ``TASKS``."""


class PromptTurn(TypedDict):
    """A message of a row."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    role: str
    content: str


class PromptRow(TypedDict):
    """A line of a file of prompts."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    id: NotRequired[str]
    prompt: NotRequired[str]
    messages: NotRequired[list[PromptTurn]]
    schema: NotRequired[dict[str, Any]]
    grammar: NotRequired[str]
    max_tokens: NotRequired[int]


_ROW = TypeAdapter(PromptRow)


def made_prompts(count: int, seed: int = 0) -> Prompts:
    """Make different prompts, about half of them to extract facts from a text."""
    random = Random(seed)  # noqa: S311 - an order that can be repeated
    makers = [make_extraction, *(make for make, _ in TASKS)]
    weights = [_EXTRACTIONS, *(weight for _, weight in TASKS)]
    prompts: Prompts = {}
    seen: set[str] = set()
    while len(prompts) < count:
        (make,) = random.choices(makers, weights)
        text, schema, max_tokens = make(random)
        if text in seen:
            continue
        seen.add(text)
        prompts[f"made-{seed}-{len(prompts)}"] = GenerationRequest(
            prompt=(Message("user", text),),
            constraint=None if schema is None else JsonSchema(json.dumps(schema)),
            max_tokens=max_tokens,
        )
    return prompts


def read_prompts(place: Path) -> Prompts:
    """Read the prompts of a file of JSON lines, or of all ``*.jsonl`` of a folder.

    Raises ``RequestError`` with the line that cannot be used.
    """
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    prompts = read_json_lines({str(file): file for file in files}, _ROW, _request, field="data")
    if not prompts:
        raise RequestError(
            f"{place} holds no prompts",
            field="data",
            hint='write lines such as {"prompt": "...", "schema": {...}} into a file *.jsonl',
        )
    return prompts


def _request(row: PromptRow) -> GenerationRequest:
    if ("prompt" in row) == ("messages" in row) or row.get("messages") == []:
        raise RequestError("there has to be either a prompt or messages")
    if "schema" in row and "grammar" in row:
        raise RequestError("there are both a schema and a grammar")
    messages = [Message(each["role"], each["content"]) for each in row.get("messages", [])]
    return GenerationRequest(
        prompt=tuple(messages) or (Message("user", row.get("prompt", "")),),
        constraint=_constraint(row),
        max_tokens=row.get("max_tokens", _MAX_TOKENS),
    )


def _constraint(row: PromptRow) -> JsonSchema | Lark | None:
    if "schema" in row:
        return JsonSchema(json.dumps(row["schema"]))
    return Lark(row["grammar"]) if "grammar" in row else None
