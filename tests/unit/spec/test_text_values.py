"""JSON texts inside messages: of so many values that parsing them would stop all else, refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from guided.errors import LimitExceededError
from guided.spec import JsonOptions, Message, Tool, ToolCall
from guided.spec.exact_json import MAX_TEXT_VALUES, has_more_values
from guided_service.http.constraints import StructuredOutputs, _of_outputs
from guided_service.http.messages import written_arguments

_MANY = '{"a":[' + "[]," * (MAX_TEXT_VALUES // 2) + '"b"]}'


@pytest.mark.parametrize(
    "parse",
    [
        lambda: Message("assistant", "", tool_calls=(ToolCall("f", _MANY),)),
        lambda: Tool("f", parameters=_MANY),
        lambda: written_arguments(_MANY, "c", "messages"),
        lambda: _of_outputs(StructuredOutputs.model_validate({"json": _MANY}), "", JsonOptions()),
    ],
    ids=["call", "tool", "call over HTTP", "schema over HTTP"],
)
def test_a_text_of_many_values_is_refused_before_it_is_parsed(parse: Callable[[], object]) -> None:
    with pytest.raises(LimitExceededError, match=f"more than {MAX_TEXT_VALUES} values"):
        parse()


def test_signs_inside_of_strings_are_no_values() -> None:
    text = ('{"a":"' + "[,:{" * MAX_TEXT_VALUES + '"}').encode()
    assert not has_more_values(text, 2)
    assert has_more_values(text, 1)
    written_arguments(text.decode(), "c", "messages")
