"""Functions whose parameters no arguments fit are errors that name them, beside others as alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler
from guided.constraint.machine import build_machine
from guided.errors import UnsatisfiableError
from guided.runtime.work_budget import PauseHooks, limited_work, use_pause_hooks
from guided.spec import Tool, ToolUse
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import FORMATS, ToolFormat
from guided_service.http.errors import refusal_of
from guided_service.http.sent_names import field_sent
from tests.kit.tiny_vocabulary import JSON_PIECES, tiny_vocabulary
from tests.service.test_anthropic_requests import asked as asked_messages
from tests.service.test_http_fields import asked, refusal
from tests.service.test_tools import COMPILER as SPELLING
from tests.service.test_tools import takes

SIGNS = sorted({name for form in FORMATS.values() for name in form.special_tokens})
COMPILER = ConstraintCompiler(tiny_vocabulary(JSON_PIECES, special=SIGNS))

DAYS = {"type": "integer", "minimum": 3, "maximum": 2}
FORECAST = {"type": "object", "properties": {"days": DAYS}, "required": ["days"]}
MISSING = {"type": "object", "properties": {"a": False}, "required": ["a"]}
ENDLESS = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/a"}},
    "required": ["a"],
    "$defs": {
        "a": {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "required": ["a"],
            "additionalProperties": False,
        }
    },
}
FINE_PARAMETERS = {"type": "object", "properties": {"x": {"type": "integer"}}}
FINE = Tool("fine", parameters=FINE_PARAMETERS)
WAY_OUT = (
    "no arguments fit, so the tool cannot be called; correct its parameters, or leave the tool"
)


def function(face: str, name: str, parameters: object) -> dict[str, Any]:
    """Return a function as the body of a request has it."""
    inner: dict[str, Any] = {"name": name, "parameters": parameters}
    return {
        "chat": {"type": "function", "function": inner},
        "responses": {"type": "function"} | inner,
        "messages": {"name": name, "input_schema": parameters},
    }[face]


@pytest.mark.parametrize("choice", ["auto", "required", "b.x"])
@pytest.mark.parametrize("beside", [(), (FINE,)])
@pytest.mark.parametrize(
    ("form", "parameters", "place"),
    [
        *((form, MISSING, "at the root: ") for form in ("hermes", "llama", "mistral", "harmony")),
        ("hermes", FORECAST, "at /properties/days: "),
        ("hermes", ENDLESS, "at /$defs/a: "),
        ("qwen_xml", FORECAST, "at tool:b.x#/properties/days: "),
        ("glm", ENDLESS, "at tool:b.x#/$defs/a: "),
        ("gemma", FORECAST, ""),
        ("gemma", ENDLESS, ""),
    ],
)
def test_parameters_that_no_arguments_fit_are_named(
    form: str, parameters: dict[str, Any], place: str, beside: tuple[Tool, ...], choice: str
) -> None:
    use = ToolUse((*beside, Tool("b.x", parameters=parameters)), choice)
    with pytest.raises(UnsatisfiableError) as caught:
        COMPILER.start(with_calls(use, None, FORMATS[form]))
    assert caught.value.field == "tools.b.x.parameters"
    assert str(caught.value).startswith(f"in tools.b.x.parameters: {place}{WAY_OUT}")


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_of_tools_that_may_not_be_called_nothing_is_asked(form: ToolFormat) -> None:
    use = ToolUse((FINE, Tool("b.x", parameters=FORECAST)), "fine")
    start = SPELLING.start(with_calls(use, None, form))
    assert takes(start, form.call("fine", '{"x":1}'))
    assert not takes(start, form.call("b.x", '{"days":3}'))
    SPELLING.start(with_calls(replace(use, choice="none"), None, form))


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_an_argument_that_no_value_fits_is_left_out_where_it_may_be(form: ToolFormat) -> None:
    optional = FORECAST | {"required": []}
    use = ToolUse((FINE, Tool("b.x", parameters=optional)), "required")
    start = SPELLING.start(with_calls(use, None, form))
    assert takes(start, form.call("b.x", "{}"))
    assert not takes(start, form.call("b.x", '{"days":3}'))


@pytest.mark.parametrize(
    ("parameters", "advice"),
    [
        (
            {"properties": {}, "required": ["z"], "additionalProperties": False},
            "the member 'z' is required, but may not be there",
        ),
        (
            FORECAST,
            "look for bounds that cross, for required members that may not be there, and for "
            "values that must contain another of their own schema",
        ),
    ],
)
def test_what_to_correct_is_told(parameters: dict[str, Any], advice: str) -> None:
    use = ToolUse((FINE, Tool("b.x", parameters=parameters)), "auto")
    with pytest.raises(UnsatisfiableError) as caught:
        COMPILER.start(with_calls(use, None, FORMATS["hermes"]))
    assert str(caught.value).endswith(f"{WAY_OUT} out: {advice}")


def work_for(count: int, days: dict[str, Any]) -> int:
    """Units of work for so many functions, each with some rules of its own."""

    def parameters(number: int) -> dict[str, Any]:
        others = {f"k{other}": {"type": "integer"} for other in range(6)}
        return {"properties": {"days": days, **others, f"x{number}": {"type": "boolean"}}}

    use = ToolUse(tuple(Tool(f"t{at}", parameters=parameters(at)) for at in range(count)))
    spent: list[int] = []
    with (
        use_pause_hooks(PauseHooks(1, spent.append, lambda _: None, lambda: None)),
        limited_work(10**9, "the functions"),
    ):
        build_machine(with_calls(use, None, FORMATS["gemma"]))
    return sum(spent)


def test_an_argument_that_no_value_fits_costs_no_more_than_another() -> None:
    """Every function is looked at by itself, without a pass over the rules of all."""
    assert work_for(64, DAYS) < work_for(64, {"type": "integer", "minimum": 3, "maximum": 9})


@pytest.mark.parametrize(
    ("face", "place"),
    [
        ("chat", "tools[1].function.parameters"),
        ("responses", "tools[1].parameters"),
        ("messages", "tools[1].input_schema"),
    ],
)
def test_the_field_that_was_sent_is_named(face: str, place: str) -> None:
    tools = [function(face, "fine", {"type": "object"}), function(face, "b.x", MISSING)]
    call = asked_messages(tools=tools) if face == "messages" else asked(face, tools=tools)
    assert call.request.tools is not None
    with pytest.raises(UnsatisfiableError) as caught:
        COMPILER.start(with_calls(call.request.tools, None, FORMATS["hermes"]))
    assert field_sent(caught.value, call.came_from) == place
    told: Any = refusal_of(caught.value, 1.0, call.came_from).body["error"]
    assert told["message"].startswith(f"in {place}: at the root: {WAY_OUT}")


@pytest.mark.parametrize(
    ("face", "place"),
    [("chat", "tools[1].function.parameters"), ("responses", "tools[1].parameters")],
)
def test_parameters_of_another_type_are_refused_alike(face: str, place: str) -> None:
    tools = [function(face, "fine", {"type": "object"}), function(face, "b.x", {"type": "string"})]
    error = refusal(face, tools=tools)
    assert error.field == place
    assert str(error) == (
        f"in {place}: no arguments fit, so the tool cannot be called: they are of type 'string', "
        "no object; correct its parameters, or leave the tool out"
    )


@pytest.mark.parametrize("kinds", [["object"], ["null", "object"]])
@pytest.mark.parametrize("form", FORMATS)
def test_of_several_types_arguments_are_objects(form: str, kinds: list[str]) -> None:
    def constraint(type_: str | list[str]) -> str:
        tool = Tool("t", parameters=FINE_PARAMETERS | {"type": type_})
        return with_calls(ToolUse((tool,), "t"), None, FORMATS[form]).digest()

    assert constraint(kinds) == constraint("object")
