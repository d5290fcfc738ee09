"""Calls of functions as BFCL asks for them, held to their schemas and free, scored by its checker.

`python -m benchmarks.bfcl PYTHON [--model MODEL] [--examples N] [CATEGORY ...]`

PYTHON is that of an environment with `bfcl-eval` (its questions are in the package). Each question
goes twice to a server of the model, at temperature 0: with `tools` and `tool_choice: "required"`,
and as the same conversation, told of the tools in the same words, without any constraint. Where a
category has one call in each answer, `parallel_tool_calls: false` says so. For a model whose chat
template knows tools the second would be another prompt, so it is refused.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

from guided.client import Client
from guided.model.told_tools import without_tools
from guided.spec import Message, Tool
from tests.service.http_server import HttpServer, serving_http
from tests.service.server_process import REAL_SERVER

CATEGORIES: Final = ("simple_python", "multiple", "parallel")
_SUITE: Final = str(Path(__file__).with_name("bfcl_suite.py"))
_TOKENS: Final = 256
_CALL: Final = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)

Calls: TypeAlias = list[dict[str, Any]]
"""As the checker takes them: one object each, from the name to the arguments."""


@dataclass(frozen=True)
class Question:
    """One of BFCL's."""

    id: str
    messages: list[dict[str, str]]
    functions: list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Calls of functions, constrained and free.")
    parser.add_argument("python")
    parser.add_argument("categories", nargs="*", default=CATEGORIES)
    parser.add_argument("--model")
    parser.add_argument("--examples", type=int, default=50)
    options = parser.parse_args()
    settings = {} if options.model is None else {"model": options.model}
    with (
        TemporaryDirectory() as folder,
        serving_http(REAL_SERVER, Path(folder, "log"), settings, timeout=300) as server,
        Client(server.process.address) as client,
    ):
        model = client.model()
        assert model.tool_format == "hermes", f"{model.name} has tools in its template"
        print(f"{model.name}, {options.examples} questions of each category")
        print(f"{'':16} {'questions':>9} {'held':>7} {'free':>7} {'free, readable':>15}")
        for category in options.categories:
            _measure(server, model.name, options.python, category, options.examples)


def _measure(server: HttpServer, model: str, python: str, category: str, count: int) -> None:
    asked = [
        Question(**json.loads(line))
        for line in _suite(python, "questions", category, str(count)).splitlines()
    ]
    with ThreadPoolExecutor(4) as pool:
        is_parallel = category.startswith("parallel")
        held = [*pool.map(partial(_held, server, model, is_parallel), asked)]
        free = [*pool.map(partial(_free, server, model), asked)]
    shares = [_right(python, category, asked, calls) for calls in (held, free)]
    readable = sum(map(bool, free))
    told = (f"{share}/{len(asked)}" for share in (*shares, readable))
    print(
        f"{category:16} {len(asked):9} {next(told):>7} {next(told):>7} {next(told):>15}", flush=True
    )


def _held(server: HttpServer, model: str, is_parallel: bool, question: Question) -> Calls:
    message = _said(
        server,
        model,
        question.messages,
        tools=[{"type": "function", "function": one} for one in question.functions],
        tool_choice="required",
        parallel_tool_calls=is_parallel,
    )
    calls = [call["function"] for call in message["tool_calls"]]
    return [{call["name"]: json.loads(call["arguments"])} for call in calls]


def _free(server: HttpServer, model: str, question: Question) -> Calls:
    """What the text calls, read as leniently as the suite's own handlers of this format do."""
    tools = tuple(
        Tool(one["name"], one.get("description", ""), json.dumps(one["parameters"]))
        for one in question.functions
    )
    turns = tuple(Message(turn["role"], turn["content"]) for turn in question.messages)
    told = [{"role": turn.role, "content": turn.content} for turn in without_tools(turns, tools)]
    found: Calls = []
    for text in _CALL.findall(_said(server, model, told)["content"]):
        try:
            call = json.loads(text)
            found.append({call["name"]: dict(call["arguments"])})
        except (ValueError, KeyError, TypeError):
            return []
    return found


def _said(server: HttpServer, model: str, messages: list[Any], **fields: Any) -> dict[str, Any]:
    body = {"model": model, "messages": messages, "max_tokens": _TOKENS, "temperature": 0}
    answer = server.post("/v1/chat/completions", body | fields)
    answer.raise_for_status()
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    return message


def _right(python: str, category: str, asked: list[Question], calls: list[Calls]) -> int:
    lines = (
        json.dumps({"id": question.id, "calls": made})
        for question, made in zip(asked, calls, strict=True)
    )
    verdicts: list[bool] = json.loads(_suite(python, "score", category, sent="\n".join(lines)))
    return sum(verdicts)


def _suite(python: str, *arguments: str, sent: str = "") -> str:
    done = subprocess.run(
        [python, _SUITE, *arguments], input=sent, capture_output=True, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    main()
