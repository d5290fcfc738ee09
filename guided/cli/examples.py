"""Examples in the help of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["examples_of", "shown_with"]

_Command = TypeVar("_Command", bound=Callable[..., Any])

_examples: dict[Callable[..., Any], str] = {}


def shown_with(*lines: str) -> Callable[[_Command], _Command]:
    """Show lines of a shell below the help of a command."""

    def keep(command: _Command) -> _Command:
        # A line by itself is a paragraph of its own; brackets are no markup.
        written = (line.replace("[", r"\[") for line in lines)
        _examples[command] = "\n\n".join(("[bold]Examples[/bold]", *written))
        return command

    return keep


def examples_of(command: Callable[..., Any]) -> str | None:
    """What is shown below the help of a command."""
    return _examples.get(command)
