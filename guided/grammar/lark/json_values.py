"""JSON values in the text of a grammar: schemas, ``%json {…}``, and options."""

from __future__ import annotations

import json
from typing import Final

from guided.errors import InvalidConstraintError
from guided.spec.source_position import SourcePosition

__all__ = ["find_json_end"]

# Finds only where a value ends. Integers stay text: Python refuses to convert very long ones.
_DECODER: Final = json.JSONDecoder(parse_int=str)


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
