"""Measures what HTTP and gRPC add to an engine in the same process, one stream at a time.

`python -m benchmarks.http_overhead [--model MODEL] [--rounds N] [--tokens N]`

The same request goes to an engine in this process, and over both protocols to a server of the same
model, in every order in turn; the first text and the end are timed in each round. Prints medians,
medians of the differences from the engine in the same round, and the level below which the fastest
tenth of first texts are, as the first model call varies by more than the protocols add to it. The
model computes with one thread in both, so each has a core if there are two; on a machine with other
work the differences say more than the times.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle, permutations
from pathlib import Path
from tempfile import TemporaryDirectory

from guided.client import Client
from guided.engine import Engine, load_engine
from guided.spec import Forcing, GenerationRequest, JsonSchema, Message, Sampling
from tests.service.http_server import serving_http
from tests.service.server_process import REAL_SERVER

_SCHEMA = (
    '{"type": "object", "properties": {"title": {"type": "string", "maxLength": 200}, '
    '"text": {"type": "string", "maxLength": 2000}}, "required": ["title", "text"], '
    '"additionalProperties": false}'
)
_PROMPT = "Write a note about the sea."


@dataclass(frozen=True)
class Times:
    """The times of one answer, in seconds."""

    first: float
    """Until the first text."""
    total: float
    text: str


def main() -> None:
    parser = argparse.ArgumentParser(description="What HTTP adds to an engine.")
    parser.add_argument("--model")
    parser.add_argument("--rounds", type=int, default=42)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    settings = {"threads": "1", "drafters": "lookup", "reuse_prefixes": "1"}
    if options.model is not None:
        settings["model"] = options.model
    engine = load_engine(options.model, threads=1, drafters=["lookup"])
    with (
        TemporaryDirectory() as folder,
        serving_http(REAL_SERVER, Path(folder, "log"), settings, timeout=300) as server,
        Client(server.process.address) as client,
        closing(http.client.HTTPConnection(server.url.removeprefix("http://"))) as web,
    ):
        name = client.model().name
        ways: dict[str, Callable[[], Times]] = {
            "in process": lambda: _in_process(engine, options.tokens),
            "gRPC": lambda: _grpc(client, options.tokens),
            "HTTP": lambda: _http(web, name, options.tokens),
        }
        told: dict[str, list[Times]] = {way: [] for way in ways}
        # Each way follows each other way equally often, as the way after a server's finds it warm.
        orders = cycle(permutations(ways.items()))
        for number, order in zip(range(options.rounds + 3), orders, strict=False):
            for way, measure in order:
                times = measure()
                if number >= 3:  # the first ones compile and fill the cache
                    told[way].append(times)
    _print(name, told, options.tokens)


def _print(name: str, told: dict[str, list[Times]], tokens: int) -> None:
    own = told["in process"]
    texts = {times.text for way in told.values() for times in way}
    print(f"{name}, {tokens} tokens, {len(own)} rounds; {len(texts)} different texts")
    print(f"{'first text, ms':16} {'median':>7} {'more':>7} {'tenth':>8} {'more':>7}  of all, more")
    fast_own = _tenth([times.first for times in own])
    for way, all_times in told.items():
        first = statistics.median(times.first for times in all_times)
        pairs = [*zip(all_times, own, strict=True)]
        later = statistics.median(times.first - mine.first for times, mine in pairs)
        fast = _tenth([times.first for times in all_times])
        share = statistics.median(times.total / mine.total - 1 for times, mine in pairs)
        print(
            f"{way:16} {1e3 * first:7.2f} {1e3 * later:+7.2f} "
            f"{1e3 * fast:8.2f} {1e3 * (fast - fast_own):+7.2f} {share:+14.1%}"
        )


def _tenth(times: list[float]) -> float:
    """Return the level below which a tenth of them are."""
    return sorted(times)[len(times) // 10]


def _in_process(engine: Engine, tokens: int) -> Times:
    request = GenerationRequest(
        (Message("user", _PROMPT),),
        JsonSchema(_SCHEMA),
        max_tokens=tokens,
        sampling=Sampling(temperature=0.0),
        forcing=Forcing.CANONICAL,
    )
    began = time.perf_counter()
    engine.submit("one", request, stream=True)
    first: float | None = None
    while True:
        finished = engine.step()
        if engine.take_deltas() and first is None:
            first = time.perf_counter() - began
        for one in finished:
            if isinstance(one.outcome, Exception):
                raise one.outcome
            total = time.perf_counter() - began
            return Times(first or total, total, one.outcome.text)


def _grpc(client: Client, tokens: int) -> Times:
    began, first = time.perf_counter(), 0.0
    with client.stream(_PROMPT, schema=_SCHEMA, max_tokens=tokens) as pieces:
        for _ in pieces:
            first = first or time.perf_counter() - began
    return Times(first, time.perf_counter() - began, pieces.answer.text)


def _http(web: http.client.HTTPConnection, name: str, tokens: int) -> Times:
    """Stream by the client of the standard library, which itself takes almost no time."""
    body = {
        "model": name,
        "messages": [{"role": "user", "content": _PROMPT}],
        "guided_json": _SCHEMA,
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
    }
    sent, kind = json.dumps(body), {"content-type": "application/json"}
    began, first = time.perf_counter(), 0.0
    lines: list[str] = []
    web.request("POST", "/v1/chat/completions", sent, kind)
    response = web.getresponse()
    while line := response.readline().decode():
        if line.strip():
            first = first or time.perf_counter() - began
            lines.append(line.strip())
    return Times(first, time.perf_counter() - began, _text_of(lines))


def _text_of(lines: list[str]) -> str:
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    return "".join(
        choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]
    )


if __name__ == "__main__":
    main()
