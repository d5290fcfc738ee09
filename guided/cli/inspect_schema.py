"""The command ``guided inspect schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from guided.cli.common import read_text, shown_with
from guided.cli.flags import (
    DocumentFlag,
    json_flags,
    read_documents,
    read_json_options,
    with_flags,
)
from guided.spec import JsonSchema

__all__ = ["inspect_schema"]


@shown_with(
    "guided inspect schema ticket.json",
    "guided inspect schema ticket.json --document http://example.org/address=address.json",
)
@with_flags(*json_flags("format"))
def inspect_schema(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="File with a JSON Schema.")
    ],
    document: DocumentFlag = None,
    **flags: Any,
) -> None:
    """Print how a JSON Schema is read: as a formula for each of its subschemas that matters.

    Each formula has a number, by which others refer to it, and the JSON pointer of its subschema.
    Needs no model.
    """
    # Imported here, so that the other commands need not wait for it.
    from guided.json_schema.formulas.dump import dump
    from guided.json_schema.reader import lower_json_schema

    documents = tuple(read_documents(document).items())
    schema = JsonSchema(read_text(file), read_json_options(flags), documents)
    typer.echo(dump(lower_json_schema(schema).grammar), nl=False)
