"""The command ``guided inspect schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from guided.cli.examples import shown_with
from guided.cli.json_flags import DocumentFlag, FormatFlag, read_documents
from guided.cli.schema_file import read_schema_file
from guided.spec import FormatMode, JsonOptions, JsonSchema

__all__ = ["inspect_schema"]


@shown_with(
    "guided inspect schema ticket.json",
    "guided inspect schema ticket.json --document http://example.org/address=address.json",
)
def inspect_schema(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="File with a JSON Schema.")
    ],
    format_mode: FormatFlag = FormatMode.ASSERT,
    document: DocumentFlag = None,
) -> None:
    """Print what a JSON Schema is read as: a formula for each of its schemas that matters.

    Each has a number, by which others refer to it, and its JSON pointer. Needs no model.
    """
    # Loaded here, so that the other commands need not wait for it.
    from guided.json_schema.formulas.dump import dump
    from guided.json_schema.reader import lower_json_schema

    documents = tuple(read_documents(document).items())
    schema = JsonSchema(read_schema_file(file), JsonOptions(format=format_mode), documents)
    typer.echo(dump(lower_json_schema(schema).grammar), nl=False)
