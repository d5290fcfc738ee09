"""Flags of commands about what an answer must look like, other than a JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from guided.cli.schema_file import read_schema_file
from guided.spec import Choice, Ebnf, Lark, Regex

__all__ = [
    "ChoiceFlag",
    "GrammarFlag",
    "RegexFlag",
    "read_grammar_file",
    "read_grammar_flags",
]

_FORMATS: Final[Mapping[str, Callable[[str], Lark | Ebnf]]] = {
    ".lark": Lark,
    ".gbnf": Ebnf,
    ".ebnf": Ebnf,
}
"""By the end of a file's name what its text is."""

GrammarFlag: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="File with a grammar for the answer: .lark, .gbnf or .ebnf.",
        exists=True,
        dir_okay=False,
    ),
]
RegexFlag: TypeAlias = Annotated[
    str | None, typer.Option(help="Pattern of Python's re that the whole answer matches.")
]
ChoiceFlag: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--choice", help="A text that the answer may be; may be repeated."),
]


def read_grammar_flags(
    grammar: Path | None, regex: str | None, choice: list[str] | None
) -> Lark | Ebnf | Regex | Choice | None:
    """What the answer must look like, if one of the flags says so."""
    given: list[Lark | Ebnf | Regex | Choice] = []
    if grammar is not None:
        given.append(read_grammar_file(grammar))
    if regex is not None:
        given.append(Regex(regex))
    if choice:
        given.append(Choice(choice))
    if len(given) > 1:
        raise typer.BadParameter("--grammar, --regex and --choice exclude each other")
    return given[0] if given else None


def read_grammar_file(file: Path) -> Lark | Ebnf:
    """The grammar in a file, in the format that its name tells."""
    if file.suffix not in _FORMATS:
        known = ", ".join(_FORMATS)
        raise typer.BadParameter(f"the name of {str(file)!r} ends in none of {known}")
    return _FORMATS[file.suffix](read_schema_file(file))
