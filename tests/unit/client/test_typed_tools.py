"""Functions and models are tools, and the calls of an answer have their values."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, ValidationInfo, field_validator

from guided.client import Answer, Request
from guided.constraint import ConstraintCompiler
from guided.errors import AnswerValidationError, InternalServiceError, RequestError
from guided.spec import FinishReason, Lark, Regex, Tool, ToolCall, Usage
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import HERMES
from tests.kit.walks import BYTES, accepts

if TYPE_CHECKING:
    from fractions import Fraction


class City(BaseModel):
    """A place."""

    name: str
    founded: date | None = None


def weather(city: str, days: Annotated[int, Field(ge=1, description="How many.")] = 1) -> Fraction:
    """Tell the weather.

    Of cities alone.
    """
    raise NotImplementedError(city, days)


class Inbox:
    """Has a method that is a tool."""

    def find(self, sender: City, *, unread: bool = True) -> str:
        """Find mail."""
        return f"{sender.name}, {'new' if unread else 'all'}"


def odd(number: int, info: ValidationInfo) -> int:
    if info.context == "any" or number % 2:
        return number
    raise ValueError(f"{number} is even")


class Odd(BaseModel):
    """Odd."""

    number: Annotated[int, AfterValidator(odd)]


def add(number: Annotated[int, AfterValidator(odd)], json: Literal["a", "b"] = "a") -> str:
    return json * number


async def later(json: int, copy: list[int] = Field([], max_length=2)) -> tuple[int, list[int]]:  # noqa: B008
    return json, copy


def tool_of(subject: Any) -> Tool:
    use = Request("?", tools=[subject]).specification.tools
    assert use is not None
    return use.tools[0]


def calling(*calls: ToolCall) -> Answer[str]:
    usage = Usage(1, 2, 3, 4)
    return Answer("calls", "calls", FinishReason.STOP, usage, 0.5, tool_calls=calls)


def run(function: Callable[..., Any], arguments: str, **options: Any) -> Any:
    request = Request("?", tools=[function], **options)
    (call,) = request.read(calling(ToolCall(function.__name__, arguments, "1"))).tool_calls
    assert isinstance(call.value, functools.partial)
    return call.value()


def test_a_function_is_a_tool_of_its_name_docstring_and_parameters() -> None:
    tool = tool_of(weather)
    assert (tool.name, tool.description) == ("weather", "Tell the weather.\n\nOf cities alone.")
    assert json.loads(tool.parameters) == {
        "type": "object",
        "title": "weather",
        "properties": {
            "city": {"title": "City", "type": "string"},
            "days": {
                "title": "Days",
                "description": "How many.",
                "type": "integer",
                "minimum": 1,
                "default": 1,
            },
        },
        "required": ["city"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        (Inbox().find, '{"sender":{"name":"Oslo"}}', "Oslo, new"),
        (Inbox().find, '{"sender":{"name":"Oslo","founded":null},"unread":false}', "Oslo, all"),
        (add, '{"number":3}', "aaa"),
        (add, '{"number":1,"json":"b"}', "b"),
        (functools.wraps(add)(lambda **given: given), '{"number":1}', {"number": 1, "json": "a"}),
    ],
)
def test_the_value_of_a_call_is_the_function_with_its_arguments(
    function: Callable[..., Any], arguments: str, result: Any
) -> None:
    assert run(function, arguments) == result


def test_the_value_of_a_call_of_a_coroutine_function_is_awaited() -> None:
    assert asyncio.run(run(later, '{"json":3}')) == (3, [])
    assert asyncio.run(run(later, '{"json":3,"copy":[1]}')) == (3, [1])


def test_the_arguments_of_a_function_are_held_to_its_types() -> None:
    request = Request("?", tools=[add], tool_choice="add")
    assert request.specification.tools is not None
    start = ConstraintCompiler(BYTES).start(with_calls(request.specification.tools, None, HERMES))
    for arguments, fits in (
        ('{"number":1}', True),
        ('{"number":1,"json":"b"}', True),
        ('{"json":"b"}', False),
        ('{"number":1,"json":"c"}', False),
        ('{"number":1,"more":1}', False),
    ):
        assert accepts(start, HERMES.call("add", arguments).encode()) is fits, arguments


@pytest.mark.parametrize(
    ("tool", "arguments", "value"),
    [
        (
            City,
            '{"name":"Oslo","founded":"1048-01-01"}',
            City(name="Oslo", founded=date(1048, 1, 1)),
        ),
        (Tool("f", parameters={"type": "object"}), '{"a":[1]}', {"a": [1]}),
        (Tool("f", input=Regex("a+")), '{"input":"aa"}', {"input": "aa"}),
        (
            {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
            '{"a":1.5}',
            {"a": 1.5},
        ),
    ],
)
def test_the_value_of_a_call_is_what_its_type_reads_or_its_json(
    tool: Any, arguments: str, value: Any
) -> None:
    request = Request("?", tools=[tool])
    call = ToolCall(request.specification.tools.tools[0].name, arguments, "1")  # type: ignore[union-attr]
    answer = request.read(calling(call))
    assert answer.tool_calls == (call,), "values do not count when calls are compared"
    assert (answer.tool_calls[0].value, answer.value) == (value, None)
    assert answer.message.tool_calls == (call,)


def takes_rest(city: str, *others: str) -> None: ...
def takes_any(**named: str) -> None: ...
def takes_unnamed(city: str, /) -> None: ...
def lacks_type(city: str, days=1) -> None: ...  # type: ignore[no-untyped-def]
def takes_no_json(city: str, inbox: Inbox) -> None: ...
def takes_a_number(city: 5) -> None: ...  # type: ignore[valid-type]
def takes_unknown(city: Fraction) -> None: ...


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        (
            takes_rest,
            "the parameter 'others' of the tool takes_rest stands for any number of arguments; "
            "name each parameter, or pass a guided.Tool",
        ),
        (
            takes_any,
            "the parameter 'named' of the tool takes_any stands for arguments of any name; "
            "name each parameter, or pass a guided.Tool",
        ),
        (
            takes_unnamed,
            "the parameter 'city' of the tool takes_unnamed has no name in a call; "
            "name each parameter, or pass a guided.Tool",
        ),
        (
            lacks_type,
            "the parameter 'days' of the tool lacks_type has no type; "
            "write days: TYPE, or pass a guided.Tool",
        ),
        (
            takes_a_number,
            "the parameter 'city' of the tool takes_a_number has no type; "
            "write city: TYPE, or pass a guided.Tool",
        ),
        (
            takes_unknown,
            "the parameters of the tool takes_unknown cannot be read: name 'Fraction' is not "
            "defined; import and define their types at the top of the function's module",
        ),
        (
            functools.partial(weather, days=2),
            f"the tool {functools.partial(weather, days=2)!r} has no name; "
            "pass a function or a method",
        ),
        (
            lambda: None,
            "the name '<lambda>' of a tool is not of 1 to 64 letters, digits, '_', '.' and '-'",
        ),
        (
            5,
            "tool 0 is 5, which is no tool; pass a function, a pydantic model, a guided.Tool, or a "
            "mapping as OpenAI's API has it",
        ),
    ],
)
def test_what_is_no_tool_is_told_by_its_parameter(tool: Any, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        Request("?", tools=[tool])
    assert (str(caught.value), caught.value.field) == (text, "tools")


def test_a_type_without_a_schema_is_told_by_its_tool_and_parameter() -> None:
    for tool, subject in (
        (takes_no_json, "the parameter 'inbox' of the tool takes_no_json: "),
        (Inbox, "the tool Inbox: "),
    ):
        with pytest.raises(RequestError) as caught:
            Request("?", tools=[tool])
        assert str(caught.value).startswith(subject)
        assert "has no JSON Schema: Unable to generate pydantic-core schema" in str(caught.value)
        assert caught.value.hint == "use types that pydantic can describe, or pass a guided.Tool"
        assert caught.value.field == "tools"


@pytest.mark.parametrize("tool", [Odd, add])
def test_a_call_that_its_type_refuses_is_refused_with_tool_and_parameter(tool: Any) -> None:
    request = Request("?", tools=[tool, weather])
    name = tool.__name__
    calls = (
        ToolCall(name, '{"number":2}', "1"),
        ToolCall("weather", '{"city":"Oslo","days":0}', "2"),
        ToolCall(name, '{"number":3}', "3"),
    )
    with pytest.raises(AnswerValidationError) as caught:
        request.read(calling(*calls))
    assert caught.value.reason == (
        f"in the call of {name}, number: Value error, 2 is even; "
        "in the call of weather, days: Input should be greater than or equal to 1"
    )
    assert caught.value.text == "calls"


def test_validators_of_tools_and_response_models_get_the_context() -> None:
    assert run(add, '{"number":2}', context="any") == "aa"
    request = Request("?", Odd, tools=[Odd], context="any")
    (call,) = request.read(calling(ToolCall("Odd", '{"number":4}', "1"))).tool_calls
    assert call.value.number == 4
    text = '{"number":6}'
    plain = Answer(text, text, FinishReason.STOP, Usage(1, 2, 3, 4), 0.5)
    assert request.read(plain).value.number == 6
    with pytest.raises(AnswerValidationError, match="6 is even"):
        Request("?", Odd, context="other").read(plain)


def test_partial_values_are_read_with_the_context() -> None:
    pieces = ('[{"number":2},', '{"number":3}', "]")
    for context, shown in (("any", [[2], [2, 3], [2, 3]]), (None, [[], [3]])):
        partials = Request[Any]("?", list[Odd], context=context).partials()
        found = [partial for piece in pieces for partial in partials.feed(piece)]
        assert [[one.number for one in partial] for partial in found] == shown


@pytest.mark.parametrize("options", [{}, {"schema": "{}"}, {"tools": [Tool("f")]}])
def test_a_context_that_nothing_takes_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="context needs a response_model, or a tool of a type"):
        Request("?", context={"user": 1}, **options)


def test_a_call_of_no_tool_of_the_request_is_a_fault_of_the_server() -> None:
    with pytest.raises(InternalServiceError, match="a call of 'f', which is none of the request's"):
        Request("?", tools=[add]).read(calling(ToolCall("f", "{}", "1")))


def custom(form: Any = None, **more: Any) -> dict[str, Any]:
    format_ = {} if form is None else {"format": form}
    return {"type": "custom", "custom": {"name": "patch", **format_, **more}}


LARK = {"syntax": "lark", "definition": 'start: "a"'}
TEXT = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("mapping", "tool"),
    [
        (custom(), Tool("patch", "", TEXT)),
        (custom({"type": "text"}, description="Say."), Tool("patch", "Say.", TEXT)),
        (
            custom({"type": "grammar", "grammar": LARK}),
            Tool("patch", input=Lark('start: "a"')),
        ),
        (
            custom({"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}),
            Tool("patch", input=Regex("a+")),
        ),
        (
            {"type": "custom", "name": "patch", "format": {"type": "grammar", **LARK}},
            Tool("patch", input=Lark('start: "a"')),
        ),
    ],
)
def test_a_mapping_of_a_custom_tool_is_one(mapping: dict[str, Any], tool: Tool) -> None:
    assert tool_of(mapping) == tool


NO_GRAMMAR = "has a grammar that is not of a syntax, 'lark' or 'regex', and a definition"


@pytest.mark.parametrize(
    ("mapping", "fault"),
    [
        ({"type": "custom"}, "has no name, or members beside custom"),
        ({**custom(), "name": 1, "strict": True}, "has a member other than name"),
        (custom(strict=True), "has a member other than name, description and format"),
        (custom(name=5), "has a member other than name, description and format"),
        (custom("text"), "has the format 'text', which is neither text nor grammar"),
        (custom({"type": "text", "more": 1}), "which is neither text nor grammar"),
        (custom({"type": "grammar"}), NO_GRAMMAR),
        (custom({"type": "grammar", "grammar": {"syntax": "lark"}}), NO_GRAMMAR),
        (custom({"type": "grammar", "grammar": {**LARK, "more": 1}}), NO_GRAMMAR),
        (custom({"type": "grammar", "grammar": {**LARK, "syntax": "gbnf"}}), NO_GRAMMAR),
    ],
)
def test_a_mapping_that_is_no_custom_tool_is_refused(mapping: dict[str, Any], fault: str) -> None:
    with pytest.raises(RequestError) as caught:
        Request("?", tools=[Tool("f"), mapping])
    assert caught.value.message.startswith("the custom tool 1 ")
    assert fault in caught.value.message
    assert caught.value.field == "tools"


class Strict(BaseModel):
    """Has a validator of its own name."""

    text: str

    @field_validator("text")
    @classmethod
    def is_short(cls, text: str) -> str:
        raise TypeError(f"no {text}")


def test_whatever_a_validator_raises_refuses_its_call() -> None:
    with pytest.raises(AnswerValidationError, match="in the call of Strict, TypeError: no a"):
        Request("?", tools=[Strict]).read(calling(ToolCall("Strict", '{"text":"a"}', "1")))
