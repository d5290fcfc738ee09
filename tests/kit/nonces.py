"""Requests whose constraint contains a unique word, so that a crossed answer is noticed.

Each constraint has its *nonce* in every text that it allows, and no other text has one: an answer
with another nonce belongs to another request.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import jsonschema_rs

from guided.client import Request
from guided.spec import Choice, Lark

__all__ = ["Asked", "MistoldError", "Verdict", "draw_asked"]

_NONCE: Final = re.compile(r"q[0-9a-f]{12}z")
_BUDGETS: Final = (48, 64, 96)


class MistoldError(Exception):
    """A caller got an answer or error that it should not have got."""


class Verdict(StrEnum):
    """The verdict on an answer."""

    RIGHT = "right"
    WRONG = "wrong"
    """Its text does not fit the constraint of its request."""
    CROSSED = "crossed"
    """It has the nonce of another request."""


@dataclass(frozen=True)
class Asked:
    """A request, and the texts that answer it."""

    prompt: str
    nonce: str
    options: dict[str, Any]
    accepts: Callable[[str], bool]

    def request(self) -> Request[Any]:
        """The request as one of a batch."""
        return Request(self.prompt, **self.options)

    def judge(self, text: str) -> Verdict:
        """The verdict on a text that came as the answer."""
        if any(nonce != self.nonce for nonce in _NONCE.findall(text)):
            return Verdict.CROSSED
        return Verdict.RIGHT if self.nonce in text and self.accepts(text) else Verdict.WRONG

    def checked(self, text: str) -> str:
        """The outcome of a call whose answer is right; raises MistoldError for any other answer."""
        verdict = self.judge(text)
        if verdict is not Verdict.RIGHT:
            raise MistoldError(f"{verdict}: {text!r} for {self.nonce} of {self.options}")
        return "answered"


def draw_asked(rng: random.Random) -> Asked:
    """A request with a nonce that no other request has."""
    nonce = f"q{rng.getrandbits(48):012x}z"
    options, accepts = rng.choice(_KINDS)(nonce)
    options |= {"max_tokens": rng.choice(_BUDGETS)}
    if rng.random() < 0.5:
        options |= {"temperature": 1.0, "seed": rng.getrandbits(30)}
    words = " ".join(f"{rng.getrandbits(20):x}" for _ in range(rng.choice([1, 5, 40])))
    return Asked(f"Say it: {words}", nonce, options, accepts)


_Kind = tuple[dict[str, Any], Callable[[str], bool]]


def _of_schema(schema: dict[str, Any]) -> _Kind:
    validator = jsonschema_rs.Draft202012Validator(schema)

    def accepts(text: str) -> bool:
        try:
            return validator.is_valid(json.loads(text))
        except ValueError:
            return False

    return {"schema": schema}, accepts


def _object(nonce: str) -> _Kind:
    properties = {
        "id": {"const": nonce},
        "count": {"type": "integer", "minimum": 0, "maximum": 999},
        "note": {"type": "string", "maxLength": 6},
    }
    return _of_schema(
        {
            "type": "object",
            "properties": properties,
            "required": [*properties],
            "additionalProperties": False,
        }
    )


def _array(nonce: str) -> _Kind:
    return _of_schema(
        {
            "type": "array",
            "prefixItems": [{"const": nonce}],
            "items": {"type": ["boolean", "null"]},
            "minItems": 2,
            "maxItems": 5,
        }
    )


def _pattern(nonce: str) -> _Kind:
    pattern = re.compile(rf"{nonce}(-[a-d]{{1,4}}){{1,3}}")
    return {"grammar": pattern}, lambda text: pattern.fullmatch(text) is not None


def _choice(nonce: str) -> _Kind:
    texts = tuple(f"{nonce} {word}" for word in ("yes", "no", "perhaps"))
    return {"grammar": Choice(texts)}, texts.__contains__


def _grammar(nonce: str) -> _Kind:
    grammar = Lark(f'start: "{nonce}" "(" (WORD ",")~1..3 ")"\nWORD: /[a-c]{{1,3}}/')
    pattern = re.compile(rf"{nonce}\(([a-c]{{1,3}},){{1,3}}\)")
    return {"grammar": grammar}, lambda text: pattern.fullmatch(text) is not None


_KINDS: Final = (_object, _array, _pattern, _choice, _grammar)
