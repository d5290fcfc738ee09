"""Options of a request as the client's user writes them: keyword arguments, checked by type."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache, partial, reduce, wraps
from numbers import Integral, Real
from types import NoneType
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_type_hints

from guided.errors import RequestError
from guided.spec import (
    Beams,
    GenerationRequest,
    JsonOptions,
    Reasoning,
    Sampling,
    Structure,
    Tool,
    word_of,
)
from guided.spec.closest import closest
from guided.spec.option import options_of
from guided.spec.request import RequestOptions

__all__ = [
    "ITERABLES",
    "OPTIONS",
    "Options",
    "Schema",
    "engine_options",
    "naming_misspelt_options",
    "reasoning_of",
    "with_options",
]

AnyClass = TypeVar("AnyClass", bound=type)

Schema: TypeAlias = str | Mapping[str, object]
"""A JSON Schema, as text or parsed."""


class Options(RequestOptions, total=False):
    """The options of a request besides its prompt and its response model.

    Most are options of ``guided.Sampling`` and ``guided.GenerationRequest``, which document them.
    The others belong to the client.
    """

    grammar: Structure | re.Pattern[str] | None
    """The constraint of the answer, instead of a schema; the value is then its text. A compiled
    pattern must match the whole answer."""
    json_options: JsonOptions
    """How JSON is written where its schema leaves a choice; compact, in the schema's order."""
    documents: Mapping[str, Schema]
    """Other schemas that the schema may refer to, by URI; nothing is ever fetched."""
    tools: Iterable[Tool | type | Callable[..., Any] | Mapping[str, object]]
    """What the answer may call: a function or a pydantic model, with its name, and its docstring as
    the description; a ``guided.Tool``; or a mapping as in OpenAI's API."""
    tool_choice: str
    """``"auto"``, ``"required"``, ``"none"``, or the name of the tool that must be called."""
    parallel_tool_calls: bool
    """Whether an answer may have more than one call."""
    reasoning: Reasoning | int | None
    """Let the model think before it answers: a budget in tokens, or a ``guided.Reasoning`` with
    more options. ``max_tokens`` bounds thoughts and answer together; see docs/reasoning.md."""
    max_retries: int
    """How often an answer that its type refuses is tried again; 0. The model gets the refused
    answer and the reason as further messages, and ``answer.usage`` is the cost of all tries."""
    context: Any
    """What the validators of the response model, and of the tools' types, get as
    ``info.context``."""
    request_id: str | None
    """Name of the request in the server's log; at most 128 visible ASCII characters. The name
    identifies the request: sent again within two minutes, it gets the same answer."""


OPTIONS: Final[Mapping[str, Any]] = get_type_hints(Options)
"""All options, each with its type."""

_MAPPINGS = ("logit_bias", "documents")
"""Options whose default is an empty mapping."""

_WRITTEN_OTHERWISE: Final[Mapping[str, str]] = {
    "choice": "pass a guided.Choice or a Literal as response_model",
    "regex": "pass a guided.Regex or re.compile(...) as response_model",
    "lark": "pass a guided.Lark as response_model",
    "ebnf": "pass a guided.Ebnf as response_model",
    "system": 'begin the prompt with guided.Message("system", ...)',
    "messages": "pass them as the prompt",
    "response_format": "pass a type as response_model, or schema=",
}
"""Names of options elsewhere, and what to write here."""

_DESCRIBED: Final[Mapping[Any, tuple[Any, str]]] = {
    Any: (object, "anything"),
    bool: (bool, "True or False"),
    int: (Integral, "an integer"),
    float: (Real, "a number"),
    str: (str, "a string"),
    Beams: (Beams, "a guided.Beams"),
    JsonOptions: (JsonOptions, "a guided.JsonOptions"),
    Reasoning | int: (Reasoning | Integral, "a number of tokens, or a guided.Reasoning"),
    str | Iterable[str]: (Iterable, "a string, or several"),
    Iterable[int]: (Iterable, "a collection of integers"),
    Iterable[Tool | type | Callable[..., Any] | Mapping[str, object]]: (
        Iterable,
        "a collection of tools",
    ),
    Mapping[int, float]: (Mapping, "a mapping of token ids to numbers"),
    Mapping[str, Schema]: (Mapping, "a mapping of URIs to schemas"),
    Structure | re.Pattern[str]: (
        Structure | re.Pattern,
        "a constraint such as guided.Lark or guided.Template",
    ),
}
"""For each type of option, the type that values are checked against, and its name in messages."""


def with_options(kind: AnyClass) -> AnyClass:
    """Give a class a keyword-only field for every option, for ``dataclass`` to read.

    The defaults are those of the values sent to the engine.
    """
    declared = (*fields(Sampling), *fields(GenerationRequest))
    defaults = {each.name: each.default for each in declared}
    defaults |= {
        "grammar": None,
        "json_options": JsonOptions(),
        "request_id": None,
        "max_retries": 0,
        "context": None,
        "reasoning": None,
        "tools": (),
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    }
    for name, hint in OPTIONS.items():
        kind.__annotations__[name] = hint
        made: Any = {"default_factory": dict} if name in _MAPPINGS else {"default": defaults[name]}
        setattr(kind, name, field(kw_only=True, **made))
    return kind


def naming_misspelt_options(kind: AnyClass) -> AnyClass:
    """Have a dataclass raise TypeError, with the closest option, for one that does not exist."""
    made: Any = kind
    initialise = made.__init__
    known = [each.name for each in fields(made) if each.init]

    @wraps(initialise)
    def checked(self: object, *arguments: object, **given: object) -> None:
        for name in given:
            if name not in known:
                hint = _WRITTEN_OTHERWISE.get(name, "")
                if not hint and (close := closest(name, known)):
                    hint = f"did you mean {close!r}?"
                raise TypeError(f"there is no option {name!r}" + (f"; {hint}" if hint else ""))
        initialise(self, *arguments, **given)

    made.__init__ = checked
    return kind


def engine_options(given: Any) -> dict[str, Any]:
    """Return a request's options for the engine, checked and converted.

    Raises RequestError for a value of the wrong type.
    """
    checked = {name: _checked(name, getattr(given, name)) for name in OPTIONS}
    sampling = Sampling(**{name: checked[name] for name in options_of(Sampling)})
    return {"sampling": sampling} | {name: checked[name] for name in options_of(GenerationRequest)}


@dataclass(frozen=True, slots=True)
class _Form:
    """The type of an option, read from its annotation once."""

    word: type[StrEnum] | None
    """The enumeration that the value is a member of, or names a member of."""
    kind: Any
    described: str
    """Any other type, and its name in messages."""
    is_optional: bool


@cache
def _form_of(name: str) -> _Form:
    hint = OPTIONS[name]
    parts = get_args(hint)
    for part in (hint, *parts):
        if isinstance(part, type) and issubclass(part, StrEnum):
            return _Form(part, None, "", is_optional=NoneType in parts)
    if is_optional := NoneType in parts:
        hint = reduce(operator.or_, [part for part in parts if part is not NoneType])
    return _Form(None, *_DESCRIBED[hint], is_optional)


ITERABLES: Final = tuple(name for name in OPTIONS if _form_of(name).kind is Iterable)
"""Options that may be given as iterators."""


def _checked(name: str, value: Any) -> Any:
    form = _form_of(name)
    if value is None and form.is_optional:
        return None
    if form.word is not None:
        return word_of(form.word, value, name, within="")
    # In Python True is an integer, but a caller who passes it does not mean 1.
    takes_bool = form.kind in (bool, object)
    if not isinstance(value, form.kind) or (isinstance(value, bool) and not takes_bool):
        raise RequestError(
            f"{name} {value!r} is not {form.described}",
            field=_path(name),
            hint=f"pass {form.described}" + (" or None" if form.is_optional else ""),
        )
    return _CONVERTED[name](value) if name in _CONVERTED else value


def reasoning_of(given: Reasoning | int | None) -> Reasoning | None:
    """Return the requested thoughts; a number is their budget."""
    return given if given is None or isinstance(given, Reasoning) else Reasoning(int(given))


def _path(name: str) -> str:
    return f"sampling.{name}" if name in options_of(Sampling) else name


def _strings(given: str | Iterable[str], name: str, described: str) -> tuple[str, ...]:
    """Return the strings of an option; a single one may be given as it is."""
    strings = (given,) if isinstance(given, str) else tuple(given)
    for string in strings:
        if not isinstance(string, str):
            raise RequestError(
                f"{name} holds {string!r}, which is not {described}",
                field=name,
                hint="pass strings",
            )
    return strings


def _integers(given: Iterable[int], name: str, described: str) -> tuple[int, ...]:
    return tuple(_integer(each, name, described) for each in given)


def _bias_pairs(given: Mapping[int, float]) -> tuple[tuple[int, float], ...]:
    """Return each token with its bias."""
    pairs: list[tuple[int, float]] = []
    for token, bias in given.items():
        number = _integer(token, "logit_bias", "a token id")
        if not isinstance(bias, Real) or isinstance(bias, bool):
            raise RequestError(
                f"logit_bias holds {bias!r}, which is not a number",
                field=_path("logit_bias"),
                hint="pass numbers",
            )
        pairs.append((number, float(bias)))
    return tuple(pairs)


def _integer(value: object, name: str, described: str) -> int:
    """Return an element of an option, which must be an integer and is ``described`` in messages."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise RequestError(
            f"{name} holds {value!r}, which is not {described}",
            field=_path(name),
            hint="pass integers",
        )
    return int(value)


_CONVERTED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "draft_widths": partial(_integers, name="draft_widths", described="a number of tokens"),
    "drafters": partial(_strings, name="drafters", described="a name"),
    "stop": partial(_strings, name="stop", described="a string"),
    "stop_tokens": partial(_integers, name="stop_tokens", described="a token id"),
    "logit_bias": _bias_pairs,
}
