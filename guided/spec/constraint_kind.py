"""The kinds of constraints that requests are counted by."""

from __future__ import annotations

from enum import StrEnum

from guided.spec.constraints import Choice, Ebnf, JsonSchema, Lark, Regex
from guided.spec.request import GenerationRequest

__all__ = ["ConstraintKind", "kind_of"]


class ConstraintKind(StrEnum):
    """What holds the answer of a request, by what its caller wrote."""

    NONE = "none"
    """Nothing: free text."""
    JSON_SCHEMA = "json_schema"
    """A JSON Schema."""
    REGEX = "regex"
    """A regular expression."""
    LARK = "lark"
    """A grammar in Lark's format, with holes or without."""
    EBNF = "ebnf"
    """A grammar in the format of llama.cpp."""
    CHOICE = "choice"
    """One of several texts."""
    COMPOSITION = "composition"
    """Constraints inside of others: sequences, templates, tags and the like."""
    TOOLS = "tools"
    """Calls of tools, with any constraint for the answer beside them."""


def kind_of(request: GenerationRequest) -> ConstraintKind:
    """Return the kind of a request's constraint; thoughts before the answer do not matter."""
    if request.tools is not None and request.tools.callable_tools:
        return ConstraintKind.TOOLS
    match request.constraint:
        case None:
            return ConstraintKind.NONE
        case JsonSchema():
            return ConstraintKind.JSON_SCHEMA
        case Regex():
            return ConstraintKind.REGEX
        case Lark():
            return ConstraintKind.LARK
        case Ebnf():
            return ConstraintKind.EBNF
        case Choice():
            return ConstraintKind.CHOICE
    return ConstraintKind.COMPOSITION
