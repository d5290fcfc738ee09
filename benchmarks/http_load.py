"""Loads HTTP and gRPC at once: is any answer lost or invalid, and does each get its share?

`python -m benchmarks.http_load [--model MODEL] [--workload FILE] [--streams N] [--requests N]`

One server of the model has two callers with tokens of equal weight. One keeps N chat streams over
HTTP running, the other as many streams over one gRPC channel, until each has sent all of its
requests: those of the workload that have a schema, in turn, each with a seed of its own, the same
for both. Every answer must come to its end and fit its schema. Shares count what was answered until
one caller had all of its answers; times begin when a request is sent, so they include the wait for
a place.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import httpx2
import jsonschema_rs
import numpy as np

from guided.bearer import bearer_of, new_token, token_hash
from guided.bench.workload import read_workload
from guided.client import AsyncClient
from guided.errors import GuidedError
from guided.spec import JsonSchema, Message
from tests.service.http_server import HttpServer, serving_http
from tests.service.server_process import REAL_SERVER

_FACES: Final = ("HTTP", "gRPC")


@dataclass(frozen=True)
class Asked:
    """A request of the workload."""

    prompt: str
    schema: dict[str, Any]
    max_tokens: int


@dataclass(frozen=True)
class Heard:
    """The outcome of a request, with its times in seconds."""

    asked: Asked
    began: float
    pieces: tuple[tuple[float, str], ...]
    ended: float
    tokens: int
    error: str = ""

    @property
    def is_valid(self) -> bool:
        try:
            document = json.loads("".join(text for _, text in self.pieces))
        except ValueError:
            return False
        return jsonschema_rs.is_valid(self.asked.schema, document)


Stream: TypeAlias = Callable[[Asked, int], AsyncIterator[str | int]]
"""Yields the texts of an answer with a seed, and last the number of its tokens."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Both faces under load at once.")
    parser.add_argument("--model")
    parser.add_argument("--workload", type=Path)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--requests", type=int, default=256, help="of each face")
    options = parser.parse_args()
    asked = [
        Asked(message.content, json.loads(request.constraint.text), request.most_tokens)
        for request in read_workload(options.workload).values()
        for message in request.prompt
        if isinstance(request.constraint, JsonSchema) and isinstance(message, Message)
    ]
    requests = [asked[number % len(asked)] for number in range(options.requests)]
    tokens = {face: new_token() for face in _FACES}
    with TemporaryDirectory() as folder:
        settings = {"tokens": str(_token_file(Path(folder), tokens))}
        settings |= {} if options.model is None else {"model": options.model}
        with serving_http(REAL_SERVER, Path(folder, "log"), settings, timeout=600) as server:
            heard = asyncio.run(_load(server, tokens, requests, options.streams))
    _print(heard)


def _token_file(folder: Path, tokens: Mapping[str, str]) -> Path:
    file = folder / "tokens.toml"
    tables = (f'[{face}]\nsha256 = "{token_hash(token)}"\n' for face, token in tokens.items())
    file.write_text("".join(tables))
    return file


async def _load(
    server: HttpServer, tokens: Mapping[str, str], requests: Sequence[Asked], streams: int
) -> dict[str, list[Heard]]:
    async with (
        httpx2.AsyncClient(
            base_url=server.url,
            timeout=None,
            limits=httpx2.Limits(max_connections=streams),
            headers={"authorization": bearer_of(tokens["HTTP"])},
        ) as web,
        AsyncClient(server.process.address, token=tokens["gRPC"], retries=0) as ours,
    ):
        model = (await ours.model()).name  # connects before the others come
        ways: dict[str, Stream] = {
            "HTTP": lambda asked, seed: _over_http(web, model, asked, seed),
            "gRPC": lambda asked, seed: _over_grpc(ours, asked, seed),
        }
        heard: dict[str, list[Heard]] = {face: [] for face in _FACES}
        left = {face: iter(enumerate(requests)) for face in _FACES}  # each takes the next

        async def one_stream(face: str) -> None:
            for seed, asked in left[face]:
                heard[face].append(await _listen(ways[face](asked, seed), asked))

        # By turns, so that at the start neither caller is ahead of the other.
        await asyncio.gather(*(one_stream(face) for _ in range(streams) for face in _FACES))
    return heard


async def _listen(stream: AsyncIterator[str | int], asked: Asked) -> Heard:
    began, pieces, tokens, error = time.perf_counter(), list[tuple[float, str]](), 0, "no end"
    try:
        async for told in stream:
            if isinstance(told, int):
                tokens, error = told, ""
            elif told:
                pieces.append((time.perf_counter(), told))
    except (GuidedError, httpx2.HTTPError) as caught:
        error = f"{type(caught).__name__}: {caught}"
    return Heard(asked, began, tuple(pieces), time.perf_counter(), tokens, error)


async def _over_http(
    web: httpx2.AsyncClient, model: str, asked: Asked, seed: int
) -> AsyncIterator[str | int]:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": asked.prompt}],
        "guided_json": asked.schema,
        "max_tokens": asked.max_tokens,
        "seed": seed,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    tokens = 0
    async with web.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                chunk = json.loads(line.removeprefix("data: "))
                for choice in chunk.get("choices", ()):
                    yield choice["delta"].get("content") or ""
                tokens = (chunk.get("usage") or {}).get("completion_tokens", tokens)
            elif line == "data: [DONE]":
                yield tokens


async def _over_grpc(ours: AsyncClient, asked: Asked, seed: int) -> AsyncIterator[str | int]:
    schema, limit = asked.schema, asked.max_tokens
    async with ours.stream(
        asked.prompt, schema=schema, max_tokens=limit, seed=seed, temperature=1.0
    ) as pieces:
        async for text in pieces:
            yield text
        usage = pieces.answer.usage
        yield usage.sampled_tokens + usage.forced_tokens


def _print(heard: Mapping[str, Sequence[Heard]]) -> None:
    until = min(max(one.ended for one in each) for each in heard.values())
    whole = {face: [one for one in each if not one.error] for face, each in heard.items()}
    early = {face: [one for one in each if one.ended <= until] for face, each in whole.items()}
    answers = {face: len(each) for face, each in early.items()}
    tokens = {face: sum(one.tokens for one in each) for face, each in early.items()}
    print("| face | asked | lost | invalid | of answers | of tokens | first text | whole answer |")
    print("|---|---|---|---|---|---|---|---|")
    for face, each in heard.items():
        cells = [
            face,
            len(each),
            len(each) - len(whole[face]),
            sum(not one.is_valid for one in whole[face]),
            f"{answers[face] / max(1, sum(answers.values())):.1%}",
            f"{tokens[face] / max(1, sum(tokens.values())):.1%}",
            _spread([one.pieces[0][0] - one.began for one in whole[face] if one.pieces]),
            _spread([one.ended - one.began for one in whole[face]]),
        ]
        print(f"| {' | '.join(map(str, cells))} |")
    for error, count in Counter(one.error for each in heard.values() for one in each).items():
        if error:
            print(f"{count}: {error}")


def _spread(seconds: Sequence[float]) -> str:
    """Format the median and the slow end."""
    if not seconds:
        return ""
    return "p50 {:.2f} s, p99 {:.2f} s".format(*np.percentile(seconds, (50, 99)))


if __name__ == "__main__":
    main()
