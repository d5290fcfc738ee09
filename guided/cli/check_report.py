"""What ``guided check`` prints: tables to read, or JSON for other programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from guided.errors import GuidedError

if TYPE_CHECKING:
    from guided.constraint.check import SchemaReport

__all__ = ["error_json", "print_report", "report_json"]

_UNBOUNDED = 1_000_000
"""Columns of what is no terminal; a table takes as many as it needs."""


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
