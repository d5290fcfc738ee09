"""Inline schemas in Lark grammars, ``%json {…}``, each replaced by a declared terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Final

from guided.errors import InvalidConstraintError
from guided.grammar.lark.source import check_length
from guided.spec.source_position import SourcePosition

__all__ = ["extract_inline_json", "find_json_end", "inline_schema_names"]

# Special tokens, literals, patterns and comments, in which %json means nothing, as ``parser`` reads
# them: a pattern may extend over lines. An unclosed literal extends to the end of its line, and an
# unclosed pattern to the end of the text; the parser refuses it later.
_PATTERN: Final = r"/(?!/)(?:(?:\\[\s\S]|[^/\\]++)+/[imslux]*|[\s\S]+)"
_LITERALS: Final = rf'<[^<>\s]+>|"(?:\\.|[^"\\\n])*"?|{_PATTERN}|//[^\n]*|#[^\n]*'
_INLINE: Final = re.compile(rf"(?:{_LITERALS})|(?P<json>%json\b\s*)")

# Finds only where a value ends. Integers stay text: Python refuses to convert very long ones.
_DECODER: Final = json.JSONDecoder(parse_int=str)


def inline_schema_names(texts: Iterable[str]) -> set[str]:
    """Return the names in some texts that a terminal for an inline schema might clash with."""
    return {name for text in texts for name in re.findall(r"JSON_\w*", text)}


def extract_inline_json(text: str, used_names: Collection[str] = ()) -> tuple[str, dict[str, str]]:
    """Return the grammar with a declared terminal in place of each schema, and the schemas by name.

    The names, ``JSON_…``, differ from ``used_names`` and from ``inline_schema_names`` of the text.
    All else keeps its line and column where possible; a declaration is appended. Raises
    InvalidConstraintError, with line, column and caret, for a schema that is not JSON, and
    LimitExceededError for a text that is too long.
    """
    check_length(text)
    schemas: dict[str, str] = {}
    used_names = inline_schema_names([text]).union(used_names)
    pieces: list[str] = []
    at = 0
    while (found := _INLINE.search(text, at)) is not None:
        if found["json"] is None:
            pieces.append(text[at : found.end()])
            at = found.end()
            continue
        end = find_json_end(text, found.end(), "%json")
        name = f"JSON_{len(schemas)}"
        while name in used_names:
            name += "_"
        schemas[name] = text[found.end() : end]
        replaced = text[found.start() : end]
        pieces += (text[at : found.start()], name, _padding(replaced, len(name)))
        at = end
    if not schemas:
        return text, schemas
    pieces += (text[at:], "\n%declare ", " ".join(schemas), "\n")
    return "".join(pieces), schemas


def _padding(replaced: str, name_length: int) -> str:
    """Return blanks that together with a name fill the place of the ``replaced`` text.

    So what follows keeps its line and column, for errors. If ``replaced`` is shorter than the name,
    the rest of its line moves.
    """
    breaks = replaced.count("\n")
    last = len(replaced) - replaced.rfind("\n") - 1 if breaks else 0
    first = max(1, len(replaced) - name_length - 2 * breaks - last)
    # A backslash continues the statement on the next line.
    return " " * first + "\\\n" * breaks + " " * last


def find_json_end(text: str, at: int, statement: str) -> int:
    """Return the end of the JSON value at ``at``; raises InvalidConstraintError if there is none.

    Errors say that it should stand after ``statement``. Only the syntax is checked.
    """
    try:
        _, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise InvalidConstraintError(
            SourcePosition(text, error.pos).message(f"no JSON after {statement}: {error.msg}"),
            position=error.pos,
        ) from error
    except RecursionError as error:
        raise InvalidConstraintError(
            SourcePosition(text, at).message(f"the JSON after {statement} nests too deeply"),
            position=at,
        ) from error
    return end
