"""Flags about several answers to one prompt."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from guided.spec import Beams, Rank

__all__ = [
    "BeamsFlag",
    "BestOfFlag",
    "CountFlag",
    "EarlyStoppingFlag",
    "LengthPenaltyFlag",
    "RankFlag",
    "read_beams",
]

_PANEL = "Several answers"

CountFlag: TypeAlias = Annotated[
    int,
    typer.Option("-n", help="Answers to be given, one a line.", rich_help_panel=_PANEL),
]
BestOfFlag: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Draw so many, and give the n best of them.", rich_help_panel=_PANEL),
]
RankFlag: TypeAlias = Annotated[
    Rank, typer.Option(help="What tells which are best.", rich_help_panel=_PANEL)
]
BeamsFlag: TypeAlias = Annotated[
    int | None,
    typer.Option(
        metavar="WIDTH",
        help="Search for the likeliest answers with so many beams.",
        rich_help_panel=_PANEL,
    ),
]
LengthPenaltyFlag: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Beams: divide sums of log-probabilities by length to this power; 1.",
        rich_help_panel=_PANEL,
    ),
]
EarlyStoppingFlag: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--early-stopping",
        help="Beams: stop once there are as many answers as beams.",
        rich_help_panel=_PANEL,
    ),
]


def read_beams(
    width: int | None, length_penalty: float | None, *, early_stopping: bool
) -> Beams | None:
    """The beams that the flags describe."""
    if width is not None:
        return Beams(width, 1.0 if length_penalty is None else length_penalty, early_stopping)
    if length_penalty is not None or early_stopping:
        raise typer.BadParameter("--length-penalty and --early-stopping need --beams")
    return None
