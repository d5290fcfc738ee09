"""Arguments written as text fit everything that their schema says of strings."""

from __future__ import annotations

import enum
import json
import random
import uuid
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from jsonschema_rs import Draft202012Validator
from pydantic import BaseModel, Field, StringConstraints

from guided.constraint.machine import machine_of
from guided.errors import ConstraintError
from guided.machine.recognizer import Recognizer
from guided.spec import GenerationRequest, Message, Tool, ToolUse
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import GLM, QWEN_XML, ToolFormat
from guided.spec.tool_members import text_members
from guided_service.call_reader import calls_in, reader_of

FORMS = {"qwen_xml": QWEN_XML, "glm": GLM}
ENDS = {"qwen_xml": "\n</parameter>\n", "glm": "</arg_value>\n"}


class Unit(enum.StrEnum):
    CELSIUS = "C"
    FAHRENHEIT = "F"


class Trip(BaseModel):
    """A trip to plan."""

    city: Annotated[str, StringConstraints(max_length=6, pattern="^[A-ZÅ]")]
    unit: Unit = Unit.CELSIUS
    style: Literal["slow", "fast"]
    mode: Literal["train"] = "train"
    day: date
    booking: uuid.UUID | None = None
    ticket: uuid.UUID | date = Field(default=date(2026, 1, 1))
    note: str = ""
    days: int = Field(ge=1, le=9)


SCHEMA = Trip.model_json_schema()
TEXTS = frozenset({"city", "unit", "style", "mode", "day", "booking", "ticket", "note"})
ID = "123e4567-e89b-12d3-a456-426614174000"
VALUES: dict[str, list[object]] = {
    "city": ["Oslo", "Ålesund", "Åbo", "oslo", "", "A\n</arg"],
    "unit": ["C", "F", "K", "C\n"],
    "style": ["slow", "fast", "fastest", "slowslow"],
    "mode": ["train", "trains", '"train"'],
    "day": ["2026-02-28", "2026-02-30", "today"],
    "booking": [ID, None, "12"],
    "ticket": [ID, "2026-02-28", f"{ID}2026-02-28"],
    "note": ["", "x", '"', "\n</parameter>", "</arg_value>\n", "a\n</parameter>\nb", "\\u0041\n"],
    "days": [1, 9, 10],
}


def machine(schema: dict[str, Any], form: ToolFormat) -> Recognizer:
    return machine_of(with_calls(ToolUse((Tool("trip", "", schema),), "required"), None, form))


def accepts(recognizer: Recognizer, text: str) -> bool:
    state = recognizer.advance(recognizer.start, text.encode())
    return state is not None and recognizer.is_accepting(state)


def written(arguments: dict[str, object], form: ToolFormat) -> str:
    """A call as a model writes it: values other than texts in the JSON of our grammar."""
    assert form.members is not None
    values = {
        name: value if name in TEXTS else json.dumps(value) for name, value in arguments.items()
    }
    return form.call("trip", json.dumps(values))


@pytest.mark.parametrize("name", FORMS)
def test_calls_of_a_pydantic_tool_are_those_whose_arguments_are_valid(name: str) -> None:
    form, rng = FORMS[name], random.Random(3)
    recognizer = machine(SCHEMA, form)
    tools = ToolUse((Tool("trip", "", SCHEMA),), "required")
    reader = reader_of(GenerationRequest((Message("user", "x"),), tools=tools), form)
    assert reader is not None
    is_valid = Draft202012Validator(SCHEMA, validate_formats=True).is_valid
    counts = {True: 0, False: 0}
    for _ in range(2_000):
        # The first value is a valid one, so that about half of the calls are valid.
        arguments = {
            each: values[0] if rng.random() < 0.8 else rng.choice(values)
            for each, values in VALUES.items()
            if each in SCHEMA["required"] or rng.random() < 0.7
        }
        texts = [str(value) for each, value in arguments.items() if each in TEXTS]
        end = ENDS[name]
        can_stand = all((text + end).index(end) == len(text) for text in texts)
        text, fits = written(arguments, form), can_stand and is_valid(arguments)
        assert accepts(recognizer, text) == fits, text
        counts[fits] += 1
        if fits:
            _, (call,) = calls_in(text, reader())
            assert json.loads(call.arguments) == arguments
            Trip.model_validate_json(call.arguments)
    assert min(counts.values()) > 300


@pytest.mark.parametrize(
    ("schema", "is_text"),
    [
        ({"type": "string", "maxLength": 3}, True),
        ({"type": ["string"]}, True),
        ({"type": ["string", "null"]}, "or null"),
        ({"const": "a"}, True),
        ({"const": 1}, False),
        ({"enum": ["a", "b"]}, True),
        ({"enum": ["a", None]}, "or null"),
        ({"$ref": "#/$defs/text"}, True),
        ({"$ref": "#/$defs/a~1b%25"}, True),
        ({"$ref": "#/$defs/chain", "description": "Where."}, True),
        ({"$ref": "#/$defs/number"}, False),
        ({"$ref": "#/$defs/nothing"}, False),
        ({"$ref": "#/$defs/text/type/x"}, False),
        ({"$ref": "#anchor"}, False),
        ({"$ref": "other.json#/$defs/text"}, False),
        ({"$ref": "#/$defs/endless"}, False),
        ({"$ref": "#/properties/a"}, False),
        ({"allOf": [{"$ref": "#/$defs/text"}], "default": "x"}, True),
        ({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/text"}]}, True),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "or null"),
        ({"type": "null"}, False),
        ({"type": ["string", "integer", "null"]}, False),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, True),
        ({"oneOf": []}, False),
        ({"pattern": "^a$"}, False),
        ({"enum": "a", "anyOf": {"type": "string"}, "$ref": 3}, False),
        (True, False),
        ("text", False),
    ],
)
def test_what_is_text_is_told_by_the_schema(schema: object, is_text: bool | str) -> None:
    definitions = {
        "text": {"type": "string", "maxLength": 3},
        "a/b%": {"type": "string"},
        "chain": {"$ref": "#/$defs/text"},
        "number": {"type": "integer"},
        "endless": {"allOf": [{"$ref": "#/$defs/endless"}]},
    }
    whole = {"properties": {"a": schema}, "$defs": definitions}
    told = text_members(Tool("f", "", whole))
    assert told == ({"a": is_text == "or null"} if is_text else {})


def test_references_that_fan_out_are_looked_at_once_and_not_without_end() -> None:
    twice = {
        f"{n}": {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}, {"$ref": f"#/$defs/{n + 1}"}]}
        for n in range(20)
    }
    chain = {f"c{n}": {"$ref": f"#/$defs/c{n + 1}"} for n in range(5_000)}
    whole = {
        "properties": {"a": {"$ref": "#/$defs/0"}, "b": {"$ref": "#/$defs/c0"}},
        "$defs": {**twice, **chain, "20": {"type": "string"}, "c5000": {"type": "string"}},
    }
    assert text_members(Tool("f", "", whole)) == {"a": False}
    odd: dict[str, Any]
    for odd in ({}, {"properties": []}, {"properties": None}):
        assert text_members(Tool("f", "", odd)) == {}


def test_an_argument_may_refer_to_any_part_of_the_parameters() -> None:
    schema = {
        "properties": {
            "größe": {"type": "string", "maxLength": 2},
            "a": {"$ref": "#/properties/größe"},
            "b": {"items": {"$ref": "#"}, "type": "array"},
        },
        "required": ["a"],
    }
    recognizer = machine(schema, QWEN_XML)
    call = QWEN_XML.call
    assert accepts(recognizer, call("trip", '{"größe": "xx", "a": "yy"}'))
    assert not accepts(recognizer, call("trip", '{"a": "yyy"}'))
    within = '{"a": "x", "b": %s}'
    for inner, fits in (('[{"größe":"q","a":"z"}]', True), ('[{"a":"zzz"}]', False), ("3", False)):
        text = call("trip", within % json.dumps(inner))
        assert accepts(recognizer, text) == fits, text


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            {"type": "string", "pattern": r"(a)\1"},
            "at tool:trip#/properties/a/pattern: the pattern uses a back reference at character 3; "
            "write the pattern without it",
        ),
        (
            {"type": "string", "minLength": 3, "maxLength": 2},
            "at tool:trip#/properties/a: no string satisfies the schema and can be written without "
            "the quotes of JSON; look for bounds that cross",
        ),
        (
            {"type": "string", "const": "x\n</parameter>\ny"},
            "at tool:trip#/properties/a: no string satisfies the schema",
        ),
        ({"$ref": "#/$defs/nothing"}, "at tool:trip#/properties/a/$ref: "),
        (
            {"$ref": "#/properties/a"},
            "at tool:trip#/properties/a: the schema refers to nothing but itself",
        ),
        ({"type": "integer", "minimum": "a"}, "at tool:trip#/properties/a/minimum: "),
    ],
)
def test_errors_name_the_argument(told: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        machine({"properties": {"a": told}, "required": ["a"]}, QWEN_XML)
    assert message in str(caught.value)
