"""The command ``guided check``: a keyword report, as tables to read or as JSON for programs."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from guided.cli.common import read_text, shown_with, telling_of_compilation
from guided.cli.flags import (
    DocumentFlag,
    json_flags,
    read_documents,
    read_json_options,
    with_flags,
)
from guided.errors import GuidedError
from guided.response_types import is_response_type

if TYPE_CHECKING:
    from guided.constraint.check import SchemaReport

__all__ = ["check", "error_json", "print_report", "read_subject", "report_json"]

_TYPE = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)")
_UNBOUNDED = 1_000_000
"""Columns where the output is no terminal; a table takes as many as it needs."""


@shown_with(
    "guided check ticket.json",
    "guided check shop.models:Ticket",
    "guided check ticket.json --json | jq .keywords",
)
@with_flags(*json_flags())
def check(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="FILE|MODULE:NAME",
            help="File with a JSON Schema, or a Python type such as a pydantic model.",
        ),
    ],
    document: DocumentFlag = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, also where it is refused.")
    ] = False,
    **flags: Any,
) -> None:
    """Say how a JSON Schema or a Python type would be enforced, keyword by keyword.

    Prints a verdict for each keyword and the shortest answer there is. Ends with status 1 if the
    schema cannot be enforced. Needs no model and no server.
    """
    try:
        options = read_json_options(flags)
        schema, documents = read_subject(subject), read_documents(document)
        with telling_of_compilation():
            # Loaded here, so that the other commands need not wait for it.
            from guided.constraint.check import check as check_constraint

            report = check_constraint(schema, json_options=options, documents=documents)
    except GuidedError as error:
        if as_json:
            typer.echo(error_json(error))
        raise
    if as_json:
        typer.echo(report_json(report))
    else:
        print_report(report)


def read_subject(subject: str) -> Any:
    """The text of the schema in a file, or the type that ``module:Name`` stands for.

    Modules are also looked for in the working directory.
    """
    if Path(subject).is_file():
        return read_text(Path(subject))
    named = _TYPE.fullmatch(subject)
    if named is None:
        raise typer.BadParameter(f"{subject!r} is neither a file that exists nor module:Name")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(named[1])
        for name in named[2].split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise typer.BadParameter(f"{subject!r} cannot be loaded: {error}") from error
    if not (isinstance(found, str | Mapping) or is_response_type(found)):
        raise typer.BadParameter(f"{subject!r} is neither a type nor a JSON Schema: {found!r}")
    return found


def print_report(report: SchemaReport) -> None:
    """Print tables as wide as the terminal, pointers folded; elsewhere as wide as they have to be.

    Nothing is cut off in either.
    """
    console = Console(soft_wrap=True)
    table = Table()
    for name in ("keyword", "verdict", "note"):
        table.add_column(name, overflow="fold")
    for verdict in report.verdicts:
        table.add_row(Text(verdict.pointer), verdict.enforcement.value, Text(verdict.note))
    _print_whole(console, table)
    if report.unenforced_validators:
        code = Table()
        for name in ("code that may still refuse an answer", "at", "kind"):
            code.add_column(name, overflow="fold")
        for validator in report.unenforced_validators:
            place = validator.place or "the whole answer"
            code.add_row(Text(validator.name), Text(place), Text(validator.kind))
        _print_whole(console, code)
    if report.likely_limits:
        limits = Table()
        for name in ("limit that answers are likely to hit, and end", "at"):
            limits.add_column(name, overflow="fold")
        for likely in report.likely_limits:
            limits.add_row(Text(likely.message), Text(likely.place or "the whole answer"))
        _print_whole(console, limits)
    console.print("shortest answer:", report.shortest_answer, markup=False, highlight=False)


def _print_whole(console: Console, table: Table) -> None:
    if not console.is_terminal:
        console = Console(width=_UNBOUNDED)
    console.print(table)


def report_json(report: SchemaReport) -> str:
    """A report as one JSON object."""
    return _text(
        {
            "enforceable": True,
            "keywords": [
                {
                    "pointer": verdict.pointer,
                    "verdict": verdict.enforcement.value,
                    "note": verdict.note,
                }
                for verdict in report.verdicts
            ],
            "shortest_answer": report.shortest_answer,
            "likely_limits": [
                {"place": likely.place, "message": likely.message}
                for likely in report.likely_limits
            ],
            "unenforced_validators": [
                {"name": validator.name, "place": validator.place, "kind": validator.kind}
                for validator in report.unenforced_validators
            ],
        }
    )


def error_json(error: GuidedError) -> str:
    """Why a schema cannot be enforced, as one JSON object of the same form."""
    return _text(
        {
            "enforceable": False,
            "error": {
                "code": error.code,
                "message": error.message,
                "pointer": getattr(error, "pointer", None),
                "hint": error.hint,
            },
        }
    )


def _text(report: dict[str, Any]) -> str:
    return json.dumps(report, ensure_ascii=False, indent=2)
