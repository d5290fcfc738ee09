"""Puts the commands together; the server's joins through the entry points ``guided.commands``."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from guided.cli.bench import bench
from guided.cli.check import check
from guided.cli.generate import generate
from guided.cli.grammar_flags import GrammarFlag, ReadingFlag
from guided.cli.grammars import grammars
from guided.cli.inspect_grammar import inspect_grammar
from guided.cli.inspect_model import inspect_model
from guided.errors import GuidedError
from guided.native import is_native
from guided.spec import Reading

__all__ = ["main"]


def main() -> None:
    """Run the command line; a ``GuidedError`` ends it with its message and status 1."""
    app = typer.Typer(
        name="guided",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    app.command()(bench)
    app.command()(check)
    app.command()(generate)
    app.add_typer(grammars)
    inspect = typer.Typer(no_args_is_help=True)
    inspect.callback(invoke_without_command=True)(_inspect)
    inspect.command("model")(inspect_model)
    app.add_typer(inspect, name="inspect")
    for command in entry_points(group="guided.commands"):
        _add(app, command)
    try:
        app()
    except GuidedError as error:
        _fail(str(error))


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"{version('guided')} ({'native' if is_native() else 'interpreted'})")
        raise typer.Exit


def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and leave.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Structured generation: answers that fit a JSON Schema exactly."""


def _inspect(
    context: typer.Context,
    grammar: GrammarFlag = None,
    reading: ReadingFlag = Reading.CONTEXT_FREE,
    text: Annotated[
        list[Path] | None,
        typer.Option(help="File with a text of the grammar to follow; may be repeated."),
    ] = None,
    walks: Annotated[
        int, typer.Option(min=0, help="Random texts to follow where none is given.")
    ] = 20,
    vocabulary: Annotated[
        str, typer.Option(help="Model whose tokens are meant, as for 'inspect model'.")
    ] = "default",
) -> None:
    """Tell about things before they are used: a model, or with --grammar a grammar."""
    if context.invoked_subcommand is None and grammar is None:
        raise typer.BadParameter("there is neither a command nor --grammar")
    if grammar is not None:
        inspect_grammar(grammar, reading, text or [], walks, vocabulary)


def _add(app: typer.Typer, command: EntryPoint) -> None:
    """Add a command of another package; its imports may take seconds, or be missing."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if wanted not in (command.name, "--help"):
        return
    try:
        function = command.load()
    except ModuleNotFoundError as error:
        if wanted == command.name:
            _fail(
                f"guided {command.name} needs {error.name}, which is not installed;"
                " install guided with its extra 'server'"
            )
        return
    app.command(name=command.name)(function)


def _fail(message: str) -> None:
    # As Text: brackets in a schema's own words are no markup.
    Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), message))
    sys.exit(1)
