"""Reads the requests to measure: a file of JSON lines, or the small one that is included."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NotRequired, TypeAlias

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from guided.errors import GuidedError, RequestError
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
    requests: dict[str, GenerationRequest] = {}
    # Not at other characters that end a line for Python: a prompt may contain them.
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), start=1):
        if line.strip():
            name, request = _read_row(line, number)
            if name in requests:
                raise _refused(number, f"the id {name!r} came before")
            requests[name] = request
    if not requests:
        raise RequestError(f"the workload {str(file)!r} holds no request", field="workload")
    return requests


def _read_row(line: str, number: int) -> tuple[str, GenerationRequest]:
    try:
        row = _ROW.validate_json(line)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise _refused(number, f"{where}: {fault['msg']}" if where else fault["msg"]) from error
    schema = row.get("schema")
    try:
        request = GenerationRequest(
            prompt=(Message("user", row["prompt"]),),
            constraint=None if schema is None else JsonSchema(json.dumps(schema)),
            max_tokens=row.get("max_tokens", 256),
        )
    except GuidedError as error:
        raise _refused(number, str(error)) from error
    return row.get("id", str(number)), request


def _refused(number: int, reason: str) -> RequestError:
    return RequestError(f"line {number} of the workload: {reason}", field="workload")
