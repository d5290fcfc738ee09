"""Checks that memory stays flat: `python benchmarks/soak.py [--requests 1000] [--concurrency 8]`.

A server answers requests that all differ in their prompts and take turns among 200 schemas, more
than a server keeps compiled. Prints the resident memory of the server's processes every 100
requests, and its growth per 100 requests over the second half, when every cache is full, by least
squares. Settings of the server are read from the environment.
"""

from __future__ import annotations

import argparse
import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from e2e_adapter import mebibytes, serving

from guided.client import Client
from guided.errors import GuidedError

_EVERY = 100
_SCHEMAS = 200
_MAX_TOKENS = 96
_WORDS = [
    "anchor",
    "basket",
    "branch",
    "captain",
    "colour",
    "currency",
    "distance",
    "engine",
    "garden",
    "harbour",
    "island",
    "journey",
    "kitchen",
    "ladder",
    "market",
    "member",
    "mirror",
    "motor",
    "number",
    "orange",
    "parcel",
    "pattern",
    "person",
    "pocket",
    "pressure",
    "quality",
    "river",
    "season",
    "signal",
    "station",
    "target",
    "temple",
    "ticket",
    "valley",
    "weather",
    "winter",
]


def main() -> None:
    parser = argparse.ArgumentParser(description="Whether a server's memory stays flat.")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=8)
    options = parser.parse_args()
    schemas = [make_schema(number) for number in range(_SCHEMAS)]
    sizes: list[float] = []
    with serving({}) as (process, address), Client(address) as client:
        for begin in range(0, options.requests, _EVERY):
            numbers = range(begin, min(begin + _EVERY, options.requests))
            with ThreadPoolExecutor(options.concurrency) as pool:
                failed = sum(
                    pool.map(lambda number: not answered(client, number, schemas), numbers)
                )
            sizes.append(mebibytes(process.pid, "VmRSS"))
            print(f"{numbers.stop:5d} requests  {sizes[-1]:8.1f} MiB  {failed} failed", flush=True)
        print(f"peak {mebibytes(process.pid, 'VmHWM'):.1f} MiB")
    second_half = sizes[len(sizes) // 2 :]
    if len(second_half) > 1:
        slope = np.polynomial.Polynomial.fit(range(len(second_half)), second_half, 1).convert()
        print(f"growth over the second half: {slope.coef[1]:+.2f} MiB for each {_EVERY} requests")


def make_schema(number: int) -> dict[str, Any]:
    """Return a schema of an object with a few different members; equal numbers, equal schemas."""
    draw = random.Random(number)
    names = draw.sample(_WORDS, draw.randint(3, 6))
    return {
        "type": "object",
        "properties": {name: _make_value(draw) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _make_value(draw: random.Random, depth: int = 0) -> dict[str, Any]:
    low = draw.randint(0, 500)
    kinds: list[dict[str, Any]] = [
        {"type": "string", "maxLength": draw.randint(4, 16)},
        {"type": "string", "pattern": f"^[A-Z]{{{draw.randint(2, 4)}}}-[0-9]{{{low % 5 + 1}}}$"},
        {"type": "string", "format": draw.choice(["date", "time", "ipv4", "uuid"])},
        {"type": "integer", "minimum": low, "maximum": low + draw.randint(1, 5000)},
        {"type": "boolean"},
        {"enum": draw.sample(_WORDS, 4)},
    ]
    if depth == 0:
        kinds.append({"type": "array", "items": _make_value(draw, 1), "maxItems": 2})
    return draw.choice(kinds)


def answered(client: Client, number: int, schemas: list[dict[str, Any]]) -> bool:
    """Whether request ``number`` got an answer."""
    schema = schemas[number % len(schemas)]
    words = " ".join(random.Random(f"prompt {number}").sample(_WORDS, 12))
    prompt = f"Story {number}: {words}. Answer as JSON with {', '.join(schema['properties'])}."
    try:
        answer = client.generate(prompt, schema=schema, max_tokens=_MAX_TOKENS)
    except GuidedError as error:
        print(f"request {number}: {error}")
        return False
    json.loads(answer.text)
    return True


if __name__ == "__main__":
    main()
