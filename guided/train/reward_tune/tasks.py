"""The tasks that a model is tuned on: prompts, constraints on the answers, and the right ones."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NotRequired

from pydantic import ConfigDict, TypeAdapter

from guided.errors import RequestError
from guided.json_lines import read_json_lines
from guided.spec import Constraint, JsonSchema, Lark, Message, Structure
from guided.train.prompts.prompt import PromptRow, PromptTurn

__all__ = ["Task", "compact", "read_tasks", "write_lines", "write_tasks"]

_MAX_TOKENS = 256


class _Row(PromptRow):
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    expected: NotRequired[Any]


_ROW = TypeAdapter(_Row)


@dataclass(frozen=True)
class Task:
    """A prompt, the constraint of its answer, and the right answer if that is known."""

    name: str
    messages: tuple[Message, ...]
    constraint: Structure
    expected: str | None = None
    """The right answer as it would be written; JSON without white space."""
    max_tokens: int = _MAX_TOKENS
    """The token budget of the answer."""

    def __post_init__(self) -> None:
        if not self.messages or self.messages[-1].role != "user":
            raise RequestError("a task's messages end with one of the user", field="messages")
        if self.max_tokens < 1:
            raise RequestError(f"max_tokens {self.max_tokens!r} is below 1", field="max_tokens")

    @property
    def is_json(self) -> bool:
        """Whether answers are JSON by a schema, not texts of a grammar."""
        return isinstance(self.constraint, JsonSchema)

    @cached_property
    def expected_value(self) -> Any:
        """The right answer, read as JSON; only if there is one and it is JSON."""
        assert self.expected is not None, "there is no right answer"
        assert self.is_json, "the answer is no JSON"
        return json.loads(self.expected)

    @property
    def turns(self) -> list[dict[str, str]]:
        """The messages as chat templates and TRL take them."""
        return [{"role": turn.role, "content": turn.content} for turn in self.messages]


def compact(value: Any) -> str:
    """Write a value as JSON in the fewest characters; numbers without fraction have no point."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def read_tasks(file: Path) -> tuple[Task, ...]:
    """Read the tasks of a file of JSON lines.

    Each is ``{"id", "prompt" or "messages", "schema" or "grammar", "expected", "max_tokens"}``. A
    prompt is one message of the user and a grammar is Lark's; ``expected`` is a JSON value for a
    schema and a text for a grammar. Raises ``RequestError`` with the line that cannot be used.
    """
    tasks = read_json_lines({str(file): file}, _ROW, _task, field="tasks")
    if not tasks:
        raise RequestError(f"{file} holds no task", field="tasks")
    return tuple(tasks.values())


def _task(row: _Row) -> Task:
    if ("prompt" in row) == ("messages" in row):
        raise RequestError("exactly one of prompt and messages is needed")
    if ("schema" in row) == ("grammar" in row):
        raise RequestError("exactly one of schema and grammar is needed")
    prompt: list[PromptTurn] = [{"role": "user", "content": row.get("prompt", "")}]  # type: ignore[typeddict-item]
    turns = row.get("messages", prompt)
    expected: str | None = None
    constraint: Constraint
    if "schema" in row:
        constraint = JsonSchema(json.dumps(row["schema"], ensure_ascii=False))
        expected = compact(row["expected"]) if "expected" in row else None
    else:
        constraint = Lark(row["grammar"])
        expected = row.get("expected")
        if expected is not None and not isinstance(expected, str):
            raise RequestError("what is expected of a grammar is a text", field="expected")
    return Task(
        row["id"],
        tuple(Message(turn["role"], turn["content"]) for turn in turns),
        constraint,
        expected,
        row.get("max_tokens", _MAX_TOKENS),
    )


def write_tasks(file: Path, tasks: Iterable[Task]) -> None:
    """Write tasks as ``read_tasks`` reads them, all or none."""
    write_lines(file, map(_row_of, tasks))


def write_lines(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write objects as JSON lines, all or none: a file of that name is always whole."""
    partial = file.with_name(f"{file.name}.partial")
    with partial.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
        out.flush()
        os.fsync(out.fileno())
    partial.replace(file)


def _row_of(task: Task) -> dict[str, Any]:
    row: dict[str, Any] = {"id": task.name, "messages": task.turns, "max_tokens": task.max_tokens}
    if isinstance(task.constraint, JsonSchema):
        row["schema"] = json.loads(task.constraint.text)
        if task.expected is not None:
            row["expected"] = task.expected_value
        return row
    assert isinstance(task.constraint, Lark), "tasks have schemas and grammars"
    row["grammar"] = task.constraint.text
    return row if task.expected is None else row | {"expected": task.expected}
