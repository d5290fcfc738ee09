"""Reads constraints that callers pass where a type or a schema may stand as well."""

from __future__ import annotations

import re
from typing import Final

from guided.spec.constraints import Lark, Regex
from guided.spec.structure import Structure

__all__ = ["written_grammar"]

_START_RULE: Final = re.compile(r"^[?!]?start\b[^:\n]*:", re.MULTILINE)


def written_grammar(subject: object) -> Structure | None:
    """Return the constraint that a caller passes; ``None`` if it must be a type or a schema.

    It may be a constraint, a pattern that the whole answer must match, or a grammar in Lark's
    format.
    """
    match subject:
        case re.Pattern():
            return Regex(subject)
        case Structure():
            return subject
        case str() if _START_RULE.search(subject):
            return Lark(subject)
    return None
