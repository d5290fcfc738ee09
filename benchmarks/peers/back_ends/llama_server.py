"""A llama-server that is running, with grammars that llama.cpp's own converter makes."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import jinja2

from benchmarks.peers.answers import Answers, Request

__all__ = ["compact_gbnf", "run"]


def run(options: argparse.Namespace, requests: Sequence[Request], answers: Answers) -> None:
    """Ask ``--batch`` requests at a time; the server reads their grammars inside of the clock."""
    source = Path(options.hf_model, "chat_template.jinja").read_text("utf-8")
    # It writes a prompt, not a page: nothing is escaped.
    template = jinja2.Environment(keep_trailing_newline=True).from_string(source)  # noqa: S701
    grammars = {each["id"]: _grammar(options.schema_to_gbnf, each) for each in requests}
    _post(options.server_url, {"prompt": "Hello", "n_predict": 4})
    lock, began = Lock(), time.perf_counter()

    def ask(request: Request) -> None:
        asked = time.perf_counter()
        try:
            message = {"role": "user", "content": request["prompt"]}
            body = {
                "prompt": template.render(messages=[message], add_generation_prompt=True),
                "grammar": grammars[request["id"]],
                "n_predict": request["max_tokens"],
                "temperature": 0.0,
                "samplers": ["top_k"],
                "top_k": 1,
                "cache_prompt": False,
                "stream": False,
                "return_tokens": True,
            }
            told = _post(options.server_url, body)
            took = time.perf_counter() - asked
        except Exception as error:
            with lock:
                answers.fail(request, error)
            return
        is_finished = told.get("stop_type") == "eos"
        with lock:
            answers.add(
                request,
                told["content"],
                told.get("tokens_predicted", 0) - is_finished,
                took,
                finished=is_finished,
                ids=told.get("tokens"),
                prompt_tokens=told.get("tokens_evaluated"),
            )

    with ThreadPoolExecutor(options.batch) as pool:
        list(pool.map(ask, requests))
    answers.finish(time.perf_counter() - began)


def compact_gbnf(grammar: str) -> str:
    """Return a grammar of llama.cpp's converter without the white space that it allows."""
    lines = grammar.splitlines()
    return "\n".join('space ::= ""' if line.startswith("space ::=") else line for line in lines)


def _grammar(converter: str, request: Request) -> str:
    done = subprocess.run(
        shlex.split(converter),
        input=json.dumps(request["schema"]),
        capture_output=True,
        text=True,
        check=True,
    )
    return compact_gbnf(done.stdout)


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=600)
    try:
        connection.request(
            "POST", "/completion", json.dumps(body), {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        told: dict[str, Any] = json.loads(response.read())
    finally:
        connection.close()
    if response.status != 200:
        raise RuntimeError(f"status {response.status}: {told}")
    return told
