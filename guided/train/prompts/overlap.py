"""What two sets of prompts share, so that nothing is measured on what was trained on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from guided.spec import GenerationRequest, JsonSchema

__all__ = ["Overlap", "overlap"]

_RUN: Final = 8


@dataclass(frozen=True, slots=True)
class Overlap:
    """What occurs in both."""

    prompts: frozenset[str]
    """Their words, in lower case."""
    schemas: frozenset[str]
    """As JSON with sorted keys."""
    runs: frozenset[str]
    """Eight words in a row."""


def overlap(first: Iterable[GenerationRequest], second: Iterable[GenerationRequest]) -> Overlap:
    """What both have of prompts, schemas, and runs of words in prompts."""
    one, other = list(first), list(second)
    said, said_too = ([_words(request) for request in each] for each in (one, other))
    return Overlap(
        prompts=frozenset(map(" ".join, said)) & frozenset(map(" ".join, said_too)),
        schemas=_schemas(one) & _schemas(other),
        runs=_runs(said) & _runs(said_too),
    )


def _words(request: GenerationRequest) -> list[str]:
    prompt = request.prompt
    text = prompt if isinstance(prompt, str) else " ".join(each.content for each in prompt)
    return re.findall(r"\w+", text.lower())


def _schemas(requests: Iterable[GenerationRequest]) -> frozenset[str]:
    constraints = (request.constraint for request in requests)
    return frozenset(
        json.dumps(json.loads(each.text), sort_keys=True)
        for each in constraints
        if isinstance(each, JsonSchema)
    )


def _runs(texts: Iterable[list[str]]) -> frozenset[str]:
    return frozenset(
        " ".join(text[start : start + _RUN])
        for text in texts
        for start in range(len(text) - _RUN + 1)
    )
