"""Compares a model's greedy tokens over several processes with those of one, in float32.

`python -m benchmarks.rank_tokens [WORKLOAD] [--model MODEL] [--tensor N ...] [--pipeline N ...]`

Without a workload it uses the requests of the demo, as plain text, so that it also works for models
without a chat template. Exits with status 1 if a token differs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.model_calls import read_requests
from guided.engine import load_engine
from guided.spec import GenerationRequest, TokenId
from tests.engine.tiny_models import answers

_CACHE_TOKENS = 24_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("workload", type=Path, nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--tensor", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--pipeline", type=int, nargs="*", default=[2, 4])
    options = parser.parse_args()
    requests = {name: _plain(each) for name, each in read_requests(options.workload).items()}
    expected, differing = _tokens(options.model, requests, {}), 0
    ways = [("tensor_parallel", ranks) for ranks in options.tensor]
    ways += [("pipeline_parallel", ranks) for ranks in options.pipeline]
    for way, ranks in ways:
        begun = time.monotonic()
        found = _tokens(options.model, requests, {way: ranks})
        apart = [name for name, tokens in found.items() if tokens != expected[name]]
        total, seconds = sum(map(len, found.values())), time.monotonic() - begun
        print(
            f"{way} {ranks}: {len(found)} answers, {total} tokens, {seconds:.0f} s; differ:", end=""
        )
        print("", *apart or ["none"], flush=True)
        differing += len(apart)
    return int(differing > 0)


def _plain(request: GenerationRequest) -> GenerationRequest:
    if isinstance(request.prompt, str):
        return request
    prompt = "\n".join(message.content for message in request.prompt)
    return replace(request, prompt=prompt, show_schema=False)


def _tokens(
    model: str | None, requests: Mapping[str, GenerationRequest], split: Mapping[str, Any]
) -> dict[str, tuple[TokenId, ...]]:
    """Return the answers, all made in one batch."""
    engine = load_engine(model, dtype="float32", device="cpu", cache_tokens=_CACHE_TOKENS, **split)
    try:
        return {name: answer.tokens for name, answer in answers(engine, {**requests}).items()}
    finally:
        engine.close()


if __name__ == "__main__":
    raise SystemExit(main())
