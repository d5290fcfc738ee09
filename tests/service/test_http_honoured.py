"""Fields over HTTP that are honoured: each changes the request or its form, or is listed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from guided.spec import FinishReason, GenerationResult, Usage
from guided_service.http.asked import Asked, Shown
from tests.service.test_http_fields import FACES, FLAT_TOOL, SCHEMA, TOOL, asked

IGNORED = {
    "metadata",
    "modalities",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
}
"""Fields that are accepted and have no effect here; docs/openai.md says why for each."""

COMMON: dict[str, dict[str, Any]] = {
    "model": {"model": "other"},
    "stream": {"stream": True},
    "seed": {"seed": 7},
    "temperature": {"temperature": 0.5},
    "top_p": {"top_p": 0.5},
    "frequency_penalty": {"frequency_penalty": 0.5},
    "presence_penalty": {"presence_penalty": 0.5},
    "logit_bias": {"logit_bias": {"5": -100}},
    "stop": {"stop": "end"},
    "n": {"n": 2},
    "top_k": {"top_k": 5},
    "min_p": {"min_p": 0.1},
    "repetition_penalty": {"repetition_penalty": 1.1},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 3},
    "stop_token_ids": {"stop_token_ids": [5]},
    "priority": {"priority": 3},
    "cache_salt": {"cache_salt": "salt"},
    "include_stop_str_in_output": {"stop": "end", "include_stop_str_in_output": True},
    "skip_special_tokens": {"skip_special_tokens": True},
    "spaces_between_special_tokens": {"spaces_between_special_tokens": True},
    "use_beam_search": {"use_beam_search": False},
    "ignore_eos": {"ignore_eos": True},
    "min_tokens": {"min_tokens": 3},
    "metadata": {"metadata": {"a": "b"}},
    "prompt_cache_key": {"prompt_cache_key": "x"},
    "safety_identifier": {"safety_identifier": "x"},
    "service_tier": {"service_tier": "auto"},
    "store": {"store": False},
    "user": {"user": "x"},
}
THOUGHTS: dict[str, dict[str, Any]] = {
    "max_reasoning_tokens": {"max_reasoning_tokens": 20},
    "thinking_token_budget": {"thinking_token_budget": 20},
    "chat_template_kwargs": {"chat_template_kwargs": {"enable_thinking": True}},
}
OWN: dict[str, dict[str, Any]] = {
    "json_options": {"guided_json": SCHEMA, "json_options": {"whitespace": 1}},
    "on_incomplete": {"on_incomplete": "error"},
    "report": {"guided_json": SCHEMA, "report": True},
}
CONSTRAINTS: dict[str, dict[str, Any]] = {
    "response_format": {"response_format": {"type": "json_object"}},
    "structured_outputs": {"structured_outputs": {"regex": "a"}},
    "guided_json": {"guided_json": SCHEMA},
    "guided_regex": {"guided_regex": "a"},
    "guided_choice": {"guided_choice": ["a"]},
    "guided_grammar": {"guided_grammar": 'start: "a"'},
}
EXAMPLES: dict[str, dict[str, dict[str, Any]]] = {
    "chat": COMMON
    | OWN
    | CONSTRAINTS
    | THOUGHTS
    | {
        "messages": {"messages": [{"role": "developer", "content": "x"}]},
        "max_tokens": {"max_tokens": 5},
        "max_completion_tokens": {"max_completion_tokens": 5},
        "stream_options": {"stream": True, "stream_options": {"include_usage": True}},
        "logprobs": {"logprobs": True},
        "top_logprobs": {"logprobs": True, "top_logprobs": 2},
        "tools": {"tools": [TOOL]},
        "tool_choice": {"tools": [TOOL], "tool_choice": "required"},
        "parallel_tool_calls": {"tools": [TOOL], "parallel_tool_calls": False},
        "modalities": {"modalities": ["text"]},
        "show_schema": {"guided_json": SCHEMA, "show_schema": True},
        "reasoning_effort": {"reasoning_effort": "low"},
        "add_generation_prompt": {"add_generation_prompt": True},
        "continue_final_message": {
            "messages": [{"role": "assistant", "content": "x"}],
            "continue_final_message": True,
        },
        "heal": {
            "messages": [{"role": "assistant", "content": "x"}],
            "continue_final_message": True,
            "heal": False,
        },
    },
    "completions": COMMON
    | OWN
    | CONSTRAINTS
    | {
        "prompt": {"prompt": ["other"]},
        "max_tokens": {"max_tokens": 5},
        "best_of": {"best_of": 2},
        "logprobs": {"logprobs": 2},
        "echo": {"echo": True},
        "heal": {"heal": True},
        "stream_options": {"stream": True, "stream_options": {"include_usage": True}},
    },
    "responses": COMMON
    | THOUGHTS
    | {
        "n": {"n": 1},
        "input": {"input": [{"role": "user", "content": "other"}]},
        "instructions": {"instructions": "Be kind."},
        "max_output_tokens": {"max_output_tokens": 5},
        "text": {"text": {"format": {"type": "json_object"}}},
        "tools": {"tools": [FLAT_TOOL]},
        "tool_choice": {"tools": [FLAT_TOOL], "tool_choice": "required"},
        "parallel_tool_calls": {"tools": [FLAT_TOOL], "parallel_tool_calls": False},
        "top_logprobs": {"top_logprobs": 2},
        "include": {"include": ["message.output_text.logprobs"]},
        "stream_options": {"stream": True, "stream_options": {"include_obfuscation": False}},
        "truncation": {"truncation": "disabled"},
        "background": {"background": False},
        "json_options": {
            "text": {"format": {"type": "json_object"}},
            "json_options": {"whitespace": 1},
        },
        "report": {"text": {"format": {"type": "json_object"}}, "report": True},
        "on_incomplete": OWN["on_incomplete"],
        "reasoning": {"reasoning": {"effort": "low"}},
    },
}
OF_ALL = {
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "use_beam_search",
}
NEUTRAL = {
    "chat": OF_ALL | {"add_generation_prompt"},
    "responses": OF_ALL | {"n", "truncation", "background", "stream_options"},
    "completions": OF_ALL,
}
"""Fields of which only the value that changes nothing is accepted."""
RESULT = GenerationResult("x", (), FinishReason.STOP, Usage(), 1.0)
SHOWN = Shown("id", 0, "m")


def seen(one: Asked) -> tuple[object, ...]:
    """Everything that a request leads to, except values drawn at random."""
    body = re.sub(r"msg_[0-9a-f]+", "msg", str(one.form(SHOWN).whole(RESULT)))
    events = re.sub(rb"msg_[0-9a-f]+", b"msg", one.form(SHOWN).ended(RESULT))
    return one.model, one.request, one.is_streamed, body, events


@pytest.mark.parametrize(
    ("face", "name"),
    [(face, name) for face, (kind, *_) in FACES.items() for name in sorted(kind.model_fields)],
)
def test_a_field_that_is_taken_is_honoured(face: str, name: str) -> None:
    fields = EXAMPLES[face][name]
    # Fields that it depends on are given in both.
    beside = {key: value for key, value in fields.items() if key != name}
    is_same = seen(asked(face, **fields)) == seen(asked(face, **beside))
    again = {"metadata", "prompt_cache_key", "safety_identifier", "user"}
    ignored = IGNORED - (again if face == "responses" else set())
    assert is_same == (name in ignored | NEUTRAL[face])


def test_the_page_tells_of_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "openai.md").read_text("utf-8")
    for kind, *_ in FACES.values():
        for name in kind.model_fields:
            assert f"`{name}`" in page, name
