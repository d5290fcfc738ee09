"""The commands ``guided grammars list``, ``show`` and ``check``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from guided.cli.examples import examples_of, shown_with
from guided.cli.refused_at import refused_at
from guided.cli.waiting import telling_of_compilation
from guided.spec import Lark
from guided.spec.library import LibraryGrammar, grammar_names, read_grammar, read_grammar_file

__all__ = ["grammars"]


@shown_with("guided grammars list", "guided grammars show sql_select > mine.lark")
def _describe() -> None:
    """Show and check the grammars that come with guided."""


grammars = typer.Typer(name="grammars", no_args_is_help=True)
grammars.callback(epilog=examples_of(_describe))(_describe)

_NAME = "NAME|FILE.lark"


@grammars.command("list")
def list_grammars() -> None:
    """Tell which grammars there are."""
    table = Table("grammar", "what it is for")
    for name in grammar_names():
        table.add_row(name, Text(read_grammar(name).summary))
    Console(soft_wrap=True).print(table)


@grammars.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="Grammar to print.")]) -> None:
    """Print a grammar, to be used as it is or changed."""
    typer.echo(read_grammar(name).text, nl=False)


@grammars.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar=f"[{_NAME}]...",
            help="Grammars of the library, or files with .accept and .reject beside; without, all.",
        ),
    ] = None,
) -> None:
    """Hold grammars against their examples; status 1 if one of them is not as it says."""
    console = Console(soft_wrap=True)
    failed = False
    for grammar in map(_named, names or grammar_names()):
        with telling_of_compilation():
            faults = list(_faults(grammar))
        failed |= bool(faults)
        count = len(grammar.accepted) + len(grammar.rejected)
        verdict = ("failed", "bold red") if faults else ("ok", "green")
        console.print(Text.assemble(verdict, f" {grammar.name}: {count} examples"))
        for fault in faults:
            console.print(Text(f"  {fault}"))
    if failed:
        raise typer.Exit(1)


def _named(name: str) -> LibraryGrammar:
    return read_grammar_file(Path(name)) if name.endswith(".lark") else read_grammar(name)


def _faults(grammar: LibraryGrammar) -> Iterator[str]:
    """What is wrong with the examples of a grammar; raises ConstraintError for a faulty one."""
    # Loaded here, so that the other commands need not wait for it.
    from guided.constraint.machine import machine_of

    if not grammar.accepted:
        yield "no example is to be accepted"
    if not grammar.rejected:
        yield "no example is to be rejected"
    machine = machine_of(Lark(grammar.text))
    for text in grammar.accepted:
        refused = refused_at(machine, text)
        if refused is not None:
            yield f"not accepted, from character {refused + 1} on: {text!r}"
    for text in grammar.rejected:
        if refused_at(machine, text) is None:
            yield f"not rejected: {text!r}"
