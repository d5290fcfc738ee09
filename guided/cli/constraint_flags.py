"""Flags for constraints: schemas, grammars, templates, tools.

Tool calls are written in the format of Qwen and Hermes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from guided.cli.common import read_text
from guided.cli.flags import DocumentFlag, file_flag, flag
from guided.spec import Choice, Ebnf, JsonOptions, JsonSchema, Lark, Regex, Structure
from guided.spec.composition import Template
from guided.spec.constraints import with_json_options
from guided.spec.custom_tools import custom_tool
from guided.spec.tagged import Calls, Tag, Tagged
from guided.spec.tool_calls import arguments_constraint
from guided.spec.tool_format import HERMES

__all__ = [
    "GrammarFlag",
    "constraint_flags",
    "is_grammar_file",
    "only_one",
    "read_grammar_file",
    "read_grammar_flags",
    "read_template_flags",
    "read_tool_flags",
]

_FORMATS: Final[Mapping[str, Callable[[str], Lark | Ebnf]]] = {
    ".lark": Lark,
    ".gbnf": Ebnf,
    ".ebnf": Ebnf,
}
"""The kind of constraint by the suffix of a file."""

GrammarFlag: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="File with a grammar for the answer: .lark, .gbnf or .ebnf.",
        exists=True,
        dir_okay=False,
    ),
]


def constraint_flags() -> Iterator[Parameter]:
    """Yield the flags of all kinds of constraint."""
    yield flag(
        "schema",
        str | None,
        None,
        "File with a JSON Schema for the answer, or a Python type such as a pydantic model.",
        metavar="FILE|MODULE:NAME",
    )
    for name, kind in (("document", DocumentFlag), ("grammar", GrammarFlag)):
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
    yield flag(
        "regex",
        str | None,
        None,
        "Regular expression of Python's re that the whole answer matches.",
    )
    yield flag(
        "choice",
        list[str] | None,
        None,
        "One of the texts that the answer may be; may be repeated.",
    )
    yield file_flag(
        "template",
        "File with the answer's text, with {name} for each hole; {{ and }} are plain braces.",
    )
    yield flag(
        "hole",
        list[str] | None,
        None,
        "Constraint of a hole in the template: NAME=FILE with a schema (.json) or a grammar,"
        " or NAME=/PATTERN/ with a regular expression; may be repeated.",
    )
    yield file_flag(
        "tools",
        "File with the tools that the answer may call, as in OpenAI's API: a JSON list of"
        " objects with name and parameters, either directly or under function, or custom tools.",
    )
    yield flag(
        "tool_choice",
        Calls,
        Calls.AUTO,
        "Whether the answer calls tools: as the model likes (auto), at least once (required)"
        " or never (none).",
    )
    yield flag(
        "single_call", bool, False, "Allow at most one call in the answer.", spelled="--single-call"
    )


# Grammars


def read_grammar_flags(
    grammar: Path | None, regex: str | None, choice: list[str] | None
) -> Lark | Ebnf | Regex | Choice | None:
    """Return the constraint of the answer, if one of the flags gives it."""
    given: list[Lark | Ebnf | Regex | Choice] = []
    if grammar is not None:
        given.append(read_grammar_file(grammar))
    if regex is not None:
        given.append(Regex(regex))
    if choice:
        given.append(Choice(choice))
    if len(given) > 1:
        raise typer.BadParameter("--grammar, --regex and --choice exclude each other")
    return given[0] if given else None


def is_grammar_file(file: Path) -> bool:
    """Whether a file's suffix is that of a grammar format."""
    return file.suffix in _FORMATS


def read_grammar_file(file: Path) -> Lark | Ebnf:
    """Return the grammar in a file, in the format of its suffix."""
    if file.suffix not in _FORMATS:
        known = ", ".join(_FORMATS)
        raise typer.BadParameter(f"the name of {str(file)!r} ends in none of {known}")
    return _FORMATS[file.suffix](read_text(file))


# Templates


def read_template_flags(
    template: Path | None, holes: list[str] | None, options: JsonOptions
) -> Template | None:
    """Return the template of the flags, if any; ``options`` say how its JSON is written."""
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
    return Template(read_text(template).removesuffix("\n"), filled)


def _filling(written: str, options: JsonOptions) -> Structure:
    if len(written) > 1 and written[0] == written[-1] == "/":
        return Regex(written[1:-1])
    file = Path(written)
    if not file.is_file():
        raise typer.BadParameter(f"there is no file {written!r}; patterns are written /PATTERN/")
    if file.suffix == ".json":
        return JsonSchema(read_text(file), options)
    grammar = read_grammar_file(file)
    return with_json_options(grammar, options) or grammar


# Tools

_TRIGGER = "<tool_call>"


def read_tool_flags(
    tools: Path | None, choice: Calls, options: JsonOptions, *, single: bool
) -> Tagged | None:
    """Return free text with calls of the tools, if any; ``options`` apply to their JSON."""
    if tools is None:
        if single or choice is not Calls.AUTO:
            raise typer.BadParameter("--tool-choice and --single-call go with --tools only")
        return None
    try:
        listed = json.loads(read_text(tools))
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{tools} is not JSON that can be read: {error}") from error
    if not isinstance(listed, list) or not listed:
        raise typer.BadParameter(f"{tools} is not a list of at least one tool")
    if options != JsonOptions() and all(map(_is_custom, listed)):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in options.told())
        raise typer.BadParameter(
            f"{names} would change nothing: {tools} has custom tools alone, whose inputs are texts"
        )
    tags = [_tag(tools, number, tool, options) for number, tool in enumerate(listed, start=1)]
    return Tagged(tags, _TRIGGER, choice, parallel=not single)


def _is_custom(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "custom"


def _tag(file: Path, number: int, tool: Any, options: JsonOptions) -> Tag:
    if _is_custom(tool):
        custom = custom_tool(tool, f"tool {number} of {file}")
        return Tag(HERMES.header(custom.name), arguments_constraint(custom, HERMES), HERMES.end)
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise typer.BadParameter(f"tool {number} of {file} has no name")
    # A tool without parameters may omit them or leave them empty.
    parameters = function.get("parameters") or {"type": "object", "additionalProperties": False}
    return Tag(
        f'{_TRIGGER}\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": ',
        JsonSchema(json.dumps(parameters), options),
        "}\n</tool_call>",
    )


def only_one(*constraints: Structure | None) -> Structure | None:
    """Return the given constraint, if there is one."""
    given = [constraint for constraint in constraints if constraint is not None]
    if len(given) > 1:
        raise typer.BadParameter("a grammar, --template and --tools exclude each other")
    return given[0] if given else None
