"""Flags about how JSON is written, shared by the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from guided.cli.schema_file import read_schema_file
from guided.spec import FormatMode, JsonOptions, KeyOrder, Spelling

__all__ = [
    "DocumentFlag",
    "FormatFlag",
    "KeyOrderFlag",
    "NumberDigitsFlag",
    "SpellingFlag",
    "StringLengthFlag",
    "WhitespaceFlag",
    "read_documents",
    "read_json_options",
]

_UNBOUNDED = "unbounded"

WhitespaceFlag: TypeAlias = Annotated[
    str,
    typer.Option(
        "--whitespace",
        metavar="compact|free|unbounded|N",
        help="Between two tokens of JSON: none, enough to indent, any number, at most N.",
    ),
]
KeyOrderFlag: TypeAlias = Annotated[
    KeyOrder, typer.Option("--key-order", help="Order of an object's members.")
]
FormatFlag: TypeAlias = Annotated[
    FormatMode, typer.Option("--format", help='What the keyword "format" means.')
]
SpellingFlag: TypeAlias = Annotated[
    Spelling, typer.Option("--spelling", help="Spelling of numbers and strings.")
]
StringLengthFlag: TypeAlias = Annotated[
    str,
    typer.Option(
        "--max-string-length",
        metavar="N|unbounded",
        help="Characters of a string that the schema does not bound.",
    ),
]
NumberDigitsFlag: TypeAlias = Annotated[
    str,
    typer.Option(
        "--max-number-digits",
        metavar="N|unbounded",
        help="Digits on either side of the point where the schema sets no bound.",
    ),
]
DocumentFlag: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--document",
        metavar="URI=FILE",
        help="Another schema that the schema refers to; may be given again.",
    ),
]


def read_json_options(
    whitespace: str,
    key_order: KeyOrder,
    format_mode: FormatMode,
    spelling: Spelling,
    max_string_length: str,
    max_number_digits: str,
) -> JsonOptions:
    """The options that the flags stand for; ``RequestError`` names the one that is wrong."""
    return JsonOptions(
        whitespace=_bound(whitespace),
        key_order=key_order,
        format=format_mode,
        spelling=spelling,
        max_string_length=_bound(max_string_length),
        max_number_digits=_bound(max_number_digits),
    )


def read_documents(given: list[str] | None) -> dict[str, str]:
    """The texts of the documents by URI."""
    documents: dict[str, str] = {}
    for pair in given or ():
        uri, _, file = pair.rpartition("=")
        if not uri or not Path(file).is_file():
            raise typer.BadParameter(f"{pair!r} is not URI=FILE with a file that exists")
        if uri in documents:
            raise typer.BadParameter(f"two documents are given for the URI {uri!r}")
        documents[uri] = read_schema_file(Path(file))
    return documents


def _bound(text: str) -> Any:
    """Words and what is no number stay as they are, for the options to judge."""
    if text == _UNBOUNDED:
        return None
    return int(text) if text.lstrip("-").isdecimal() else text
