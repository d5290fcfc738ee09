"""Which requests continue a text, and what they are refused for."""

from __future__ import annotations

from typing import Any

import pytest

from guided.errors import RequestError
from guided.spec import GenerationRequest, JsonSchema, Message, Reasoning, Tool, ToolCall, ToolUse

USER = Message("user", "Hi")
BEGUN = Message("assistant", '{"a"')
CALLING = Message("assistant", "x", (ToolCall("f", "{}", "1"),))
TOOLS = ToolUse((Tool("f"),))


@pytest.mark.parametrize(
    ("prompt", "options", "begun"),
    [
        ((USER, BEGUN), {"continue_final_message": True}, '{"a"'),
        ((BEGUN,), {"continue_final_message": True, "heal": False}, '{"a"'),
        ((USER, BEGUN), {"continue_final_message": True, "reasoning": Reasoning(0)}, '{"a"'),
        (
            (USER, BEGUN),
            {
                "continue_final_message": True,
                "constraint": JsonSchema("{}"),
                "show_schema": True,
            },
            '{"a"',
        ),
        ((USER, BEGUN), {}, ""),
        ((USER,), {"heal": False}, ""),
        ("Hi", {"heal": True}, ""),
        ("Hi", {"heal": True, "constraint": JsonSchema("{}")}, ""),
    ],
)
def test_a_request_knows_what_it_continues(prompt: Any, options: Any, begun: str) -> None:
    assert GenerationRequest(prompt, **options).begun == begun


@pytest.mark.parametrize(
    ("prompt", "options", "field", "message"),
    [
        (
            "Hi",
            {"continue_final_message": True},
            "continue_final_message",
            "continue_final_message needs messages; a plain text is continued in any case",
        ),
        (
            (USER,),
            {"continue_final_message": True},
            "continue_final_message",
            "the last message has the role 'user', and only the assistant's is continued",
        ),
        (
            (USER, CALLING),
            {"continue_final_message": True},
            "continue_final_message",
            "the last message ends with calls of tools, after which nothing is continued",
        ),
        (
            (USER, Message("assistant", " \n")),
            {"continue_final_message": True},
            "continue_final_message",
            "the last message is empty, so there is nothing to continue",
        ),
        (
            (USER, BEGUN),
            {"continue_final_message": True, "tools": TOOLS},
            "continue_final_message",
            "a message that may call tools is not continued: a call in it may have begun",
        ),
        (
            (USER, BEGUN),
            {"continue_final_message": True, "reasoning": Reasoning(20)},
            "reasoning",
            "a message that has begun comes after its thoughts",
        ),
        (
            (USER,),
            {"heal": True},
            "heal",
            "heal is for texts that are continued, and this conversation is answered",
        ),
        (
            "Hi",
            {"heal": True, "reasoning": Reasoning(20)},
            "heal",
            "heal is for texts that the answer continues, and here thoughts come between",
        ),
    ],
)
def test_what_cannot_be_continued_is_refused(
    prompt: Any, options: Any, field: str, message: str
) -> None:
    with pytest.raises(RequestError) as refused:
        GenerationRequest(prompt, **options)
    assert refused.value.message == message
    assert refused.value.field == field
    assert refused.value.hint
