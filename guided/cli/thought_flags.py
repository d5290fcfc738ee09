"""Flags for the model's thoughts before it answers."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from guided.spec import Reasoning

__all__ = ["ReasoningFlag", "ThoughtsBeginFlag", "ThoughtsEndFlag", "read_thought_flags"]

_PANEL = "Thoughts before the answer"

ReasoningFlag: TypeAlias = Annotated[
    int | None,
    typer.Option(
        metavar="TOKENS",
        help="Let the model think first, for at most this many of --max-tokens; with 0 it answers"
        " at once.",
        rich_help_panel=_PANEL,
    ),
]
ThoughtsBeginFlag: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Text that begins the thoughts, if the chat template does not say.",
        rich_help_panel=_PANEL,
    ),
]
ThoughtsEndFlag: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Text that ends the thoughts, if the chat template does not say.",
        rich_help_panel=_PANEL,
    ),
]


def read_thought_flags(tokens: int | None, begin: str, end: str) -> Reasoning | None:
    """Return the thoughts that the flags request; raises RequestError for impossible ones."""
    if tokens is None:
        if begin or end:
            raise typer.BadParameter("--thoughts-begin and --thoughts-end need --reasoning")
        return None
    return Reasoning(tokens, begin, end)
