"""Measures how long a running answer pauses while a costly constraint is compiled.

`python benchmarks/compile_pause.py [--model MODEL] [--threads N]`
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from contextlib import suppress
from typing import Any

from guided.constraint import ConstraintCompiler
from guided.engine import Engine, load_engine
from guided.errors import LimitExceededError
from guided.model.load import load_model
from guided.spec import GenerationRequest, JsonSchema

SCHEMAS: dict[str, Any] = {
    "300 objects that differ": {
        "type": "array",
        "items": {"type": "object"},
        "uniqueItems": True,
        "minItems": 300,
    },
    "3,000 alternatives ruled out": {
        "type": "object",
        "allOf": [{"not": {"properties": {"x": {"const": n}}}} for n in range(3000)],
    },
    "a thousand required names": {
        "type": "object",
        "required": [f"n{number}" for number in range(1000)],
    },
}
ANSWER = GenerationRequest("Once upon a time", max_tokens=1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    compiler = ConstraintCompiler(load_model(arguments.model).vocabulary)
    compiler.rehearse()
    engine = load_engine(arguments.model, threads=arguments.threads, drafts=False)
    print("seconds to compile alone and beside an answer, steps meanwhile, longest pause")
    for name, schema in SCHEMAS.items():
        constraint = JsonSchema(json.dumps(schema))
        pauses = beside(engine, constraint)
        print(
            f"{name:30} {alone(compiler, constraint):9.2f} {sum(pauses):9.2f} {len(pauses):6}"
            f" {max(pauses):9.3f}"
        )


def alone(compiler: ConstraintCompiler, constraint: JsonSchema) -> float:
    """Return the seconds of compiling in one go, which is the pause it would cause."""
    started = time.perf_counter()
    # Being refused takes time, too.
    with suppress(LimitExceededError):
        compiler.start(constraint)
    return time.perf_counter() - started


def beside(engine: Engine, constraint: JsonSchema) -> list[float]:
    """Return the seconds between an answer's steps until the constraint is compiled or refused."""
    engine.submit("answer", ANSWER)
    engine.step()
    marks = [time.perf_counter()]
    # Once compiled it is refused at once, as no answer fits in one token.
    with suppress(LimitExceededError):
        engine.submit("costly", GenerationRequest("x", constraint, max_tokens=1))
        while not any(ended.request_id == "costly" for ended in engine.step()):
            marks.append(time.perf_counter())
    marks.append(time.perf_counter())
    engine.cancel("answer")
    return [after - before for before, after in itertools.pairwise(marks)]


if __name__ == "__main__":
    main()
