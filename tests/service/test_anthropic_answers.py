"""Answers of ``POST /v1/messages``: blocks, events in their order, and why they ended."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from guided.spec import FinishReason, GenerationResult
from guided.spec.result import Usage
from guided_service.http.asked import Form, Shown
from tests.service.test_anthropic_requests import FORMAT, TOOL, asked

SHOWN = Shown("msg_1", 0, "m", context_window=50)
USAGE = Usage(
    prompt_tokens=10,
    reused_tokens=4,
    sampled_tokens=5,
    forced_tokens=2,
    reasoning_tokens=3,
    model_calls=6,
)
TOLD_USAGE = {
    "input_tokens": 6,
    "cache_read_input_tokens": 4,
    "cache_creation_input_tokens": 0,
    "output_tokens": 7,
    "output_tokens_details": {"thinking_tokens": 3},
    "guided": {"forced_tokens": 2, "sampled_tokens": 5, "model_calls": 6},
}
HI = '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>'
CUT = '<tool_call>\n{"name": "f", "arguments": {"a":'
THINKS = {"thinking": {"type": "adaptive"}}
TOOLS: dict[str, Any] = {"tools": [TOOL]}
NAMED: dict[str, Any] = {**TOOLS, "tool_choice": {"type": "tool", "name": "f"}}
SHAPED = {"output_config": {"format": FORMAT}}


def result(
    text: str,
    reason: FinishReason = FinishReason.STOP,
    *,
    reasoning: str = "",
    stop_string: str = "",
) -> GenerationResult:
    return GenerationResult(
        text, (), reason, USAGE, 0.0, reasoning=reasoning, stop_string=stop_string
    )


def form_of(**fields: Any) -> Form:
    return asked(**fields).form(SHOWN)


def whole(answer: GenerationResult, **fields: Any) -> dict[str, Any]:
    """The body of an answer, as it is sent."""
    told: dict[str, Any] = json.loads(msgspec.json.encode(form_of(**fields).whole(answer)))
    for block in told["content"]:
        if block["type"] == "tool_use":
            assert block.pop("id").startswith("toolu_")
    return told


def events(answer: GenerationResult, **fields: Any) -> list[dict[str, Any]]:
    """The events of an answer whose text grows by single characters."""
    form = form_of(**fields)
    sent = [form.thought(each) for each in answer.reasoning]
    sent += [form.grown(each) for each in answer.text]
    found = []
    for block in (b"".join(sent) + form.ended(answer)).decode().strip().split("\n\n"):
        name, _, data = block.partition("\ndata: ")
        found.append(json.loads(data))
        assert name == f"event: {found[-1]['type']}"
    return found


def drawn(found: list[dict[str, Any]]) -> list[str]:
    """Events in a line each, with those of one text joined."""
    lines: list[str] = []
    for each in found:
        match each["type"]:
            case "content_block_start":
                block = each["content_block"]
                lines.append(f"{each['index']} {block['type']} {block.get('name', '')}".strip())
            case "content_block_delta":
                kind, *texts = each["delta"].values()
                begin = f"{each['index']} {kind}: "
                if lines[-1].startswith(begin):
                    lines[-1] += texts[0]
                else:
                    lines.append(begin + texts[0])
            case "content_block_stop":
                lines.append(f"{each['index']} stop")
            case kind:
                lines.append(kind)
    return lines


TEXT = {"type": "text", "text": "ab"}
USE = {"type": "tool_use", "name": "f", "input": {"a": 1}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "unsigned"}


@pytest.mark.parametrize(
    ("fields", "answer", "content", "lines"),
    [
        ({}, result("ab"), [TEXT], ["0 text", "0 text_delta: ab", "0 stop"]),
        ({}, result(""), [{"type": "text", "text": ""}], ["0 text", "0 stop"]),
        (
            THINKS,
            result("ab", reasoning="hm"),
            [THOUGHT, TEXT],
            [
                "0 thinking",
                "0 thinking_delta: hm",
                "0 signature_delta: unsigned",
                "0 stop",
                "1 text",
                "1 text_delta: ab",
                "1 stop",
            ],
        ),
        (
            THINKS,
            result("", FinishReason.LENGTH, reasoning="hm"),
            [THOUGHT, {"type": "text", "text": ""}],
            [
                "0 thinking",
                "0 thinking_delta: hm",
                "0 signature_delta: unsigned",
                "0 stop",
                "1 text",
                "1 stop",
            ],
        ),
        (
            TOOLS,
            result(f"ab\n{HI}"),
            [TEXT, USE],
            [
                "0 text",
                "0 text_delta: ab",
                "0 stop",
                "1 tool_use f",
                '1 input_json_delta: {"a":1}',
                "1 stop",
            ],
        ),
        (
            TOOLS | THINKS,
            result(f"{HI}\n{HI}", reasoning="hm"),
            [THOUGHT, USE, USE],
            [
                "0 thinking",
                "0 thinking_delta: hm",
                "0 signature_delta: unsigned",
                "0 stop",
                "1 tool_use f",
                '1 input_json_delta: {"a":1}',
                "1 stop",
                "2 tool_use f",
                '2 input_json_delta: {"a":1}',
                "2 stop",
            ],
        ),
        (
            TOOLS | {"stop_sequences": ["1"]},
            result(f"ab\n{CUT}", FinishReason.STOP_SEQUENCE, stop_string="1"),
            [TEXT],
            [
                "0 text",
                "0 text_delta: ab",
                "0 stop",
                "1 tool_use f",
                '1 input_json_delta: {"a":',
                "1 stop",
            ],
        ),
    ],
    ids=["text", "nothing", "thoughts", "only-thoughts", "call", "calls", "broken-call"],
)
def test_blocks_are_the_same_whole_and_in_a_stream(
    fields: dict[str, Any],
    answer: GenerationResult,
    content: list[dict[str, Any]],
    lines: list[str],
) -> None:
    told = whole(answer, **fields)
    assert told["content"] == content
    found = events(answer, **fields)
    assert drawn(found) == ["message_start", "ping", *lines, "message_delta", "message_stop"]
    begun, ended = found[0]["message"], found[-2]
    assert begun == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    assert ended["usage"] == told["usage"] == TOLD_USAGE
    assert ended["guided"] == told["guided"]
    assert ended["delta"] == {name: told[name] for name in ("stop_reason", "stop_sequence")}
    assert (told["id"], told["type"], told["role"], told["model"]) == (
        "msg_1",
        "message",
        "assistant",
        "m",
    )


R = FinishReason


@pytest.mark.parametrize(
    ("fields", "text", "reason", "stop", "ended"),
    [
        ({}, "ab", R.STOP, "", "end_turn"),
        ({"max_tokens": 7}, "ab", R.LENGTH, "", "max_tokens"),
        ({}, "ab", R.LENGTH, "", "model_context_window_exceeded"),
        ({}, "ab", R.DEADLINE, "", "max_tokens"),
        ({}, "ab", R.STOP_SEQUENCE, "c", "stop_sequence"),
        ({}, "ab", R.STOP_SEQUENCE, "", "stop_sequence"),  # a stop token
        (SHAPED, '{"a":1}', R.COMPLETE, "", "end_turn"),
        (SHAPED, '{"a":0}', R.LENGTH_CLOSED, "", "end_turn"),
        (SHAPED, '{"a":', R.STOP_SEQUENCE, "1", "stop_sequence"),
        (TOOLS, "ab", R.STOP, "", "end_turn"),
        (TOOLS | {"max_tokens": 7}, "ab", R.LENGTH, "", "max_tokens"),
        (TOOLS | {"max_tokens": 30}, "ab", R.LENGTH_CLOSED, "", "max_tokens"),
        (TOOLS, "ab", R.LENGTH_CLOSED, "", "model_context_window_exceeded"),
        (TOOLS, HI, R.STOP, "", "tool_use"),
        (TOOLS, HI, R.LENGTH_CLOSED, "", "max_tokens"),
        (NAMED, HI, R.LENGTH_CLOSED, "", "tool_use"),
        (TOOLS, f"{HI}\nab", R.STOP_SEQUENCE, "c", "tool_use"),
        (TOOLS, CUT, R.STOP_SEQUENCE, "1", "stop_sequence"),
    ],
)
def test_why_an_answer_ended(
    fields: dict[str, Any], text: str, reason: FinishReason, stop: str, ended: str
) -> None:
    told = whole(result(text, reason, stop_string=stop), **fields)
    is_stopped = ended == "stop_sequence"
    assert told["stop_reason"] == ended
    assert told["stop_sequence"] == ((stop or None) if is_stopped else None)
    assert told["guided"] == {"finish_reason": reason.value}


def test_an_input_keeps_the_digits_that_the_model_wrote() -> None:
    written = HI.replace("1", "1.50")
    sent = msgspec.json.encode(form_of(**TOOLS).whole(result(written)))
    assert b'"input":{"a":1.50}' in sent


def test_a_report_comes_with_the_end() -> None:
    report: dict[str, object] = {"shortest_answer": "{}"}
    form = form_of(**SHAPED)
    told = form.whole(result("{}"), report)
    assert told["guided"] == {"finish_reason": "stop", "report": report}
    assert b'"report":{"shortest_answer":"{}"}' in form_of(**SHAPED).ended(result("{}"), report)
