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

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from guided.errors import GuidedError, RequestError
from guided.spec import GenerationRequest, JsonSchema, Lark, Message
from guided.train.prompts.extraction import make_extraction
from guided.train.prompts.tasks import TASKS

__all__ = ["PromptRow", "PromptTurn", "Prompts", "first_fault", "made_prompts", "read_prompts"]

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
    prompts: Prompts = {}
    for file in files:
        try:
            # Not at other characters that end a line for Python: a prompt may contain them.
            lines = file.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(f"{file} cannot be read: {error}", field="data") from error
        for number, line in enumerate(lines, start=1):
            if line.strip():
                name, request = _read_row(line, f"{file}, line {number}")
                if name in prompts:
                    raise _refused(f"{file}, line {number}", f"the id {name!r} came before")
                prompts[name] = request
    if not prompts:
        raise RequestError(
            f"{place} holds no prompts",
            field="data",
            hint='write lines such as {"prompt": "...", "schema": {...}} into a file *.jsonl',
        )
    return prompts


def _read_row(line: str, where: str) -> tuple[str, GenerationRequest]:
    try:
        row = _ROW.validate_json(line)
    except ValidationError as error:
        raise _refused(where, first_fault(error)) from error
    if ("prompt" in row) == ("messages" in row) or row.get("messages") == []:
        raise _refused(where, "there has to be either a prompt or messages")
    if "schema" in row and "grammar" in row:
        raise _refused(where, "there are both a schema and a grammar")
    try:
        messages = [Message(each["role"], each["content"]) for each in row.get("messages", [])]
        request = GenerationRequest(
            prompt=tuple(messages) or (Message("user", row.get("prompt", "")),),
            constraint=_constraint(row),
            max_tokens=row.get("max_tokens", _MAX_TOKENS),
        )
    except GuidedError as error:
        raise _refused(where, str(error)) from error
    return row.get("id", where), request


def first_fault(error: ValidationError) -> str:
    """Return what is wrong with a row, and where in it."""
    fault = error.errors()[0]
    at = ".".join(map(str, fault["loc"]))
    return f"{at}: {fault['msg']}" if at else fault["msg"]


def _constraint(row: PromptRow) -> JsonSchema | Lark | None:
    if "schema" in row:
        return JsonSchema(json.dumps(row["schema"]))
    return Lark(row["grammar"]) if "grammar" in row else None


def _refused(where: str, reason: str) -> RequestError:
    return RequestError(f"{where}: {reason}", field="data")
