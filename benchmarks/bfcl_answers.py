"""Stores a server's answers to BFCL's questions as they come, for ``bfcl.py``.

A folder has a file for each category and way, ``simple_python.held.jsonl``, with a line for each
answer. Answers in it are not requested again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import httpx2

from guided.model.untemplated_tools import without_tools
from guided.spec import Message, Tool

_TOKENS: Final = 384
"""More than the longest right answer takes, which has eight calls."""
_AT_ONCE: Final = 8
_SECONDS: Final = 1800.0


class Way(StrEnum):
    """How the functions are presented, and what constrains the answer."""

    HELD = "held"
    """``tool_choice: "required"``: only calls."""
    AUTO = "auto"
    """``tool_choice: "auto"``: text, with its calls constrained."""
    FREE = "free"
    """The same conversation, with the functions described in the same words, unconstrained."""


@dataclass(frozen=True)
class Question:
    """A question of BFCL."""

    id: str
    messages: list[dict[str, str]]
    functions: list[dict[str, Any]]


@dataclass(frozen=True)
class Kept:
    """The stored answers of a category in one way."""

    folder: Path
    category: str
    way: Way

    def by_id(self) -> dict[str, dict[str, Any]]:
        if not self._path.exists():
            return {}
        return {
            one["id"]: one for one in map(json.loads, self._path.read_text("utf-8").splitlines())
        }

    def ask(self, url: str, model: str, questions: list[Question]) -> None:
        """Fetch the missing answers to the questions."""
        known = self.by_id()
        others = {one["model"] for one in known.values()} - {model}
        assert not others, f"{self._path} has answers of {others}"
        missing = [one for one in questions if one.id not in known]
        with ThreadPoolExecutor(_AT_ONCE) as pool, self._path.open("a", encoding="utf-8") as file:
            asked = [pool.submit(_answer, url, self._body(model, one)) for one in missing]
            try:
                for done in as_completed(asked):
                    question = missing[asked.index(done)]
                    kept = {"id": question.id, "model": model, **done.result()}
                    file.write(f"{json.dumps(kept)}\n")
                    file.flush()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    @property
    def _path(self) -> Path:
        return self.folder / f"{self.category}.{self.way}.jsonl"

    def _body(self, model: str, question: Question) -> dict[str, Any]:
        body = {"model": model, "max_tokens": _TOKENS, "temperature": 0}
        if self.way is Way.FREE or not question.functions:
            return body | {"messages": [*_told(question)]}
        return body | {
            "messages": question.messages,
            "tools": [{"type": "function", "function": one} for one in question.functions],
            "tool_choice": "required" if self.way is Way.HELD else "auto",
            "parallel_tool_calls": "parallel" in self.category,
        }


def _told(question: Question) -> Iterator[dict[str, str]]:
    """Yield the conversation with the functions described as the server does."""
    tools = tuple(
        Tool(one["name"], one.get("description", ""), json.dumps(one["parameters"]))
        for one in question.functions
    )
    turns = tuple(Message(turn["role"], turn["content"]) for turn in question.messages)
    for turn in without_tools(turns, tools):
        yield {"role": turn.role, "content": turn.content}


def _answer(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return what the server answered, or why it refused."""
    answer = httpx2.post(f"{url}/v1/chat/completions", json=body, timeout=_SECONDS)
    if answer.status_code == httpx2.codes.BAD_REQUEST:
        return {"refused": answer.json()["error"]["message"]}
    answer.raise_for_status()
    (choice,) = answer.json()["choices"]
    return {"message": choice["message"], "ended": choice["guided"]["finish_reason"]}
