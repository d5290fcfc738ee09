"""The target's own answers to prompts, from which drafters learn, by an engine in this process.

Each answer is a line of a file, written through to the disk before the next one, so that a run that
was killed continues where it stopped::

    {"key": "5f1c...", "prompt": [1, 4093, ...], "answer": [504, ...], "chosen": "0011...",
     "text": "...", "temperature": 0.0}
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from guided.errors import GuidedError, RequestError
from guided.spec import GenerationRequest, GenerationResult, Sampling
from guided.train.examples import Example
from guided.train.prompts import Prompts

if TYPE_CHECKING:
    from guided.engine import Engine
    from guided.engine.prompts import Render

__all__ = ["AnswerFile", "Wanted", "make_answers", "wanted_answers"]

_FORMAT: Final = 1
Tell = Callable[[int, int], None]
"""Called with the number of answers made, and of all."""


Wanted = Mapping[str, GenerationRequest]
"""The requests to be answered, by their keys."""


def wanted_answers(prompts: Prompts, *, temperature: float) -> dict[str, GenerationRequest]:
    """Turn prompts into requests, alternately greedy and drawn at a temperature.

    The key of a request follows from everything that its answer depends on, so a changed prompt is
    answered again.
    """
    wanted = {}
    for number, request in enumerate(prompts.values()):
        asked = replace(request, top_logprobs=0)
        if temperature > 0 and number % 2:
            asked = replace(asked, sampling=Sampling(temperature, seed=number))
        wanted[_key(asked)] = asked
    return wanted


def _key(request: GenerationRequest) -> str:
    constraint = "" if request.constraint is None else request.constraint.digest()
    told = (request.prompt, constraint, request.max_tokens, request.sampling)
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


class AnswerFile:
    """The answers of one model in a file of JSON lines; the first line names the model."""

    def __init__(self, path: Path, *, model: str, vocabulary: str) -> None:
        """``vocabulary`` is the digest of the model's tokens.

        Raises ``RequestError`` if the file holds the answers of another model. Removes a last line
        that was cut off when its process ended.
        """
        self._path = path
        self._head = {"format": _FORMAT, "model": model, "vocabulary": vocabulary}
        self._rows: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._read()

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def answers(self, wanted: Wanted) -> list[Example]:
        """Return the answers to these requests, in their order, without those that failed."""
        rows = (self._rows[key] for key in wanted if key in self._rows)
        return [
            Example(
                row["key"],
                tuple(row["prompt"] + row["answer"]),
                (False,) * len(row["prompt"]) + tuple(mark == "1" for mark in row["chosen"]),
            )
            for row in rows
            if "error" not in row
        ]

    def errors(self, wanted: Wanted) -> list[str]:
        """Return why requests were not answered."""
        rows = (self._rows[key] for key in wanted if key in self._rows)
        return [str(row["error"]) for row in rows if "error" in row]

    @contextmanager
    def writing(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Yield a function that adds a row, which is on the disk when it returns."""
        is_new = not self._path.exists()
        with self._path.open("a", encoding="utf-8") as file:
            if is_new:
                _write_line(file, self._head)

            def add(row: dict[str, Any]) -> None:
                _write_line(file, row)
                self._rows[row["key"]] = row

            yield add

    def _read(self) -> None:
        whole = self._path.read_bytes()
        kept, newline, _ = whole.rpartition(b"\n")
        if len(kept) + len(newline) < len(whole):
            os.truncate(self._path, len(kept) + len(newline))
        if not kept:
            self._path.unlink()
            return
        try:
            # Not at other characters that end a line for Python: an answer may contain them.
            head, *rows = map(json.loads, kept.decode().split("\n"))
            self._rows = {row["key"]: row for row in rows}
        except (ValueError, KeyError, TypeError) as error:
            raise RequestError(
                f"{self._path} holds no answers: {error}", hint="name another folder"
            ) from error
        if head != self._head:
            raise RequestError(
                f"{self._path} holds answers of {head.get('model')!r}, or in another form",
                hint="name another folder, or delete the file",
            )


def make_answers(
    engine: Engine, render: Render, file: AnswerFile, wanted: Wanted, *, at_once: int, tell: Tell
) -> None:
    """Let an engine answer the unanswered requests, ``at_once`` at a time.

    ``render`` returns the tokens of a prompt, as the engine reads it. A request that fails is
    recorded and left out.
    """
    coming = [key for key in wanted if key not in file]
    done = len(wanted) - len(coming)
    tell(done, len(wanted))
    coming.reverse()
    running: set[str] = set()
    prompts: dict[str, list[int]] = {}
    with ExitStack() as stack:
        add = stack.enter_context(file.writing())
        while coming or running:
            while coming and len(running) < at_once:
                key = coming.pop()
                try:
                    prompts[key] = list(render(wanted[key].prompt, None, None, (), False))
                    engine.submit(key, wanted[key])
                    running.add(key)
                except GuidedError as error:
                    add({"key": key, "error": str(error)})
            for finished in engine.step():
                key = finished.request_id
                running.discard(key)
                prompt = prompts.pop(key)
                add(_row(key, wanted[key], prompt, finished.outcome))
            tell(len(wanted) - len(coming) - len(running), len(wanted))


def _row(
    key: str,
    request: GenerationRequest,
    prompt: list[int],
    outcome: GenerationResult | GuidedError,
) -> dict[str, Any]:
    if isinstance(outcome, GuidedError):
        return {"key": key, "error": str(outcome)}
    return {
        "key": key,
        "prompt": prompt,
        "answer": list(outcome.tokens),
        "chosen": "".join("01"[not each.is_forced] for each in outcome.logprobs),
        "text": outcome.text,
        "temperature": request.sampling.temperature,
    }


def _write_line(file: IO[str], row: Mapping[str, Any]) -> None:
    file.write(json.dumps(row, ensure_ascii=False) + "\n")
    file.flush()
    os.fsync(file.fileno())
