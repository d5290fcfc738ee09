"""Reads the requests to measure: a file of JSON lines, or the small one that is included."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NotRequired, TypeAlias

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from guided.errors import RequestError
from guided.json_lines import read_json_lines
from guided.spec import GenerationRequest, JsonSchema, Message

__all__ = ["Workload", "read_workload"]

Workload: TypeAlias = Mapping[str, GenerationRequest]
"""Requests by their names, in order."""


class _Row(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    id: NotRequired[str]
    prompt: str
    schema: NotRequired[dict[str, Any]]
    max_tokens: NotRequired[int]


_ROW = TypeAdapter(_Row)


def read_workload(path: Path | None = None) -> Workload:
    """Return the requests of a file of ``{"id", "prompt", "schema", "max_tokens"}``, one per line.

    Only ``prompt`` is required. Raises ``RequestError`` with the number of a faulty line.
    """
    file = files("guided.bench") / "workload.jsonl" if path is None else path
    requests = read_json_lines({"the workload": file}, _ROW, _request, field="workload")
    if not requests:
        raise RequestError(f"the workload {str(file)!r} holds no request", field="workload")
    return requests


def _request(row: _Row) -> GenerationRequest:
    schema = row.get("schema")
    return GenerationRequest(
        prompt=(Message("user", row["prompt"]),),
        constraint=None if schema is None else JsonSchema(json.dumps(schema)),
        max_tokens=row.get("max_tokens", 256),
    )
