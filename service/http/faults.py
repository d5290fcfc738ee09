"""Explains what is wrong with a body: where, what, and how to fix it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic_core import ErrorDetails

from guided.errors import LimitExceededError, RequestError
from guided.spec.closest import closest
from guided_service.http.unions import NO_MEMBER

__all__ = ["MANY_UNKNOWN", "refused"]

MANY_UNKNOWN: Final = "many_unknown"
"""The fault of an object with many unknown fields; its context has some of them as ``named``, and
the count of the others as ``num_others``."""
_WAY_OUT: Final = "leave it out; {page} lists what is honoured"
_LIKENESS: Final = 0.85
"""From here on a name is taken for a misspelling of another; 1 is the same."""
_LONGEST_NAME: Final = 100
"""The longest name from a body that is quoted."""


def refused(
    faults: list[ErrorDetails],
    body: Mapping[str, Any],
    hints: Mapping[str, str],
    names: Collection[str],
    page: str,
) -> RequestError:
    """Return the error of a body with these faults; ``hints`` say by field what to do instead.

    It reports one of them: a wrong field says more than a missing one. ``names`` are the fields
    that the body may have; an unknown one may be a misspelling of one of them. ``page`` lists what
    is honoured.
    """
    fault = min(faults, key=lambda each: each["type"] == "missing")
    path = _path(fault, body)
    hint, way_out = hints.get(path), _WAY_OUT.format(page=page)
    match fault["type"]:
        case "extra_forbidden" | "none_required":
            hint = hint or _lack_beside(fault, faults, body)
            is_of_body = len(fault["loc"]) == 1
            if is_of_body and hint is None:
                close = closest(path, names, _LIKENESS)
                hint = f"did you mean {close!r}?" if close else None
            hint = hint or way_out
            return RequestError(f"{path} is not honoured by this server", field=path, hint=hint)
        case "missing":
            return RequestError(f"{path} is missing", field=path)
        case "too_long":
            limit = int(fault.get("ctx", {}).get("max_length", 0))
            return LimitExceededError(
                f"{path} has more than {_parts(limit)}", limit=limit, field=path, hint=hint
            )
        case "too_short":
            least = int(fault.get("ctx", {}).get("min_length", 0))
            return RequestError(f"{path} has fewer than {_parts(least)}", field=path, hint=hint)
        case kind if kind == MANY_UNKNOWN:
            return _many_unknown(fault, path, way_out)
        case kind if kind == NO_MEMBER:
            return _no_member(fault, path, hint)
        case "model_type" | "dict_type":
            return RequestError(f"{path}: should be an object", field=path, hint=hint)
        case "list_type":
            return RequestError(f"{path}: should be a list", field=path, hint=hint)
    message = fault["msg"].removeprefix("Input ")
    return RequestError(f"{path}: {message[0].lower()}{message[1:]}", field=path, hint=hint)


def _many_unknown(fault: ErrorDetails, path: str, way_out: str) -> RequestError:
    before = f"{path}." if fault["loc"] else ""
    told = fault["ctx"]
    paths = [f"{before}{name[:_LONGEST_NAME]}" for name in told["named"]]
    return RequestError(
        f"{', '.join(paths)} and {told['num_others']} other fields are not honoured by this server",
        field=paths[0],
        hint=way_out.replace("it", "them", 1),
    )


def _no_member(fault: ErrorDetails, path: str, hint: str | None) -> RequestError:
    value, told = fault["input"], fault.get("ctx", {})
    name, members = told.get("field"), told["members"]
    if name is None:
        return RequestError(f"{path}: should be {members}", field=path, hint=hint)
    if not isinstance(value, dict):
        return RequestError(f"{path}: should be an object", field=path, hint=hint)
    path = f"{path}.{name}"
    match value.get(name):
        case None:
            wrong = "is missing"
        case str(text):
            wrong = f"is {text[:80]!r}, which is not honoured by this server"
        case _:
            wrong = "is no text"
    return RequestError(
        f"{path} {wrong}", field=path, hint=told.get("hint") or f"it is one of {members}"
    )


def _lack_beside(
    extra: ErrorDetails, faults: list[ErrorDetails], body: Mapping[str, Any]
) -> str | None:
    """Return what is missing next to an unknown field, which is most often a misspelling of it."""
    for fault in faults:
        if fault["type"] == "missing" and fault["loc"][:-1] == extra["loc"][:-1]:
            return f"{_path(fault, body)} is missing"
    return None


def _parts(number: int) -> str:
    return f"{number} part" if number == 1 else f"{number} parts"


def _path(fault: ErrorDetails, body: Any) -> str:
    """Return where a fault is, as OpenAI writes it: ``messages[0].content[1].type``.

    Pydantic's location also has the names of union members, which are in no body.
    """
    path, at = "", body
    *within, last = fault["loc"] or ("the body",)
    for step in (*within, last):
        if isinstance(step, int):
            path += f"[{step}]"
            at = at[step] if isinstance(at, list) and step < len(at) else None
        elif isinstance(at, dict) and (step in at or (step == last and fault["type"] == "missing")):
            path += f".{step[:_LONGEST_NAME]}" if path else step[:_LONGEST_NAME]
            at = at.get(step)
    return path or str(last)[:_LONGEST_NAME]
