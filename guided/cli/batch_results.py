"""Writes the results of ``guided batch``: one JSON object per line, as they come.

::

    {"line": 3, "id": "ada", "digest": "…", "answer": {"text": …, "value": …, "usage": …, …}}
    {"line": 4, "digest": "…", "error": {"code": …, "message": …, "request_id": …}}

An existing file is continued: answers stay; errors and an incomplete last line are dropped and
requested again, so there is at most one line per request.
"""

from __future__ import annotations

import fcntl
import json
import math
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final

from guided.cli.batch_requests import BatchLine, Key
from guided.cli.common import check_regular
from guided.errors import GuidedError, RequestError
from guided.spec.result import LEAST_LOGPROB

if TYPE_CHECKING:
    from guided.client import Answer

__all__ = ["Results", "opened_results"]

_ATTRIBUTES: Final = ("field", "pointer", "position", "hint", "text", "finish_reason", "request_id")
"""Attributes that some errors have in addition to their message."""
_LARGEST: Final = sys.float_info.max


class Results:
    """An open file of results."""

    def __init__(self, file: IO[bytes], answered: Mapping[Key, str]) -> None:
        self._file = file
        self.answered = answered
        """Digests of the requests that had answers before, by key."""

    def write(self, line: BatchLine, outcome: Answer[Any] | GuidedError) -> None:
        """Write a result to the file at once."""
        record: dict[str, Any] = {"line": line.number}
        if line.id is not None:
            record["id"] = line.id
        record["digest"] = line.digest
        if isinstance(outcome, GuidedError):
            record["error"] = _error_record(outcome)
        else:
            record["answer"] = _answer_record(outcome, has_value=line.request.schema is not None)
        text = json.dumps(_finite(record), ensure_ascii=False, allow_nan=False, default=_text_of)
        # A model may write half of a surrogate pair.
        self._file.write(text.encode(errors="backslashreplace") + b"\n")
        self._file.flush()


@contextmanager
def opened_results(file: Path) -> Iterator[Results]:
    """Open a file of results, existing or new, for this run alone.

    Raises ``RequestError`` if another run has it open, or if it is or holds anything else.
    """
    check_regular(file, hint="choose one for the results, which a later run reads and continues")
    try:
        with file.open("a+b") as handle:
            _lock(file, handle)
            answered, is_clean = _read_answered(file, handle)
            if is_clean:
                yield Results(handle, answered)
                return
            with _answers_alone(file, handle) as rewritten:
                yield Results(rewritten, answered)
    except OSError as error:
        raise RequestError(f"{file} cannot be written: {error.strerror}") from error


def _lock(file: Path, handle: IO[bytes]) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RequestError(f"another run is writing {file}", hint="wait for its end") from error


def _read_answered(file: Path, handle: IO[bytes]) -> tuple[dict[Key, str], bool]:
    """Return digests by key, and whether the file holds only complete answers."""
    answered: dict[Key, str] = {}
    is_clean = True
    handle.seek(0)
    for number, text in enumerate(handle, start=1):
        record = _read_record(file, number, text)
        if record is None or "answer" not in record:
            is_clean = False
        else:
            answered[record.get("id", record["line"])] = record["digest"]
    return answered, is_clean


def _read_record(file: Path, number: int, text: bytes) -> dict[str, Any] | None:
    """Return the record of a line, or ``None`` for an incomplete last line."""
    if not text.endswith(b"\n"):
        return None
    try:
        record: Any = json.loads(text)
    except (ValueError, RecursionError):
        record = None
    match record:
        case {"line": int(), "digest": str()} if isinstance(record.get("id", ""), str):
            return dict(record)
    raise RequestError(
        f"line {number} of {file} is no result of guided batch",
        hint="choose another file for results",
    )


@contextmanager
def _answers_alone(file: Path, handle: IO[bytes]) -> Iterator[IO[bytes]]:
    """Rewrite the file with only its answers, replacing the old one atomically."""
    target = file.resolve()  # a link to it stays a link
    with NamedTemporaryFile(
        dir=target.parent, prefix=f".{target.name}.", delete=False
    ) as rewritten:
        try:
            _lock(file, rewritten)
            handle.seek(0)
            for number, text in enumerate(handle, start=1):
                record = _read_record(file, number, text)
                if record is not None and "answer" in record:
                    rewritten.write(text)
            rewritten.flush()
            shutil.copymode(target, rewritten.name)
            Path(rewritten.name).replace(target)
        except BaseException:
            Path(rewritten.name).unlink(missing_ok=True)
            raise
        yield rewritten


def _answer_record(answer: Answer[Any], *, has_value: bool) -> dict[str, Any]:
    """Return the parts of an answer that are present."""
    record = asdict(answer)
    for part in (record, *record["candidates"]):
        for token in part["logprobs"]:
            for told in (token, *token["top"]):
                told |= {
                    name: max(told[name], LEAST_LOGPROB)
                    for name in ("raw", "masked")
                    if told[name] is not None
                }
    if not has_value:
        del record["value"]
    if not record["logprobs"]:
        del record["logprobs"]
    if len(record["candidates"]) < 2:
        del record["candidates"]
    return record


def _error_record(error: GuidedError) -> dict[str, Any]:
    said = {name: getattr(error, name, None) for name in _ATTRIBUTES}
    return {"code": error.code, "message": str(error)} | {
        name: value for name, value in said.items() if value is not None
    }


def _finite(part: Any) -> Any:
    """Return a part of a record with finite numbers only, the nearest ones: JSON has no others."""
    if isinstance(part, float):
        return None if math.isnan(part) else min(max(part, -_LARGEST), _LARGEST)
    if isinstance(part, dict):
        return {name: _finite(each) for name, each in part.items()}
    return [_finite(each) for each in part] if isinstance(part, list | tuple) else part


def _text_of(value: object) -> str:
    """Return the bytes of a token, perhaps part of a character, as text."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    raise TypeError(f"{value!r} has no JSON")
