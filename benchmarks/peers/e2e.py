"""Answers a workload with one back end: ``python -m benchmarks.peers.e2e --backend NAME``

Greedy, compact JSON. Loading a model and one warm-up are outside of the clock, compiling every
request's schema is inside. Compare back ends in turns, each run in a process of its own.

`guided` starts a server (its settings come from the environment), `llama_server` asks a running
llama-server, started with ``-np N`` for ``--batch N``. `hf_xgrammar` and `hf_llguidance` are
generate() of transformers with the engine's mask, in static batches.
"""

from __future__ import annotations

import argparse
import json
import os
from importlib import import_module
from pathlib import Path
from typing import Final

from benchmarks.peers.answers import Answers, Request

BACK_ENDS: Final = {
    "guided": ("benchmarks.e2e_adapter", "run_guided"),
    "llama_server": ("benchmarks.peers.back_ends.llama_server", "run"),
    "hf_xgrammar": ("benchmarks.peers.back_ends.transformers", "run_xgrammar"),
    "hf_llguidance": ("benchmarks.peers.back_ends.transformers", "run_llguidance"),
}
"""Module and function of each back end, imported when it is named."""


def main() -> None:
    options = _options()
    lines = options.workload.read_text("utf-8").split("\n")
    requests: list[Request] = [json.loads(line) for line in lines if line.strip()]
    requests = requests[: options.limit or None]
    about = {"backend": options.backend, "batch": options.batch, "threads": options.threads}
    module, function = BACK_ENDS[options.backend]
    run = getattr(import_module(module), function)
    run(options, requests, Answers(about, options.out))


def _options() -> argparse.Namespace:
    of, here = os.environ.get, Path(__file__).parent
    parser = argparse.ArgumentParser(description="Whole answers, beside other back ends.")
    parser.add_argument("--backend", choices=BACK_ENDS, required=True)
    parser.add_argument("--workload", type=Path, default=here / "workload.jsonl")
    parser.add_argument("--batch", type=int, default=1, help="requests at once")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=int, default=0, help="the first requests only; 0: all")
    parser.add_argument("--hf-model", default=of("E2E_HF_MODEL"), help="a folder")
    parser.add_argument("--dtype", default="bfloat16", help="of transformers")
    parser.add_argument("--server-url", default=of("E2E_SERVER_URL", "http://127.0.0.1:8080"))
    parser.add_argument(
        "--schema-to-gbnf",
        default=of("E2E_SCHEMA_TO_GBNF"),
        help="llama.cpp's converter: a command that reads a schema and writes GBNF",
    )
    parser.add_argument("--out", type=Path, help="figures and answers as JSON")
    options = parser.parse_args()
    if options.backend != "guided" and not options.hf_model:
        parser.error("--hf-model is needed, for its weights or for its chat template")
    if options.backend == "llama_server" and not options.schema_to_gbnf:
        parser.error("--schema-to-gbnf is needed")
    return options


if __name__ == "__main__":
    main()
