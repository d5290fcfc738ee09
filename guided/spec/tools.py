"""Functions that a model may call, and its calls of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from guided.errors import InvalidConstraintError, LimitExceededError, RequestError

__all__ = ["MOST_TOOLS", "Tool", "ToolCall", "ToolUse", "check_call", "check_call_id"]

MOST_TOOLS: Final = 128
"""Tools of one request, as many as OpenAI takes."""

MOST_NESTING: Final = 256
"""Objects and arrays inside of one another, in a tool's schema or in arguments of a call."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{0,128}")
_WORDS: Final = ("auto", "required", "none")


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call."""

    name: str
    """1 to 64 of letters, digits, ``_``, ``.`` and ``-``."""
    description: str = ""
    """What the model is told of it."""
    parameters: str = ""
    """JSON Schema of its arguments, which are an object, as text; empty: it takes none."""
    strict: bool = True
    """Objects take no other members than those that are named, as far as that narrows what the
    schema allows (docs/openai.md); else they are open, as JSON Schema has them."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise RequestError(
                f"the name {self.name[:80]!r} of a tool is not of 1 to 64 letters, digits, '_', '.'"
                " and '-'",
                field="tools",
            )
        if self.parameters:
            _check_schema(self)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a function."""

    name: str
    arguments: str
    """JSON, an object that fits the schema of the tool."""
    id: str = ""
    """By which a message of role ``tool`` says which call it answers."""


def check_call(call: ToolCall, field: str) -> None:
    """Raise RequestError for a call that stands in a message and is none."""
    if not _NAME.fullmatch(call.name):
        raise RequestError(f"a call has the name {call.name[:80]!r}, of no tool", field=field)
    check_call_id(call.id, field)
    what = f"the arguments of the call {call.id or call.name!r}"
    try:
        read = json.loads(call.arguments)
        # Half of a surrogate pair, which no text holds, cannot be written.
        json.dumps(read, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise RequestError(f"{what} are no JSON object", field=field)
    _check_nesting(read, what, field)


def _check_schema(tool: Tool) -> None:
    """Raise InvalidConstraintError or LimitExceededError for what no template can be told."""
    what = f"the parameters of the tool {tool.name}"
    try:
        read = json.loads(tool.parameters)
        json.dumps(read, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidConstraintError(f"{what} are not JSON: {error}") from error
    if not isinstance(read, dict):
        raise InvalidConstraintError(f"{what} are no JSON Schema of an object")
    _check_nesting(read, what, "tools")


def _check_nesting(value: object, what: str, field: str) -> None:
    level = [value]
    for _ in range(MOST_NESTING):
        level = [part for one in level for part in _inside(one)]
        if not level:
            return
    raise LimitExceededError(
        f"{what} nest deeper than {MOST_NESTING} levels", limit=MOST_NESTING, field=field
    )


def _inside(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def check_call_id(name: str, field: str) -> None:
    """Raise RequestError for what is no id of a call, or might be taken for more than one."""
    if not _ID.fullmatch(name):
        raise RequestError(
            f"the id {name[:80]!r} of a call is not of up to 128 letters, digits, '_', '.', ':' "
            "and '-'",
            field=field,
        )


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools of a request, and whether they are called."""

    tools: tuple[Tool, ...]
    choice: str = "auto"
    """``auto``: as the model likes; ``required``: at least one call and nothing else; ``none``: no
    call; or the name of the one tool that is called, once."""
    parallel: bool = True
    """Whether there may be more than one call, where the model's format has several."""

    def __post_init__(self) -> None:
        names = [tool.name for tool in self.tools]
        if not names:
            raise RequestError("the list of tools is empty", field="tools", hint="leave it out")
        if len(names) > MOST_TOOLS:
            raise LimitExceededError(
                f"there are {len(names)} tools, above the limit of {MOST_TOOLS}",
                limit=MOST_TOOLS,
                field="tools",
            )
        if repeated := {name for name in names if names.count(name) > 1}:
            raise RequestError(f"two tools have the name {min(repeated)!r}", field="tools")
        if words := [name for name in names if name in _WORDS]:
            raise RequestError(
                f"no tool may have the name {words[0]!r}, which says whether one is called",
                field="tools",
            )
        if self.choice not in (*_WORDS, *names):
            raise RequestError(
                f"tool_choice names {self.choice[:80]!r}, which is none of the tools",
                field="tool_choice",
                hint="say 'auto', 'required', 'none', or the name of a tool",
            )

    @property
    def callable(self) -> tuple[Tool, ...]:
        """Those that may be called."""
        if self.choice == "none":
            return ()
        return tuple(tool for tool in self.tools if not self.is_named or tool.name == self.choice)

    @property
    def is_named(self) -> bool:
        """Whether one tool has to be called, by its name."""
        return self.choice not in _WORDS
