"""Reads from a request's fields how long the model thinks before it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from guided.errors import RequestError
from guided.spec import Reasoning

__all__ = ["Effort", "Thinking", "thinking_of"]

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

_SHARES: Final[Mapping[Effort, float]] = {
    "none": 0.0,
    "minimal": 0.1,
    "low": 0.2,
    "medium": 0.5,
    "high": 0.8,
    "xhigh": 0.9,
    "max": 0.95,
}
"""The part of the budget that thoughts may take, by effort."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """Thoughts before an answer, and the field that requests them."""

    reasoning: Reasoning
    field: str


def thinking_of(
    effort: Effort | None, most: int | None, budget: int, *, effort_field: str, budget_field: str
) -> Thinking | None:
    """Return the thoughts that an effort or a number of tokens (``max_reasoning_tokens``) requests.

    ``budget`` is in tokens, for thoughts and answer together. Raises RequestError if both are
    given, if the number leaves no budget for the answer, and if the effort's share of the budget is
    no token.
    """
    if effort is not None and most is not None:
        raise RequestError(
            f"{effort_field} and max_reasoning_tokens both say how long the model thinks",
            field=effort_field,
            hint="leave one out",
        )
    if effort is not None:
        share = int(_SHARES[effort] * budget)
        if effort != "none" and not share:
            raise RequestError(
                f"{effort_field} {effort!r} leaves no token of {budget} for thoughts",
                field=effort_field,
                hint=f"raise {budget_field}, or set it to none",
            )
        return Thinking(Reasoning(share), effort_field)
    if most is None:
        return None
    if most >= budget:
        raise RequestError(
            f"the thoughts may have {most} tokens, but {budget} is the budget of thoughts and "
            "answer together",
            field="max_reasoning_tokens",
            hint=f"raise {budget_field}, or lower max_reasoning_tokens",
        )
    return Thinking(Reasoning(most), "max_reasoning_tokens")
