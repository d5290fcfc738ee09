"""Commands about grammars: ``guided grammars list``, ``show``, ``check``, ``inspect --grammar``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from guided.cli.common import (
    examples_of,
    read_text,
    refused_at,
    shown_with,
    telling_of_compilation,
)
from guided.cli.constraint_flags import read_grammar_flags
from guided.errors import RequestError, TokenRejectedError
from guided.extras import needing
from guided.spec import Lark
from guided.spec.library import LibraryGrammar, grammar_names, read_grammar, read_grammar_file
from guided.spec.source_position import SourcePosition

if TYPE_CHECKING:
    from guided.constraint.inspection import GrammarInspection
    from guided.machine.recognizer import Recognizer

__all__ = ["dump_stages", "grammars", "inspect_grammar"]


@shown_with("guided grammars list", "guided grammars show sql_select > mine.lark")
def _describe() -> None:
    """Show and check the grammars that come with guided."""


grammars = typer.Typer(name="grammars", no_args_is_help=True)
grammars.callback(epilog=examples_of(_describe))(_describe)

_NAME = "NAME|FILE.lark"


@grammars.command("list")
def list_grammars() -> None:
    """List the grammars that come with guided."""
    table = Table("grammar", "what it is for")
    for name in grammar_names():
        table.add_row(name, Text(read_grammar(name).summary))
    Console(soft_wrap=True).print(table)


@grammars.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="Grammar to print.")]) -> None:
    """Print a grammar, to use as it is or to change."""
    typer.echo(read_grammar(name).text, nl=False)


@grammars.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar=f"[{_NAME}]...",
            help="Grammars of the library, or files with examples beside them in .accept and"
            " .reject. Default: the whole library.",
        ),
    ] = None,
) -> None:
    """Check grammars against their examples; exit with status 1 if any example fails."""
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
    """Yield the faults of a grammar's examples; raises ConstraintError if the grammar is wrong."""
    # Imported here, so that the other commands need not wait for it.
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


def dump_stages(grammar: Path) -> str:
    """Return the context-free form of a grammar, and the network made from it, as text."""
    # Imported here, so that the other commands need not wait for it.
    with needing("guided inspect --grammar", "server"):
        from guided.constraint.machine import machine_of
        from guided.grammar.composition import lower_composition
        from guided.grammar.dump import dump_grammar, dump_network
        from guided.grammar.machine.grammar_machine import GrammarMachine

    constraint = read_grammar_flags(grammar, None, None)
    assert constraint is not None, "a grammar is given"
    machine = machine_of(constraint)
    assert isinstance(machine, GrammarMachine), "a grammar has a machine of grammars"
    rules = dump_grammar(lower_composition(constraint).grammar)
    return f"{rules}\n\n{dump_network(machine.network)}"


def inspect_grammar(grammar: Path, texts: list[Path], walks: int, model: str) -> None:
    """Print the cost of a grammar with a model's vocabulary, along texts or random ones."""
    # Imported here, so that the other commands need not wait for it.
    with needing("guided inspect --grammar", "server"):
        from guided.constraint.compiler import ConstraintCompiler
        from guided.constraint.inspection import inspect_grammar as inspected
        from guided.masks.huggingface import vocabulary_from_tokenizer
        from guided.model.load import load_tokenizer
        from guided.spec import TokenId

    constraint = read_grammar_flags(grammar, None, None)
    assert constraint is not None, "a grammar is given"
    written = [read_text(file) for file in texts]
    tokenizer = load_tokenizer(model)
    with telling_of_compilation():
        compiler = ConstraintCompiler(vocabulary_from_tokenizer(tokenizer))
        compiler.rehearse()
    tokens = [
        [TokenId(token) for token in tokenizer.encode(text, add_special_tokens=False)]
        for text in written
    ]
    try:
        found = inspected(constraint, compiler, tokens, 0 if texts else walks)
    except TokenRejectedError:
        machine = compiler.compile(constraint).machine
        for file, text in zip(texts, written, strict=True):
            _check_text(file, text, machine)
        raise
    _print_inspection(found)


def _check_text(file: Path, text: str, machine: Recognizer) -> None:
    """Raise RequestError if a text, which may be incomplete, leaves the grammar."""
    refused = refused_at(machine, text)
    if refused is not None and refused < len(text):
        what = SourcePosition(text, refused).message(f"the grammar has no {text[refused]!r} here")
        raise RequestError(
            f"in {file}, {what}",
            hint="end the file without a line break" if text[refused:] == "\n" else None,
        )


def _print_inspection(found: GrammarInspection) -> None:
    table = Table("of the grammar", "")
    table.add_row("states", f"{found.states:,}")
    table.add_row("rules that are called", f"{found.called_rules:,}")
    table.add_row("compiling", f"{found.compile_seconds * 1e3:.1f} ms")
    table.add_row("first mask", f"{found.first_mask_seconds * 1e3:.1f} ms")
    console = Console(soft_wrap=True)
    console.print(table)
    if not found.traces:
        return
    import numpy as np  # only here: clients do without

    allowed = np.concatenate([trace.allowed for trace in found.traces])
    micros = np.concatenate([trace.mask_seconds for trace in found.traces]) * 1e6
    num_states_at_once = np.concatenate([trace.num_states_at_once for trace in found.traces])
    along = Table(f"along {len(found.traces)} texts", "median", "mean", "99 %", "most")
    for name, values, digits in (
        ("tokens allowed", allowed, 0),
        ("µs for a mask", micros, 1),
        ("states at once", num_states_at_once, 1),
    ):
        figures = (np.median(values), values.mean(), np.percentile(values, 99), values.max())
        along.add_row(name, *(f"{figure:,.{digits}f}" for figure in figures))
    console.print(along)
    total = sum(trace.tokens for trace in found.traces)
    console.print(f"forced: {found.forced_share:.1%} of {total:,} tokens", highlight=False)
