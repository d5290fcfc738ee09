"""The command ``guided inspect --grammar FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from guided.cli.grammar_flags import read_grammar_flags
from guided.cli.refused_at import refused_at
from guided.cli.schema_file import read_schema_file
from guided.cli.waiting import telling_of_compilation
from guided.errors import RequestError, TokenRejectedError
from guided.extras import needing
from guided.spec.source_position import Place

if TYPE_CHECKING:
    from guided.constraint.inspection import GrammarInspection
    from guided.machine.recognizer import Recognizer

__all__ = ["dump_stages", "inspect_grammar"]


def dump_stages(grammar: Path) -> str:
    """The context-free form of a grammar, and the network that is made of it, as text."""
    # Loaded here, so that the other commands need not wait for it.
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
    """Tell what a grammar costs with a model's vocabulary, along texts or random ones."""
    # Loaded here, so that the other commands need not wait for it.
    with needing("guided inspect --grammar", "server"):
        from guided.constraint.compiler import ConstraintCompiler
        from guided.constraint.inspection import inspect_grammar as inspected
        from guided.masks.huggingface import vocabulary_from_tokenizer
        from guided.model.load import load_tokenizer
        from guided.spec import TokenId

    constraint = read_grammar_flags(grammar, None, None)
    assert constraint is not None, "a grammar is given"
    written = [read_schema_file(file) for file in texts]
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
    _print(found)


def _check_text(file: Path, text: str, machine: Recognizer) -> None:
    """Raise RequestError where a text, which may break off, leaves the grammar."""
    refused = refused_at(machine, text)
    if refused is not None and refused < len(text):
        what = Place(text, refused).message(f"the grammar has no {text[refused]!r} here")
        raise RequestError(
            f"in {file}, {what}",
            hint="end the file without a line break" if text[refused:] == "\n" else None,
        )


def _print(found: GrammarInspection) -> None:
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
    readings = np.concatenate([trace.readings for trace in found.traces])
    along = Table(f"along {len(found.traces)} texts", "median", "mean", "99 %", "most")
    for name, values, digits in (
        ("tokens allowed", allowed, 0),
        ("µs for a mask", micros, 1),
        ("states at once", readings, 1),
    ):
        figures = (np.median(values), values.mean(), np.percentile(values, 99), values.max())
        along.add_row(name, *(f"{figure:,.{digits}f}" for figure in figures))
    console.print(along)
    total = sum(trace.tokens for trace in found.traces)
    console.print(f"forced: {found.forced_share:.1%} of {total:,} tokens", highlight=False)
