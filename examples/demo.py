"""Serve the default model, answer a batch of Pydantic requests, compare, and drain.

Exits with 0 only if every answer validates and the server drains when it is stopped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from examples.demo_requests import REQUESTS
from examples.serving import served
from guided import Answer, Client, Forcing, GuidedError, Request

_GOAL = 0.6
"""Most model calls with canonical forcing, as a share of those with masks alone."""

console = Console(width=150)


def main() -> int:
    with served(console) as address, Client(address) as client:
        console.rule(f"one batch of {len(REQUESTS)} requests")
        started = time.monotonic()
        outcomes = client.batch(REQUESTS)
        seconds = time.monotonic() - started
        answers = _valid(outcomes)
        _print_answers(answers, seconds)

        console.rule("the same requests one at a time")
        masks_alone = _one_at_a_time(client, Forcing.OFF, "masks alone, a call for each token")
        canonical = _one_at_a_time(client, Forcing.CANONICAL, "canonical forcing")
        share = _print_totals(masks_alone, canonical)
    if share > _GOAL:
        console.print(f"[red]model calls: {share:.2f} of masks alone, above {_GOAL}")
        return 1
    return 0


def _valid(outcomes: Sequence[Answer[BaseModel] | GuidedError]) -> list[Answer[BaseModel]]:
    """Return the answers; an error among them ends the demo."""
    answers = [outcome for outcome in outcomes if isinstance(outcome, Answer)]
    for outcome in outcomes:
        if isinstance(outcome, GuidedError):
            console.print(f"[red]{type(outcome).__name__}:[/] {outcome}")
    if len(answers) < len(outcomes):
        raise SystemExit(f"{len(outcomes) - len(answers)} answers are not valid")
    return answers


def _one_at_a_time(client: Client, forcing: Forcing, name: str) -> list[Answer[BaseModel]]:
    outcomes: list[Answer[BaseModel] | GuidedError] = []
    for request in track(REQUESTS, description=f"{name:36}", console=console):
        outcomes += client.batch([_with_forcing(request, forcing)])
    return _valid(outcomes)


def _with_forcing(request: Request[BaseModel], forcing: Forcing) -> Request[BaseModel]:
    model: Any = request.response_model
    return Request(
        request.prompt,
        model,
        max_tokens=request.max_tokens,
        forcing=forcing,
        # The batch had the same answers, which guesses would otherwise be taken from.
        cache_salt=forcing.value,
    )


def _print_answers(answers: Sequence[Answer[BaseModel]], seconds: float) -> None:
    table = Table("validated object", "finish", "tokens", "forced", "sampled", "calls", "seconds")
    for answer in answers:
        usage = answer.usage
        table.add_row(
            Text(repr(answer.value)),
            answer.finish_reason.value,
            str(usage.output_tokens),
            str(usage.forced_tokens),
            str(usage.sampled_tokens),
            str(usage.model_calls),
            f"{answer.seconds:.2f}",
        )
    console.print(table)
    tokens = sum(answer.usage.output_tokens for answer in answers)
    console.print(
        f"{len(answers)} valid objects in {seconds:.1f} s:"
        f" {len(answers) / seconds:.2f} objects/s, {tokens / seconds:.0f} tokens/s"
    )


def _print_totals(
    masks_alone: Sequence[Answer[BaseModel]], canonical: Sequence[Answer[BaseModel]]
) -> float:
    """Print the totals of each way; returns the share of model calls with canonical forcing."""
    table = Table(
        "one at a time", "tokens", "forced", "sampled", "calls", "seconds", "calls, share"
    )
    baseline = sum(answer.usage.model_calls for answer in masks_alone)
    ways = {"masks alone": masks_alone, "canonical forcing": canonical}
    for name, answers in ways.items():
        calls = sum(answer.usage.model_calls for answer in answers)
        table.add_row(
            name,
            str(sum(answer.usage.output_tokens for answer in answers)),
            str(sum(answer.usage.forced_tokens for answer in answers)),
            str(sum(answer.usage.sampled_tokens for answer in answers)),
            str(calls),
            f"{sum(answer.seconds for answer in answers):.1f}",
            f"{calls / baseline:.2f}",
        )
    console.print(table)
    return sum(answer.usage.model_calls for answer in canonical) / baseline


if __name__ == "__main__":
    sys.exit(main())
