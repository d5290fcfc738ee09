"""Reads custom tools as OpenAI's API writes them, as mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from guided.errors import RequestError
from guided.spec.constraints import Lark, Regex
from guided.spec.tools import INPUT, Tool

__all__ = ["custom_tool"]

_ANY_TEXT: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {INPUT: {"type": "string"}},
    "required": [INPUT],
    "additionalProperties": False,
}
"""The schema of the arguments of a tool whose input is any text."""
_SYNTAXES: Final[Mapping[str, type[Lark] | type[Regex]]] = {"lark": Lark, "regex": Regex}


def custom_tool(mapping: Mapping[str, Any], subject: str) -> Tool:
    """Return the tool of a mapping of type ``custom``; raises ``RequestError``.

    Its members stand in it, as in responses, or under ``custom``, as in chats; ``subject`` names
    the tool in errors.
    """
    match mapping:
        case {"type": "custom", "custom": Mapping() as inner, **more} if not more:
            members = dict(inner)
        case {"type": "custom", "name": _}:
            members = {name: value for name, value in mapping.items() if name != "type"}
        case _:
            raise _fault(subject, "has no name, or members beside custom")
    name, description = members.pop("name", None), members.pop("description", None)
    form = members.pop("format", None)
    if members or not isinstance(name, str) or not isinstance(description, str | None):
        raise _fault(
            subject, "has a member other than name, description and format, or one of no text"
        )
    grammar = _grammar(form, subject)
    if grammar is None:
        return Tool(name, description or "", _ANY_TEXT)
    return Tool(name, description or "", input=grammar)


def _grammar(form: object, subject: str) -> Lark | Regex | None:
    """Return the grammar of a format; ``None`` if it allows any text."""
    match form:
        case None:
            return None
        case {"type": "text", **more} if not more:
            return None
        case {"type": "grammar", "grammar": Mapping() as inner, **more} if not more:
            return _constraint(inner, subject)
        case {"type": "grammar", **members}:
            return _constraint(members, subject)
    raise _fault(subject, f"has the format {form!r:.80}, which is neither text nor grammar")


def _constraint(grammar: Mapping[Any, Any], subject: str) -> Lark | Regex:
    match grammar:
        case {"syntax": str(syntax), "definition": str(definition), **more} if not more:
            if syntax in _SYNTAXES:
                return _SYNTAXES[syntax](definition)
    raise _fault(
        subject, "has a grammar that is not of a syntax, 'lark' or 'regex', and a definition"
    )


def _fault(subject: str, what: str) -> RequestError:
    return RequestError(
        f"the custom {subject} {what}",
        field="tools",
        hint='write {"type": "custom", "custom": {"name": ..., "format": {"type": "grammar", '
        '"grammar": {"syntax": "lark", "definition": ...}}}}',
    )
