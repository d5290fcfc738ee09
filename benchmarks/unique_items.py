"""Measures masks inside of arrays whose items have to differ, by the schema of the items.

    python -m benchmarks.unique_items [--tokenizer llama3] [--only NAME ...] [--spelling any]

Each array is walked token by token as the tokenizer spells it: mask, then step. Printed are the
mean of the first and of the second half of the tokens, since earlier items make later ones dearer,
and the longest of the second half, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from statistics import fmean
from typing import Any, Final

from guided.constraint import ConstraintCompiler
from guided.spec import JsonOptions, JsonSchema, Spelling, TokenId
from tests.kit.tokenizers import real_vocabulary

_STRING: Final = {"type": "string"}
_OBJECT: Final = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": _STRING},
    "required": ["id", "name"],
    "additionalProperties": False,
}
_NAMES: Final = [f"item-number-{n}" for n in range(60)]
_CASES: Final[dict[str, tuple[dict[str, Any], list[Any]]]] = {
    "any string": (_STRING, _NAMES),
    "any value": ({}, _NAMES),
    "string or integer": ({"type": ["string", "integer"]}, _NAMES),
    "maxLength 30": (_STRING | {"maxLength": 30}, _NAMES),
    "pattern": (_STRING | {"pattern": r"^[A-Z]{3}-\d{4}$"}, [f"ABC-{n:04}" for n in range(60)]),
    "date": (
        _STRING | {"format": "date"},
        [f"2024-{1 + n // 28:02}-{1 + n % 28:02}" for n in range(80)],
    ),
    "email": (_STRING | {"format": "email"}, [f"person{n}@example.com" for n in range(40)]),
    "uuid": (
        _STRING | {"format": "uuid"},
        [f"{n * 7777:08x}-0000-4000-8000-00000000000a" for n in range(20)],
    ),
    "enum": ({"enum": [f"a{n}" for n in range(50)]}, [f"a{n}" for n in range(40)]),
    "integer": ({"type": "integer"}, [n * 37 for n in range(80)]),
    "integer up to 100000": (
        {"type": "integer", "minimum": 0, "maximum": 100_000},
        [n * 37 for n in range(80)],
    ),
    "object": (_OBJECT, [{"id": n, "name": f"n{n}"} for n in range(30)]),
    "in one alternative": (_STRING, _NAMES),
}


def main() -> None:
    """Print a line for each schema."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", default="llama3", help="one of tests.kit.tokenizers")
    parser.add_argument("--only", nargs="+", choices=_CASES, default=[*_CASES])
    parser.add_argument("--spelling", choices=[*Spelling], default=Spelling.CANONICAL)
    options = parser.parse_args()
    vocabulary = real_vocabulary(options.tokenizer)
    compiler = ConstraintCompiler(vocabulary)
    spelling = JsonOptions(spelling=options.spelling)
    for name in options.only:
        item, values = _CASES[name]
        schema: dict[str, Any] = {"type": "array", "items": item, "uniqueItems": True}
        document: Any = values
        if name == "in one alternative":
            schema, document = _in_one_alternative(schema), {"a": values}
        text = json.dumps(document, separators=(",", ":"))
        tokens = [TokenId(token) for token in vocabulary.spell(text)]
        times = _walk(compiler, json.dumps(schema), spelling, tokens)
        first, second = times[: len(times) // 2], times[len(times) // 2 :]
        print(
            f"{name:22} {len(tokens):4} tokens, mean {fmean(first):7.3f} then "
            f"{fmean(second):7.3f}, longest then {max(second):6.1f} ms",
            flush=True,
        )


def _in_one_alternative(array: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object whose member ``a`` is to be such an array, or else ``b`` 1."""
    other = {"properties": {"b": {"const": 1}}}
    return {"type": "object", "anyOf": [other, {"properties": {"a": array}, "required": ["a"]}]}


def _walk(
    compiler: ConstraintCompiler, schema: str, options: JsonOptions, tokens: Sequence[TokenId]
) -> list[float]:
    """Return the milliseconds of each token, in a process that knows the patterns already."""
    times: list[float] = []
    for _ in range(2):
        # Another constraint for the second walk: it shares only the automata of strings.
        matcher = compiler.start(JsonSchema(schema, options))
        schema += " "
        times.clear()
        for token in tokens:
            begun = time.perf_counter()
            matcher.mask()
            matcher = matcher.advance(token)
            times.append((time.perf_counter() - begun) * 1e3)
    return times


if __name__ == "__main__":
    main()
