"""``%json {…}`` in the rules of a grammar: a schema whose documents stand there."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Final

from guided.errors import InvalidConstraintError
from guided.grammar.lark.source import check_length
from guided.spec.source_position import SourcePosition

__all__ = ["inline_names", "without_inline_json"]

# What may contain a %json that is none: names of special tokens, texts, patterns and comments.
# One that is not closed extends to the end of its line: it is refused when the grammar is read.
_LITERALS: Final = r'<[^<>\s]+>|"(?:\\.|[^"\\\n])*"?|/(?!/)(?:\\.|[^/\\\n])+/?|//[^\n]*|#[^\n]*'
_INLINE: Final = re.compile(rf"(?:{_LITERALS})|(?P<json>%json\b\s*)")

# Only the end matters here, and Python reads no number of very many digits.
_DECODER: Final = json.JSONDecoder(parse_int=str)


def inline_names(texts: Iterable[str]) -> set[str]:
    """Return the names in some texts from which those of inline schemas have to differ."""
    return {name for text in texts for name in re.findall(r"JSON_\w*", text)}


def without_inline_json(text: str, taken: Collection[str] = ()) -> tuple[str, dict[str, str]]:
    """Return the grammar with a declared terminal for each schema, and the schemas by its name.

    The names differ from those that are ``taken`` and from those in the text, see ``inline_names``.
    Everything else stays where it is, except for the declaration at the end. Raises
    InvalidConstraintError, with line, column and caret, for what is not JSON, and
    LimitExceededError for a text that is too long.
    """
    check_length(text)
    schemas: dict[str, str] = {}
    taken = inline_names([text]).union(taken)
    pieces: list[str] = []
    at = 0
    while (found := _INLINE.search(text, at)) is not None:
        if found["json"] is None:
            pieces.append(text[at : found.end()])
            at = found.end()
            continue
        end = _end_of_json(text, found.end())
        name = f"JSON_{len(schemas)}"
        while name in taken:
            name += "_"
        schemas[name] = text[found.end() : end]
        written = text[found.start() : end]
        pieces += (text[at : found.start()], name, _blanks(written, len(name)))
        at = end
    if not schemas:
        return text, schemas
    pieces += (text[at:], "\n%declare ", " ".join(schemas), "\n")
    return "".join(pieces), schemas


def _blanks(written: str, name: int) -> str:
    """Blanks that fill the place of ``written`` after a name of length ``name``.

    What follows keeps its line and column, so that errors still point to it; only a schema shorter
    than its name moves the rest of its line.
    """
    breaks = written.count("\n")
    last = len(written) - written.rfind("\n") - 1 if breaks else 0
    first = max(1, len(written) - name - 2 * breaks - last)
    # After a backslash Lark reads the next line as part of this one.
    return " " * first + "\\\n" * breaks + " " * last


def _end_of_json(text: str, at: int) -> int:
    """Return where the JSON value at a place ends; raises InvalidConstraintError for none.

    What the value says is not checked: it is read again, as a schema, later.
    """
    try:
        _, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise InvalidConstraintError(
            SourcePosition(text, error.pos).message(f"no JSON after %json: {error.msg}"),
            position=error.pos,
        ) from error
    except RecursionError as error:
        raise InvalidConstraintError(
            SourcePosition(text, at).message("the JSON after %json nests too deeply"), position=at
        ) from error
    return end
