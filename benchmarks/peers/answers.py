"""The answers of a back end to a workload: each is validated, and figures made of all."""

from __future__ import annotations

import json
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import jsonschema

__all__ = ["Answers", "Request", "totals"]


class Request(TypedDict):
    """A request of the workload."""

    id: str
    prompt: str
    schema: dict[str, Any]
    max_tokens: int


class Answers:
    """What came of the requests, as a back end adds it; times are in seconds.

    ``about`` is reported with the figures, and a back end may add to it by ``extra``.
    """

    def __init__(self, about: Mapping[str, Any], out: Path | None = None) -> None:
        self._about, self._out = about, out
        self.rows: list[dict[str, Any]] = []
        self.extra: dict[str, Any] = {}

    def add(
        self,
        request: Request,
        text: str,
        out_tokens: int,
        wall: float,
        compile_s: float = 0.0,
        forwards: int | None = None,
        **more: object,
    ) -> None:
        """Add an answer: its tokens, its seconds and those of compiling, and its model calls."""
        error = _fault(text, request["schema"])
        row = {
            "id": request["id"],
            "wall_s": wall,
            "compile_s": compile_s,
            "out_tokens": out_tokens,
            "forwards": forwards,
            "valid": not error,
            "error": error,
            "text": text,
        }
        self.rows.append(row | more)
        print(
            f"{request['id']:16} {wall:7.3f} s {out_tokens:4} tokens {error or 'valid'}", flush=True
        )

    def fail(self, request: Request, error: Exception) -> None:
        """Add a request that came to no answer."""
        told = f"{type(error).__name__}: {error}"[:300]
        self.rows.append({"id": request["id"], "failed": told})
        print(f"{request['id']:16} failed, {told}", flush=True)

    def finish(self, wall: float, forwards: int | None = None) -> None:
        """Print the figures: ``wall`` are the seconds of all requests, ``forwards`` model calls."""
        found = {**self._about, **totals(self.rows, wall, forwards), **self.extra}
        told = {key: round(one, 4) if isinstance(one, float) else one for key, one in found.items()}
        print("TOTAL", json.dumps(told), flush=True)
        if self._out:
            self._out.write_text(json.dumps({"total": found, "rows": self.rows}, indent=1))


def totals(
    rows: Sequence[Mapping[str, Any]], wall: float, forwards: int | None
) -> dict[str, float | int | None]:
    """Return the figures over all answers; only valid ones count as objects."""
    done = [row for row in rows if "failed" not in row]
    tokens = sum(row["out_tokens"] for row in done)
    valid = sum(row["valid"] for row in done)
    return {
        "requests": len(rows),
        "failed": len(rows) - len(done),
        "valid": valid,
        "wall_s": wall,
        "compile_s": sum(row["compile_s"] for row in done),
        "out_tokens": tokens,
        "forwards": forwards,
        "tokens_per_forward": tokens / forwards if forwards else None,
        "tok_s": tokens / wall,
        "bytes_s": sum(len(row["text"].encode()) for row in done) / wall,
        "objects_s": valid / wall,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _fault(text: str, schema: Mapping[str, Any]) -> str:
    """Return why an answer does not count; empty if it is JSON that fits."""
    try:
        jsonschema.validate(json.loads(text), schema)
    except Exception as error:  # of either, or of a schema that the validator cannot use
        return f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return ""
