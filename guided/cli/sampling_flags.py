"""Flags about how tokens are chosen, and where an answer stops."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

__all__ = [
    "EpsilonCutoffFlag",
    "EtaCutoffFlag",
    "FrequencyPenaltyFlag",
    "IncludeStopFlag",
    "LogitBiasFlag",
    "MinPFlag",
    "NoRepeatFlag",
    "PenaltyAlphaFlag",
    "PresencePenaltyFlag",
    "RepetitionPenaltyFlag",
    "SeedFlag",
    "StopFlag",
    "StopTokenFlag",
    "TemperatureFlag",
    "TopKFlag",
    "TopLogprobsFlag",
    "TopPFlag",
    "TypicalPFlag",
    "read_logit_bias",
]

_PANEL = "Sampling"

TemperatureFlag: TypeAlias = Annotated[
    float, typer.Option(help="0 takes the likeliest token.", rich_help_panel=_PANEL)
]
TopKFlag: TypeAlias = Annotated[
    int | None, typer.Option(help="Keep the k likeliest tokens.", rich_help_panel=_PANEL)
]
TopPFlag: TypeAlias = Annotated[
    float | None, typer.Option(help="Keep the likeliest mass p.", rich_help_panel=_PANEL)
]
MinPFlag: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Keep tokens p times as likely as the likeliest.", rich_help_panel=_PANEL),
]
TypicalPFlag: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Keep the mass p nearest to the entropy.", rich_help_panel=_PANEL),
]
EpsilonCutoffFlag: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Keep tokens of at least this probability.", rich_help_panel=_PANEL),
]
EtaCutoffFlag: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Keep tokens of at least min(eta, sqrt(eta) * exp(-entropy)).", rich_help_panel=_PANEL
    ),
]
RepetitionPenaltyFlag: TypeAlias = Annotated[
    float,
    typer.Option(
        help="Divide logits of tokens in prompt or answer where positive, else multiply.",
        rich_help_panel=_PANEL,
    ),
]
PresencePenaltyFlag: TypeAlias = Annotated[
    float, typer.Option(help="Off the logits of tokens in the answer.", rich_help_panel=_PANEL)
]
FrequencyPenaltyFlag: TypeAlias = Annotated[
    float,
    typer.Option(
        help="Off the logits of tokens in the answer, each time they are there.",
        rich_help_panel=_PANEL,
    ),
]
NoRepeatFlag: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--no-repeat-ngram-size",
        help="No run of so many tokens comes twice where there is another way on.",
        rich_help_panel=_PANEL,
    ),
]
PenaltyAlphaFlag: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Contrastive search among the --top-k likeliest tokens: how much likeness to earlier"
        " tokens counts, from 0 to 1.",
        rich_help_panel=_PANEL,
    ),
]
LogitBiasFlag: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--logit-bias",
        metavar="TOKEN=BIAS",
        help="Add to the logit of a token id; may be given again.",
        rich_help_panel=_PANEL,
    ),
]
SeedFlag: TypeAlias = Annotated[
    int | None,
    typer.Option(help="The same seed gives the same answer.", rich_help_panel=_PANEL),
]

_STOPPING = "Stopping and log-probabilities"

StopFlag: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--stop",
        metavar="TEXT",
        help="End the answer where this text is complete; may be given again.",
        rich_help_panel=_STOPPING,
    ),
]
StopTokenFlag: TypeAlias = Annotated[
    list[int] | None,
    typer.Option(
        "--stop-token",
        metavar="ID",
        help="End the answer with this token; may be given again.",
        rich_help_panel=_STOPPING,
    ),
]
IncludeStopFlag: TypeAlias = Annotated[
    bool, typer.Option(help="Leave what ended the answer in it.", rich_help_panel=_STOPPING)
]
TopLogprobsFlag: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Print log-probabilities of tokens, and of the k likeliest allowed beside each.",
        rich_help_panel=_STOPPING,
    ),
]


def read_logit_bias(given: list[str] | None) -> dict[int, float]:
    """The bias of each token."""
    biases: dict[int, float] = {}
    for pair in given or ():
        token, _, bias = pair.partition("=")
        try:
            number, amount = int(token), float(bias)
        except ValueError as error:
            raise typer.BadParameter(f"{pair!r} is not TOKEN=BIAS with two numbers") from error
        if number in biases:
            raise typer.BadParameter(f"two biases are given for token {number}")
        biases[number] = amount
    return biases
