"""The environment says how JSON is written in a host."""

from __future__ import annotations

import json
import re

import pytest

from guided.errors import RequestError
from guided.integrations.json_form import JsonForm
from guided.spec import JsonOptions, JsonSchema

_SCHEMA = '{"properties": {"a": {"const": 1.50}}}'


def test_objects_are_closed_and_json_is_compact_where_nothing_is_said() -> None:
    form = JsonForm.of_environment({})
    made = form.schema(_SCHEMA)
    assert made.options == JsonOptions()
    assert json.loads(made.text) == json.loads(_SCHEMA) | {"additionalProperties": False}


@pytest.mark.parametrize(
    "number", ["9007199254740993.25", "1E+400", "1.50", "12345678901234567890.5"]
)
def test_numbers_stay_as_they_are_where_objects_are_closed(number: str) -> None:
    text = f'{{"properties":{{"a":{{"const":{number}}}}}}}'
    made = JsonForm(JsonOptions()).schema(text)
    assert made.text == text[:-1] + ',"additionalProperties":false}'


def test_a_repeated_name_is_left_to_the_reader_of_schemas() -> None:
    text = '{"properties": {}, "properties": {"a": {}}}'
    assert JsonForm(JsonOptions()).schema(text).text == text


def test_what_is_said_holds() -> None:
    form = JsonForm.of_environment({"GUIDED_JSON": '{"whitespace": "free", "objects": "open"}'})
    assert form.schema(_SCHEMA) == JsonSchema(_SCHEMA, JsonOptions(whitespace="free"))


@pytest.mark.parametrize("text", ['{"const": 1.50}', "true", "[]", "{", "[" * 100_000])
def test_text_is_handed_on_as_it_is_where_nothing_is_closed(text: str) -> None:
    assert JsonForm(JsonOptions()).schema(text).text == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the variable GUIDED_JSON is not JSON"),
        ("[]", "the variable GUIDED_JSON is no object; it is an object of JSON; known are white"),
        ('{"space": 3}', "the variable GUIDED_JSON has 'space'"),
        ('{"objects": "shut"}', "says 'shut' of objects, not closed or open"),
        ('{"whitespace": "lots"}', "whitespace 'lots' is not an integer"),
    ],
)
def test_what_it_cannot_say_is_refused(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=re.escape(message)):
        JsonForm.of_environment({"GUIDED_JSON": text})
