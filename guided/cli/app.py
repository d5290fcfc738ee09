"""Puts the commands together; the server's joins through the entry points ``guided.commands``."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import typer
from rich.console import Console

from guided.cli.check import check
from guided.cli.generate import generate
from guided.errors import GuidedError

__all__ = ["main"]


def main() -> None:
    """Run the command line; a ``GuidedError`` ends it with its message and status 1."""
    app = typer.Typer(
        name="guided",
        help="Structured generation: answers that fit a JSON Schema exactly.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.command()(check)
    app.command()(generate)
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for command in entry_points(group="guided.commands"):
        # The server's packages take seconds to import: only who asks for them waits.
        if wanted in (command.name, "", "--help"):
            app.command(name=command.name)(command.load())
    try:
        app()
    except GuidedError as error:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(f"[bold red]error:[/] {error}", markup=True)
        sys.exit(1)
