"""Functions that a model may call, and its calls of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from guided.errors import InvalidConstraintError, LimitExceededError, RequestError
from guided.spec.constraints import Lark, Regex
from guided.spec.exact_json import check_text_values, read_exact, refuse_constant
from guided.spec.json_options import UnknownKeywords
from guided.spec.option import word_of

__all__ = [
    "INPUT",
    "MAX_TOOLS",
    "Tool",
    "ToolCall",
    "ToolUse",
    "check_call",
    "check_call_id",
    "input_field",
    "parameters_field",
]

MAX_TOOLS: Final = 128
"""Most tools of one request, the same as OpenAI's limit."""

MAX_JSON_NESTING: Final = 256
"""Deepest nesting of objects and arrays in a tool's schema or in arguments of a call."""

INPUT: Final = "input"
"""The name of the only argument of a custom tool."""
_NO_ARGUMENTS: Final = json.dumps(
    {"type": "object", "properties": {}, "additionalProperties": False}
)
"""The schema of a tool that takes none."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{0,128}")
_CHOICES: Final = ("auto", "required", "none")


@dataclass(frozen=True, slots=True, init=False)
class Tool:
    """A function that the model may call, or a custom tool, whose input is a text of a grammar."""

    name: str
    """1 to 64 letters, digits, ``_``, ``.`` and ``-``."""
    description: str = ""
    """The description shown to the model."""
    parameters: str = ""
    """JSON Schema of its arguments, which are an object, as text; empty: it takes none."""
    strict: bool = True
    """Whether objects take only named members, as far as that narrows what the schema allows
    (docs/openai.md); otherwise they are open, as in JSON Schema."""
    unknown_keywords: UnknownKeywords | None = None
    """What becomes of keywords of the schema that its draft does not define, as in ``JsonOptions``;
    ``None``: the server's choice, or they are notes."""
    input: Lark | Regex | None = None
    """The grammar of a custom tool's input, its only argument, instead of ``parameters``."""

    def __init__(
        self,
        name: str,
        description: str = "",
        parameters: str | Mapping[str, object] = "",
        strict: bool = True,
        unknown_keywords: UnknownKeywords | Literal["note", "refuse"] | None = None,
        input: Lark | Regex | None = None,
    ) -> None:
        """``parameters`` are text or a mapping, which is stored as text; raises RequestError."""
        if not _matches(name, _NAME):
            raise RequestError(
                f"the name {name!r:.82} of a tool is not of 1 to 64 letters, digits, '_', '.'"
                " and '-'",
                field="tools",
            )
        _check_type(description, str, f"the description of the tool {name}", "tools")
        _check_type(strict, bool, f"strict of the tool {name}", "tools")
        subject = f"the parameters of the tool {name}"
        text = _as_json(parameters, subject, "tools")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "description", description)
        object.__setattr__(self, "parameters", text)
        object.__setattr__(self, "strict", strict)
        if unknown_keywords is not None:
            unknown_keywords = word_of(
                UnknownKeywords, unknown_keywords, "unknown_keywords", within="tools"
            )
        object.__setattr__(self, "unknown_keywords", unknown_keywords)
        object.__setattr__(self, "input", input)
        if text:
            _check_parameters(text, subject)
        if input is not None:
            self._check_input()

    @property
    def schema(self) -> str:
        """The JSON Schema of its arguments as text, as models are shown it."""
        return self.parameters or _NO_ARGUMENTS if self.input is None else _input_schema(self.input)

    def _check_input(self) -> None:
        """Raise RequestError for an input that is no grammar, or beside parameters."""
        if not isinstance(self.input, Lark | Regex):
            raise RequestError(
                f"the input of the tool {self.name} is {self.input!r:.80}",
                field="tools",
                hint="pass a guided.Lark or a guided.Regex",
            )
        if self.parameters:
            raise RequestError(
                f"the tool {self.name} has both parameters and an input, its only argument",
                field="tools",
                hint="leave one out",
            )


@dataclass(frozen=True, slots=True, init=False)
class ToolCall:
    """A call of a function."""

    name: str
    arguments: str
    """A JSON object that fits the schema of the tool."""
    id: str = ""
    """The id by which a message of role ``tool`` names the call it answers."""
    value: Any = field(default=None, compare=False, repr=False)
    """In an answer of the client, its arguments as their type reads them: an instance of the model,
    or the function with its arguments, a ``functools.partial`` to be called; for a tool without a
    type their parsed JSON."""

    def __init__(
        self, name: str, arguments: str | Mapping[str, object], id: str = "", value: Any = None
    ) -> None:
        """``arguments`` are text or a mapping, which is stored as text; raises RequestError."""
        field = "messages.tool_calls"
        _check_type(name, str, "the name of a call", field)
        _check_type(id, str, "the id of a call", field)
        text = _as_json(arguments, f"the arguments of the call {id or name!r}", field)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "arguments", text)
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "value", value)


def check_call(call: object) -> None:
    """Raise RequestError for an invalid call in a message."""
    field = "messages.tool_calls"
    if not isinstance(call, ToolCall):
        raise RequestError(
            f"a call is {call!r:.80}, which is no guided.ToolCall",
            field=field,
            hint="write guided.ToolCall(name, arguments, id)",
        )
    if not _matches(call.name, _NAME):
        raise RequestError(f"a call names {call.name[:80]!r}, which is no tool's name", field=field)
    check_call_id(call.id, field)
    subject = f"the arguments of the call {call.id or call.name!r}"
    check_text_values(call.arguments, subject, field)
    try:
        parsed = _parse(call.arguments)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise RequestError(f"{subject} are no JSON object", field=field)
    _check_nesting(parsed, subject, field)


def _matches(name: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(name, str) and pattern.fullmatch(name) is not None


def _check_type(value: object, wanted: type, subject: str, field: str) -> None:
    """Raise RequestError for a value of another type; ``subject`` begins the message."""
    if not isinstance(value, wanted):
        raise RequestError(f"{subject} is {value!r:.80}, no {wanted.__name__}", field=field)


def _as_json(value: object, subject: str, field: str) -> str:
    """Return a mapping as JSON, and a text as it is; raises RequestError for anything else.

    ``subject``, a plural, begins the messages, here and below.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise RequestError(
            f"{subject} are {value!r:.80}",
            field=field,
            hint="pass a mapping, or JSON as text",
        )
    try:
        return json.dumps(dict(value), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"{subject} are not JSON: {error}", field=field) from error


def _parse(text: str) -> object:
    """Parse JSON; raises ValueError or RecursionError."""
    parsed: object = json.loads(text, parse_constant=refuse_constant)
    # Raises for half of a surrogate pair, which cannot be encoded, and for numbers out of range.
    json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode()
    return parsed


def input_field(name: str) -> str:
    """Return the field of a request that has the input of the tool with this name, for errors."""
    return f"tools.{name}.{INPUT}"


def parameters_field(name: str) -> str:
    """Return the field of a request that has the parameters of the tool with this name."""
    return f"tools.{name}.parameters"


def _input_schema(grammar: Lark | Regex) -> str:
    """Return the schema of a custom tool's arguments, which shows its grammar to the model."""
    told = (
        f"A text of this grammar in the format of Lark:\n{grammar.text}"
        if isinstance(grammar, Lark)
        else f"A text that this regular expression matches as a whole: {grammar.pattern}"
    )
    schema = {
        "type": "object",
        "properties": {INPUT: {"type": "string", "description": told}},
        "required": [INPUT],
        "additionalProperties": False,
    }
    return json.dumps(schema, ensure_ascii=False)


def _check_parameters(text: str, subject: str) -> None:
    """Raise an error unless ``text`` is a JSON object of limited nesting, for chat templates.

    Keywords are not checked here. Raises InvalidConstraintError, or LimitExceededError.
    """
    check_text_values(text, subject, "tools")
    try:
        parsed = _parse(text)
        read_exact(text)  # as it will be read for the constraint
    except (ValueError, RecursionError) as error:
        raise InvalidConstraintError(f"{subject} are not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise InvalidConstraintError(f"{subject} are no JSON Schema of an object")
    _check_nesting(parsed, subject, "tools")


def _check_nesting(value: object, subject: str, field: str) -> None:
    """Raise LimitExceededError for a JSON value that nests deeper than MAX_JSON_NESTING."""
    level = [value]
    for _ in range(MAX_JSON_NESTING):
        level = [part for one in level for part in _children(one)]
        if not level:
            return
    raise LimitExceededError(
        f"{subject} nest deeper than {MAX_JSON_NESTING} levels",
        limit=MAX_JSON_NESTING,
        field=field,
    )


def _children(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def check_call_id(name: object, field: str) -> None:
    """Raise RequestError for an invalid or ambiguous id of a call."""
    if not _matches(name, _ID):
        raise RequestError(
            f"the id {name!r:.82} of a call is not of up to 128 letters, digits, '_', '.', ':' "
            "and '-'",
            field=field,
        )


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools of a request, and whether they are called."""

    tools: tuple[Tool, ...]
    choice: str = "auto"
    """``auto``: the model decides; ``required``: at least one call and nothing else; ``none``: no
    call; or the name of the one tool that is called, once."""
    parallel: bool = True
    """Whether an answer may have more than one call, if the model's format allows several."""

    def __post_init__(self) -> None:
        names = [tool.name for tool in self.tools]
        if not names:
            raise RequestError("the list of tools is empty", field="tools", hint="leave it out")
        if len(names) > MAX_TOOLS:
            raise LimitExceededError(
                f"there are {len(names)} tools, above the limit of {MAX_TOOLS}",
                limit=MAX_TOOLS,
                field="tools",
            )
        if repeated := {name for name in names if names.count(name) > 1}:
            raise RequestError(f"two tools have the name {min(repeated)!r}", field="tools")
        if words := [name for name in names if name in _CHOICES]:
            raise RequestError(
                f"no tool may have the name {words[0]!r}, which says whether one is called",
                field="tools",
            )
        if self.choice not in (*_CHOICES, *names):
            raise RequestError(
                f"tool_choice names {self.choice[:80]!r}, which is none of the tools",
                field="tool_choice",
                hint="say 'auto', 'required', 'none', or the name of a tool",
            )

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        if self.choice == "none":
            return ()
        if self.names_one_tool:
            return tuple(tool for tool in self.tools if tool.name == self.choice)
        return self.tools

    @property
    def names_one_tool(self) -> bool:
        """Whether the choice names one tool that must be called."""
        return self.choice not in _CHOICES
