"""The back end ``guided`` of ``benchmarks.peers.e2e``, and of its earlier form by ``--adapter``.

A server process is started outside the measured time, warmed up on another schema and prompt, and
keeps no prefixes; requests come over gRPC from the SDK, ``--batch N`` of them at once. GUIDED_DTYPE
and the other settings of the server are read from the environment, ``--threads`` from the command
line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from guided.client import Answer, Client, wait_until_serving
from guided.errors import ServiceUnavailableError
from guided.spec import FinishReason

_START_SECONDS = 600.0
_WARM_UP = (
    "Say yes or no, and give a number, a word and a day.",
    {
        "type": "object",
        "properties": {
            "yes": {"type": "boolean"},
            "number": {"type": "number"},
            "word": {"type": "string", "maxLength": 12},
            "day": {"type": "string", "format": "date"},
        },
        "required": ["yes", "number", "word", "day"],
        "additionalProperties": False,
    },
)


def run_guided(args: Any, requests: list[dict[str, Any]], report: Any) -> None:
    """The back end ``guided``."""
    settings = {"GUIDED_THREADS": str(args.threads), "GUIDED_REUSE_PREFIXES": "false"}
    with serving(settings) as (process, address), Client(address) as client:
        _ask(client, *_WARM_UP, 64)
        began = time.perf_counter()
        with ThreadPoolExecutor(args.batch) as pool:
            # Results come in the order of the requests; the clock of each is its own.
            done = list(pool.map(lambda request: _timed(client, request), requests))
        wall = time.perf_counter() - began
        calls = 0
        for request, (answer, seconds) in zip(requests, done, strict=True):
            usage = answer.usage
            calls += usage.model_calls
            report.add(
                request,
                answer.text,
                usage.output_tokens,
                seconds,
                forwards=usage.model_calls,
                prompt_tokens=usage.prompt_tokens,
                finished=answer.finish_reason is FinishReason.COMPLETE,
                finish_reason=answer.finish_reason.name,
                forced=usage.forced_tokens,
                drafted=usage.drafted_tokens,
                accepted=usage.accepted_tokens,
            )
        report.extra["closed_early"] = sum(
            answer.finish_reason is not FinishReason.COMPLETE for answer, _ in done
        )
        report.extra["server_peak_rss_mib"] = mebibytes(process.pid, "VmHWM")
        report.finish(wall, calls)


def _timed(client: Client, request: dict[str, Any]) -> tuple[Answer[Any], float]:
    began = time.perf_counter()
    answer = _ask(client, request["prompt"], request["schema"], request["max_tokens"])
    return answer, time.perf_counter() - began


def _ask(client: Client, prompt: str, schema: dict[str, Any], max_tokens: int) -> Answer[Any]:
    message = [{"role": "user", "content": prompt}]
    return client.generate(message, schema=schema, max_tokens=max_tokens, show_schema=False)


@contextmanager
def serving(settings: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server and yield it with its address when ready; the environment's settings win."""
    with subprocess.Popen(
        [sys.executable, "-m", "guided_service", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=settings | os.environ,
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip().rpartition(" ")[2]
            if not address:
                raise SystemExit(f"the server ended with status {process.wait()}")
            _wait_until_serving(process, address)
            yield process, address
        finally:
            process.terminate()


def _wait_until_serving(process: subprocess.Popen[str], address: str) -> None:
    last = time.monotonic() + _START_SECONDS
    while True:
        try:
            return wait_until_serving(address, timeout=1.0)
        except ServiceUnavailableError:
            if process.poll() is not None:
                raise SystemExit(f"the server ended with status {process.returncode}") from None
            if time.monotonic() > last:
                raise


def mebibytes(server: int, field: str) -> float:
    """Return the memory of server and engine together; ``field`` is VmRSS, or VmHWM for the peak.

    A standby is left out: it shares most of its memory with the engine.
    """
    processes = processes_of(server)
    return sum(_field_of(process, field) for process in (processes[0], processes[-1])) / 1024


def processes_of(server: int) -> list[int]:
    """Return the server, its standby if it has one, and its engine if there is one."""
    processes = [server]
    while children := Path(f"/proc/{processes[-1]}/task/{processes[-1]}/children").read_text():
        processes.append(int(children.split()[0]))
    return processes


def _field_of(process: int, field: str) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise AssertionError(f"process {process} has no {field}")
