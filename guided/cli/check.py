"""The command ``guided check``."""

from __future__ import annotations

from typing import Annotated

import typer

from guided.cli.check_report import error_json, print_report, report_json
from guided.cli.examples import shown_with
from guided.cli.json_flags import (
    DocumentFlag,
    FormatFlag,
    KeyOrderFlag,
    NumberDigitsFlag,
    SpellingFlag,
    StringLengthFlag,
    WhitespaceFlag,
    read_documents,
    read_json_options,
)
from guided.cli.subject import read_subject
from guided.cli.waiting import telling_of_compilation
from guided.errors import GuidedError
from guided.spec import FormatMode, JsonOptions, KeyOrder, Spelling

__all__ = ["check"]

_DEFAULT = JsonOptions()


@shown_with(
    "guided check ticket.json",
    "guided check shop.models:Ticket",
    "guided check ticket.json --json | jq .keywords",
)
def check(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="FILE|MODULE:NAME",
            help="File with a JSON Schema, or a Python type such as a pydantic model.",
        ),
    ],
    whitespace: WhitespaceFlag = str(_DEFAULT.whitespace),
    key_order: KeyOrderFlag = KeyOrder.SCHEMA,
    format_mode: FormatFlag = FormatMode.ASSERT,
    spelling: SpellingFlag = Spelling.CANONICAL,
    max_string_length: StringLengthFlag = str(_DEFAULT.max_string_length),
    max_number_digits: NumberDigitsFlag = str(_DEFAULT.max_number_digits),
    document: DocumentFlag = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, also where it is refused.")
    ] = False,
) -> None:
    """Say how a JSON Schema or a Python type would be enforced, keyword by keyword.

    Prints a verdict for each keyword and the shortest answer there is. Ends with status 1 if the
    schema cannot be enforced. Needs no model and no server.
    """
    try:
        options = read_json_options(
            whitespace, key_order, format_mode, spelling, max_string_length, max_number_digits
        )
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
