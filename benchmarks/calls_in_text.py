"""Finds function calls in unconstrained text of a model, as leniently as is fair.

JSON counts anywhere (in tags, in a fenced block, bare), as an object or a list of objects with a
name and arguments by one of their usual names. Otherwise a call counts as a programmer writes it
with named arguments, ``[f(a=1), g(b="c")]``, as the whole text, a span of code or a line. Only
functions that were presented to the model count.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, TypeAlias

Calls: TypeAlias = list[dict[str, Any]]
"""Calls in the form that BFCL's checker takes: one object each, from the name to the arguments."""

_CODE: Final = re.compile(r"```(?:\w+\n)?(.*?)(?:```|\Z)|`([^`\n]+)`", re.DOTALL)


def calls_in(
    text: str, names: Collection[str], decode: Callable[[str], Calls] | None = None
) -> Calls:
    """Return the calls in a text; ``decode`` reads calls in code, if its language is not Python."""
    return _known(_json_calls(text), names) or _spelled_calls(text, names, decode or python_calls)


def python_calls(text: str) -> Calls:
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    nodes = body.elts if isinstance(body, ast.List | ast.Tuple) else [body]
    return [
        {ast.unparse(node.func): {str(one.arg): _value(one.value) for one in node.keywords}}
        for node in nodes
        if isinstance(node, ast.Call)
    ]


def _value(node: ast.expr) -> object:
    """Return a literal's value, or the source of anything else, which is not evaluated."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return ast.unparse(node)


def _known(calls: Iterable[dict[str, Any]], names: Collection[str]) -> Calls:
    """Return the calls of known functions; a dot in a name was presented as an underscore."""
    written = [(name.replace(".", "_"), given) for call in calls for name, given in call.items()]
    return [{name: given} for name, given in written if name in names and isinstance(given, dict)]


def _spelled_calls(text: str, names: Collection[str], decode: Callable[[str], Calls]) -> Calls:
    for places in ([text], [a or b for a, b in _CODE.findall(text)], text.splitlines()):
        if found := _known((call for place in places for call in decode(place)), names):
            return found
    return []


def _json_calls(text: str) -> Iterator[dict[str, Any]]:
    decoder, place = json.JSONDecoder(), 0
    while opened := re.compile(r"[{\[]").search(text, place):
        try:
            value, place = decoder.raw_decode(text, opened.start())
        except (ValueError, RecursionError):
            place = opened.end()
        else:
            yield from _calls_of(value)


def _calls_of(value: object) -> Iterator[dict[str, Any]]:
    """Yield the value as a call, or the calls within it."""
    if isinstance(value, list):
        for one in value:
            yield from _calls_of(one)
    elif isinstance(value, dict):
        name = next((value[key] for key in ("name", "function") if key in value), None)
        given = next((value[key] for key in ("arguments", "parameters") if key in value), None)
        if isinstance(name, str) and "description" not in value:  # else it describes a tool
            yield {name: _object(given)}
        else:
            yield from _calls_of([*value.values()])


def _object(given: object) -> object:
    """Return arguments, which OpenAI's API has as JSON text."""
    try:
        return json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return given
