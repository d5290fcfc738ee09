"""Puts the commands together; the server's join through the entry points ``guided.commands``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from guided.cli.batch import batch
from guided.cli.bench import bench
from guided.cli.check import check
from guided.cli.common import examples_of, shown_with, telling_of_compilation
from guided.cli.constraint_flags import GrammarFlag
from guided.cli.generate import generate
from guided.cli.grammars import dump_stages, grammars, inspect_grammar
from guided.cli.inspect_generate import inspect_generate
from guided.cli.inspect_model import inspect_model
from guided.cli.inspect_schema import inspect_schema
from guided.cli.reward_tune import reward_tune
from guided.cli.tokens import tokens
from guided.cli.top import top
from guided.cli.train import draft, eagle, medusa
from guided.errors import GuidedError
from guided.extras import DISTRIBUTION, missing_extra, needing
from guided.runtime.native import is_native

__all__ = ["command_line", "main"]

_GENERATE = "--generate"


def main() -> None:
    """Run the command line; a ``GuidedError`` ends it with its message and status 1."""
    app = command_line()
    try:
        with needing(" ".join(("guided", *sys.argv[1:2]))):
            app()
    except GuidedError as error:
        _fail(str(error))


def command_line() -> typer.Typer:
    """Build all commands; loads only the called one of other packages, or all for help."""
    app = typer.Typer(name="guided", no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback(epilog=examples_of(_options))(_options)
    for function in (check, generate, batch, bench, top, _prepare):
        _command(app, function, function.__name__.lstrip("_"))
    app.add_typer(grammars)
    app.add_typer(tokens)
    inspect = typer.Typer(cls=_InspectGroup, no_args_is_help=True)
    inspect.callback(invoke_without_command=True, epilog=examples_of(_inspect))(_inspect)
    _command(inspect, inspect_model, "model")
    _command(inspect, inspect_schema, "schema")
    _command(inspect, inspect_generate, "generate")
    app.add_typer(inspect, name="inspect")
    train = typer.Typer(
        no_args_is_help=True, help="Train drafters for a model, or the model itself."
    )
    _command(train, medusa, "medusa")
    _command(train, eagle, "eagle")
    _command(train, draft, "draft")
    _command(train, reward_tune, "reward-tune")
    app.add_typer(train, name="train")
    for command in entry_points(group="guided.commands"):
        _add(app, command)
    return app


class _InspectGroup(TyperGroup):
    """Reads ``inspect --generate`` as ``inspect generate``.

    It has all the flags of a request, which belong to a command of their own, not to the group.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if _GENERATE in args:
            args = [_GENERATE.lstrip("-"), *(each for each in args if each != _GENERATE)]
        return super().parse_args(ctx, args)


def _command(app: typer.Typer, function: Callable[..., Any], name: str | None = None) -> None:
    app.command(name, epilog=examples_of(function))(function)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"{version(DISTRIBUTION)} ({'native' if is_native() else 'interpreted'})")
        raise typer.Exit


@shown_with(
    "guided check ticket.json",
    "guided serve --model HuggingFaceTB/SmolLM2-135M-Instruct",
    'guided generate --schema ticket.json --prompt "Card payments fail."',
    "guided COMMAND --help",
)
def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Make language models answer in exactly the structure you ask for.

    Start a server with [bold]guided serve[/bold] and request answers with [bold]guided
    generate[/bold]. [bold]guided check[/bold] reports beforehand how a JSON Schema or a Pydantic
    model will be enforced; it needs neither a model nor a server.
    """


@shown_with(
    "guided inspect model Qwen/Qwen3-0.6B --dtype int8",
    "guided inspect --grammar query.lark --text query.txt",
    'guided inspect --generate --schema ticket.json --prompt "Card payments fail."',
)
def _inspect(
    context: typer.Context,
    grammar: GrammarFlag = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(help="File with a text to trace through the grammar; may be repeated."),
    ] = None,
    walks: Annotated[
        int, typer.Option(min=0, help="Number of random texts to trace if --text is not given.")
    ] = 20,
    vocabulary: Annotated[
        str, typer.Option(help="Model whose vocabulary is used, named as for 'inspect model'.")
    ] = "default",
    dump: Annotated[
        bool, typer.Option("--dump", help="Print the grammar's rules and its network instead.")
    ] = False,
    tokens: Annotated[  # noqa: ARG001 - the group has read it
        bool,
        typer.Option(
            _GENERATE,
            help="Generate an answer and show where each token came from; add --help for the"
            " options.",
        ),
    ] = False,
) -> None:
    """Show the memory a model needs, the cost of a grammar, or where an answer's tokens came from.

    The commands below inspect models, schemas and answers; --grammar inspects a grammar.
    """
    if context.invoked_subcommand is None and grammar is None:
        raise typer.BadParameter("neither a command nor --grammar is given")
    if grammar is not None and dump:
        typer.echo(dump_stages(grammar))
    elif grammar is not None:
        inspect_grammar(grammar, text or [], walks, vocabulary)


@shown_with("guided prepare", "RUN guided prepare    # in a container's file")
def _prepare() -> None:
    """Compile kernels ahead of time, so that the first check or constraint need not wait for them.

    An installation from source has already compiled them for the processor that it was installed
    on. Run this where guided was installed on another machine, for example when building a
    container. The kernels of models are compiled when a model is first loaded.
    """
    with telling_of_compilation():
        # Imported here, so that the other commands need not wait for it.
        from guided.constraint.preparation import prepare_kernels

        prepare_kernels()
    typer.echo("kernels are ready")


def _add(app: typer.Typer, command: EntryPoint) -> None:
    """Add a command of another package, whose imports may take seconds or be missing."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if wanted not in (command.name, "--help"):
        return
    try:
        function = command.load()
    except ModuleNotFoundError as error:
        missing = missing_extra(f"guided {command.name}", error, "server")
        if missing is None:
            raise
        if wanted == command.name:
            _fail(str(missing))
        return
    if isinstance(function, typer.Typer):
        app.add_typer(function, name=command.name)
    else:
        _command(app, function, command.name)


def _fail(message: str) -> None:
    # As Text, so that brackets in a schema are not markup.
    Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), message))
    sys.exit(1)
