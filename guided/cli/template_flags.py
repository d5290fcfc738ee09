"""Flags of commands about answers that are a fixed text with holes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from guided.cli.grammar_flags import read_grammar_file
from guided.cli.schema_file import read_schema_file
from guided.spec import JsonOptions, JsonSchema, Regex, Structure
from guided.spec.composition import Template

__all__ = ["HoleFlag", "TemplateFlag", "read_template_flags"]

TemplateFlag: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="File with the text of the answer, {name} where a hole is; {{ and }} are braces.",
        exists=True,
        dir_okay=False,
    ),
]
HoleFlag: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--hole",
        help="What fills a hole of the template: NAME=FILE, a schema (.json) or a grammar, or"
        " NAME=/PATTERN/, of Python's re; may be repeated.",
    ),
]


def read_template_flags(
    template: Path | None, holes: list[str] | None, options: JsonOptions
) -> Template | None:
    """The template that the flags describe, if one does; schemas are written by ``options``."""
    if template is None:
        if holes:
            raise typer.BadParameter("--hole goes with --template only")
        return None
    filled: list[tuple[str, Structure]] = []
    for hole in holes or ():
        name, sign, filling = hole.partition("=")
        if not (name and sign and filling):
            raise typer.BadParameter(f"--hole {hole!r} is not NAME=FILE or NAME=/PATTERN/")
        filled.append((name, _filling(filling, options)))
    # Editors end a file with a line break, which the answer need not have.
    return Template(read_schema_file(template).removesuffix("\n"), filled)


def _filling(written: str, options: JsonOptions) -> Structure:
    if len(written) > 1 and written[0] == written[-1] == "/":
        return Regex(written[1:-1])
    file = Path(written)
    if not file.is_file():
        raise typer.BadParameter(f"there is no file {written!r}; patterns are written /PATTERN/")
    if file.suffix == ".json":
        return JsonSchema(read_schema_file(file), options)
    return read_grammar_file(file)
