"""Constraints that are wrong, cannot be met, or take more work than they should."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from guided.spec import Choice, Ebnf, Lark, Regex

__all__ = ["hostile_options"]


def hostile_options(rng: random.Random) -> dict[str, Any]:
    """A random hostile constraint, as options of the SDK."""
    size = rng.randrange(1, 4000)
    made: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: {"schema": '{"type": "strin"}'},
        lambda: {"schema": "{" * size},
        lambda: {"schema": {"type": "string", "pattern": r"(a)\1"}},
        lambda: {"schema": {"allOf": [{"type": "string"}, {"type": "integer"}]}},
        lambda: {"schema": _nested(size % 300)},
        lambda: {"schema": {"enum": [f"value {number:x}" for number in range(size)]}},
        lambda: {"schema": {"oneOf": [_closed(f"k{n % 7}") for n in range(size % 40 + 1)]}},
        lambda: {"grammar": Regex("(" * size + "a" + ")" * size)},
        lambda: {"grammar": Regex(f"^.{{1,{size * 5}}}$")},
        lambda: {"grammar": Regex(rf"(\w|\d|\s|é){{1,{size}}}")},
        lambda: {"grammar": Regex(f"(a|b)*a(a|b){{{size}}}")},
        lambda: {"grammar": Lark("start: start")},
        lambda: {"grammar": Lark("start: " + "(" * size)},
        lambda: {"grammar": Ebnf("root ::= root root | " + '"a" ' * (size % 500))},
        lambda: {"grammar": Choice(tuple(f"{number}" * 9 for number in range(size)))},
    )
    return rng.choice(made)()


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": 2}
    return schema


def _closed(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"}, "b": {"type": ["integer", "string"]}},
        "additionalProperties": False,
    }
