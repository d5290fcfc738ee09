"""The command ``guided check``: a keyword report, as tables to read or as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from guided.cli.common import shown_with, telling_of_compilation
from guided.cli.connection_flags import connection_flags, read_connection_flags
from guided.cli.constraint_flags import is_grammar_file, read_grammar_file
from guided.cli.flags import (
    DocumentFlag,
    json_flags,
    read_documents,
    read_json_options,
    with_flags,
)
from guided.cli.named_schema import read_named_schema
from guided.errors import GuidedError
from guided.response_types import is_response_type
from guided.spec import JsonOptions, Structure
from guided.spec.constraints import with_json_options
from guided.spec.json_options import check_takes_none

if TYPE_CHECKING:
    from guided.spec import SchemaReport

__all__ = ["check", "error_json", "print_report", "report_json"]

_UNBOUNDED = 1_000_000
"""Width if the output is no terminal; a table takes as many columns as it needs."""


@shown_with(
    "guided check ticket.json",
    "guided check shop.models:Ticket",
    "guided check ticket.json --json | jq .keywords",
    "guided check query.lark --address localhost:50051",
)
@with_flags(*json_flags(), *connection_flags())
def check(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="FILE|MODULE:NAME",
            help="File with a JSON Schema or a grammar (.lark, .gbnf, .ebnf), or a Python type "
            "such as a pydantic model.",
        ),
    ],
    document: DocumentFlag = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, also for a refused constraint.")
    ] = False,
    address: Annotated[
        str | None,
        typer.Option(
            help="Have the server at this address check it, for that server's model.",
            metavar="HOST:PORT",
        ),
    ] = None,
    **flags: Any,
) -> None:
    """Report how a JSON Schema, a grammar or a Python type would be enforced, keyword by keyword.

    Prints a verdict for each keyword, and the shortest possible answer. Exits with status 1 if the
    constraint cannot be enforced. Needs neither a model nor a server, unless --address is given.
    """
    try:
        options = read_json_options(flags)
        schema, documents = _read_subject(subject), read_documents(document)
        if address is None:
            report = _checked_here(schema, options, documents)
        else:
            connection = read_connection_flags(flags)
            report = _checked_there(address, connection, schema, options, documents)
    except GuidedError as error:
        if as_json:
            typer.echo(error_json(error))
        raise
    if as_json:
        typer.echo(report_json(report))
    else:
        print_report(report)


def _checked_here(schema: Any, options: JsonOptions, documents: dict[str, str]) -> SchemaReport:
    with telling_of_compilation():
        # Imported here, so that the other commands need not wait for it.
        from guided.constraint.check import check as check_constraint

        return check_constraint(schema, json_options=options, documents=documents)


def _checked_there(
    address: str,
    connection: Mapping[str, Any],
    schema: Any,
    options: JsonOptions,
    documents: dict[str, str],
) -> SchemaReport:
    from guided.client import Client

    with Client(address, **connection) as client:
        if isinstance(schema, Structure):
            optioned = with_json_options(schema, options)
            check_takes_none(None if optioned else options, documents)
            return client.grammars.check(grammar=optioned or schema)
        if is_response_type(schema):
            return client.grammars.check(schema, json_options=options, documents=documents)
        return client.grammars.check(schema=schema, json_options=options, documents=documents)


def _read_subject(subject: str) -> Any:
    """Return the schema or grammar in a file, or the type that ``module:Name`` stands for."""
    file = Path(subject)
    if file.is_file() and is_grammar_file(file):
        return read_grammar_file(file)
    return read_named_schema(subject)


def print_report(report: SchemaReport, *, stderr: bool = False) -> None:
    """Print tables, as wide as the terminal with folded pointers, or elsewhere as wide as needed.

    Nothing is cut off in either.
    """
    console = Console(soft_wrap=True, stderr=stderr)
    verdicts = (
        (
            f"{each.part}: {each.pointer}" if each.part else each.pointer,
            each.enforcement.value,
            each.note,
        )
        for each in report.verdicts
    )
    _print_table(console, ("keyword", "verdict", "note"), verdicts)
    if report.omitted_verdicts:
        console.print(f"and {report.omitted_verdicts} more keywords", highlight=False)
    whole = "the whole answer"
    validators = (
        (each.name, each.place or whole, each.kind) for each in report.unenforced_validators
    )
    _print_table(console, ("code that may still refuse an answer", "at", "kind"), validators)
    _print_table(
        console, ("part that no value fits",), ((pointer,) for pointer in report.empty_parts)
    )
    limits = ((each.message, each.place or whole) for each in report.likely_limits)
    _print_table(console, ("limit that answers are likely to hit, and end", "at"), limits)
    console.print(
        *("shortest answer:", report.shortest_answer), markup=False, emoji=False, highlight=False
    )


def _print_table(console: Console, columns: Iterable[str], rows: Iterable[tuple[str, ...]]) -> None:
    """Print a table, unless it has no rows."""
    table = Table()
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    if not table.rows:
        return
    if not console.is_terminal:
        console = Console(width=_UNBOUNDED, stderr=console.stderr)
    console.print(table)


def report_json(report: SchemaReport) -> str:
    """Return a report as one JSON object."""
    return _text(
        {
            "enforceable": True,
            "keywords": [
                {
                    "pointer": verdict.pointer,
                    "verdict": verdict.enforcement.value,
                    "note": verdict.note,
                    "part": verdict.part,
                }
                for verdict in report.verdicts
            ],
            "omitted_keywords": report.omitted_verdicts,
            "shortest_answer": report.shortest_answer,
            "empty_parts": list(report.empty_parts),
            "likely_limits": [asdict(likely) for likely in report.likely_limits],
            "unenforced_validators": [asdict(each) for each in report.unenforced_validators],
        }
    )


def error_json(error: GuidedError) -> str:
    """Return why a schema cannot be enforced, as one JSON object of the same form."""
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
