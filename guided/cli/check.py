"""The command ``guided check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from guided.cli.schema_file import read_schema_file
from guided.constraint.check import check as check_schema

__all__ = ["check"]


def check(
    schema: Annotated[
        Path, typer.Option(help="File with a JSON Schema.", exists=True, dir_okay=False)
    ],
) -> None:
    """Tell what an answer would be held to, keyword by keyword; status 1 if it cannot be."""
    report = check_schema(read_schema_file(schema))
    table = Table("keyword", "verdict", "note")
    for verdict in report.verdicts:
        table.add_row(Text(verdict.pointer), verdict.enforcement.value, Text(verdict.note))
    console = Console(soft_wrap=True)
    console.print(table)
    console.print("shortest answer:", report.shortest_answer, markup=False, highlight=False)
