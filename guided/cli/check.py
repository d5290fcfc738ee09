"""The command ``guided check``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
from guided.spec import FormatMode, JsonOptions, KeyOrder, Spelling

__all__ = ["check"]

_DEFAULT = JsonOptions()


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
) -> None:
    """Tell what an answer would be held to, keyword by keyword; status 1 if it cannot be."""
    # Loaded here, so that the other commands need not wait for it.
    from guided.constraint.check import check as check_constraint

    report = check_constraint(
        read_subject(subject),
        json_options=read_json_options(
            whitespace, key_order, format_mode, spelling, max_string_length, max_number_digits
        ),
        documents=read_documents(document),
    )
    console = Console(soft_wrap=True)
    table = Table("keyword", "verdict", "note")
    for verdict in report.verdicts:
        table.add_row(Text(verdict.pointer), verdict.enforcement.value, Text(verdict.note))
    console.print(table)
    if report.unenforced_validators:
        code = Table("code that may still refuse an answer", "at", "kind")
        for validator in report.unenforced_validators:
            place = validator.place or "the whole answer"
            code.add_row(Text(validator.name), Text(place), Text(validator.kind))
        console.print(code)
    if report.likely_limits:
        limits = Table("limit that answers are likely to hit, and end", "at")
        for likely in report.likely_limits:
            limits.add_row(Text(likely.message), Text(likely.place or "the whole answer"))
        console.print(limits)
    console.print("shortest answer:", report.shortest_answer, markup=False, highlight=False)
