"""Fields of requests over HTTP: each is honoured or named in an error; none is ignored silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import pytest
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params
from openai.types.responses import response_create_params

from guided.errors import RequestError
from guided.spec import JsonSchema
from guided_service.config import ServerConfig
from guided_service.http.asked import Asked
from guided_service.http.chat_request import ChatRequest, read_chat
from guided_service.http.completions import CompletionRequest, read_completion
from guided_service.http.fields import GenerationFields
from guided_service.http.response_request import ResponseRequest, read_response

Read = Callable[[dict[str, Any], ServerConfig], Asked]

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
COMPLETION: dict[str, Any] = {"model": "m", "prompt": "Hi"}
RESPONSE: dict[str, Any] = {"model": "m", "input": "Hi"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
FLAT_TOOL: dict[str, Any] = {"type": "function", "name": "f", "parameters": SCHEMA}

FACES: dict[str, tuple[type[GenerationFields], Read, dict[str, Any], Any]] = {
    "chat": (ChatRequest, read_chat, CHAT, chat_create_params.CompletionCreateParamsStreaming),
    "completions": (
        CompletionRequest,
        read_completion,
        COMPLETION,
        completion_create_params.CompletionCreateParamsStreaming,
    ),
    "responses": (
        ResponseRequest,
        read_response,
        RESPONSE,
        response_create_params.ResponseCreateParamsStreaming,
    ),
}


def asked(face: str, **fields: Any) -> Asked:
    _, read, base, _ = FACES[face]
    return read({**base, **fields}, ServerConfig())


def refusal(face: str, **fields: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        asked(face, **fields)
    return caught.value


# Fields of OpenAI's that we lack


def _strange() -> Iterator[tuple[str, str]]:
    for face, (kind, _, _, params) in FACES.items():
        for name in sorted(set(get_type_hints(params)) - set(kind.model_fields)):
            yield face, name


@pytest.mark.parametrize(("face", "name"), [*_strange()])
def test_a_field_of_openai_that_is_not_honoured_is_an_error_that_names_it(
    face: str, name: str
) -> None:
    error = refusal(face, **{name: "something"})
    assert error.field == name
    assert str(error).startswith(f"{name} is not honoured by this server; ")


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", ["best_off", "guided_decoding_backend", "response_fromat"])
def test_fields_of_nobody_and_those_of_others_are_errors(face: str, name: str) -> None:
    assert refusal(face, **{name: 1}).field == name


@pytest.mark.parametrize("face", FACES)
def test_null_says_nothing(face: str) -> None:
    names = set(get_type_hints(FACES[face][3])) | {"best_off"}
    nothing = dict.fromkeys(names - FACES[face][2].keys())
    assert asked(face, **nothing).request == asked(face).request


def test_null_says_nothing_inside_of_others() -> None:
    turn = {"role": "user", "content": "Hi", "name": None, "mood": None}
    schema = {"name": "x", "schema": {"default": None}, "strict": None, "mood": None}
    form = {"type": "json_schema", "json_schema": schema, "mood": None}
    constraint = asked("chat", messages=[turn], response_format=form).request.constraint
    assert constraint == JsonSchema('{"default":null}')
    with pytest.raises(RequestError, match=r"messages\[0\].content is missing"):
        asked("chat", messages=[{"role": "user", "content": None}])


# Fields that ask for unsupported features

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("chat", {"store": True}, "store"),
    ("chat", {"service_tier": "flex"}, "service_tier"),
    ("chat", {"modalities": ["text", "audio"]}, "modalities[1]"),
    ("chat", {"stream_options": {"include_usage": True}}, "stream_options"),
    ("chat", {"stream": True, "stream_options": {"x": 1}}, "stream_options.x"),
    ("chat", {"top_logprobs": 3}, "top_logprobs"),
    ("chat", {"logprobs": 5}, "logprobs"),
    ("chat", {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ("chat", {"max_tokens": 5, "max_completion_tokens": 6}, "max_completion_tokens"),
    ("chat", {"max_tokens": 0}, "max_tokens"),
    ("chat", {"reasoning_effort": "utmost"}, "reasoning_effort"),
    ("chat", {"reasoning_effort": "low", "max_reasoning_tokens": 9}, "reasoning_effort"),
    ("chat", {"max_tokens": 9, "max_reasoning_tokens": 9}, "max_reasoning_tokens"),
    ("chat", {"max_reasoning_tokens": -1}, "max_reasoning_tokens"),
    ("chat", {"max_tokens": 9, "thinking_token_budget": 9}, "thinking_token_budget"),
    ("chat", {"thinking_token_budget": -1}, "thinking_token_budget"),
    (
        "chat",
        {"max_reasoning_tokens": 4, "thinking_token_budget": 5},
        "thinking_token_budget",
    ),
    ("chat", {"thinking_token_budget": 5, "reasoning_effort": "low"}, "reasoning_effort"),
    (
        "chat",
        {"chat_template_kwargs": {"enable_thinking": True, "tools_in_user_message": False}},
        "chat_template_kwargs.tools_in_user_message",
    ),
    ("chat", {"chat_template_kwargs": {"thinking": 0}}, "chat_template_kwargs.thinking"),
    (
        "chat",
        {"chat_template_kwargs": {"enable_thinking": True, "thinking": False}},
        "chat_template_kwargs",
    ),
    (
        "chat",
        {"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "low"},
        "chat_template_kwargs.enable_thinking",
    ),
    (
        "responses",
        {"chat_template_kwargs": {"thinking": True}, "thinking_token_budget": 0},
        "chat_template_kwargs.thinking",
    ),
    ("chat", {"ignore_eos": 1}, "ignore_eos"),
    ("chat", {"min_tokens": 6, "max_tokens": 5}, "min_tokens"),
    ("responses", {"min_tokens": -1}, "min_tokens"),
    ("chat", {"skip_special_tokens": False}, "skip_special_tokens"),
    ("chat", {"use_beam_search": True}, "use_beam_search"),
    ("chat", {"add_generation_prompt": False}, "add_generation_prompt"),
    ("chat", {"continue_final_message": True}, "continue_final_message"),
    (
        "chat",
        {"response_format": {"type": "structural_tag", "format": {"type": "any"}}},
        "response_format",
    ),
    (
        "chat",
        {"response_format": {"type": "structural_tag", "format": {"type": "any_text"}, "x": 1}},
        "response_format.x",
    ),
    ("chat", {"max_tokens": "5"}, "max_tokens"),
    ("chat", {"max_tokens": True}, "max_tokens"),
    ("chat", {"temperature": 2.5}, "temperature"),
    ("chat", {"top_p": 0}, "top_p"),
    ("chat", {"presence_penalty": 3}, "presence_penalty"),
    ("chat", {"seed": -1}, "seed"),
    ("chat", {"n": 2, "temperature": 0}, "temperature"),
    ("chat", {"stop": ["a"] * 65}, "stop"),
    ("chat", {"stop": ""}, "stop"),
    ("chat", {"logit_bias": {"x": 1}}, "logit_bias"),
    ("chat", {"messages": []}, "messages"),
    ("chat", {"messages": "Hi"}, "messages"),
    ("chat", {"messages": [{"role": "critic", "content": "x"}]}, "messages[0].role"),
    ("chat", {"messages": [{"role": "user"}]}, "messages[0].content"),
    ("chat", {"messages": [{"role": "user", "content": "x", "mood": 1}]}, "messages[0].mood"),
    (
        "chat",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0].type",
    ),
    (
        "chat",
        {"messages": [{"role": "tool", "content": "x", "tool_call_id": "a"}]},
        "messages[0].tool_call_id",
    ),
    ("chat", {"tools": [{"type": "computer", "computer": {"name": "f"}}]}, "tools[0].type"),
    ("chat", {"tools": [{**TOOL, "x": 1}]}, "tools[0].x"),
    ("chat", {"tools": [TOOL, TOOL]}, "tools"),
    ("chat", {"tools": [TOOL] * 129}, "tools"),
    ("chat", {"tool_choice": "required"}, "tool_choice"),
    ("chat", {"tools": [TOOL], "tool_choice": "perhaps"}, "tool_choice"),
    (
        "chat",
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        "tool_choice",
    ),
    (
        "chat",
        {"tools": [{**TOOL, "function": {"name": "f", "parameters": {"type": "array"}}}]},
        "tools[0].function.parameters",
    ),
    ("chat", {"tools": [TOOL], "guided_regex": "a"}, "guided_regex"),
    ("chat", {"response_format": {"type": "xml"}}, "response_format.type"),
    (
        "chat",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        "response_format.json_schema.schema",
    ),
    ("chat", {"response_format": {"type": "json_object"}, "guided_regex": "a"}, "guided_regex"),
    (
        "chat",
        {"response_format": {"type": "json_schema", "schema": {}, "json_schema": {"name": "x"}}},
        "response_format",
    ),
    ("chat", {"response_format": {"type": "json_schema"}}, "response_format"),
    ("chat", {"guided_json": SCHEMA, "guided_choice": ["a"]}, "guided_choice"),
    ("chat", {"structured_outputs": {}}, "structured_outputs"),
    ("chat", {"structured_outputs": {"regex": "a", "json": {}}}, "structured_outputs"),
    (
        "chat",
        {"structured_outputs": {"regex": "a", "whitespace_pattern": " "}},
        "structured_outputs.whitespace_pattern",
    ),
    ("chat", {"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
    (
        "chat",
        {"structured_outputs": {"structural_tag": '{"type": "structural_tag", "format": {}}'}},
        "structured_outputs.structural_tag",
    ),
    ("chat", {"show_schema": True}, "show_schema"),
    (
        "chat",
        {"messages": [{"role": "user", "content": [{"type": "refusal", "refusal": "x"}]}]},
        "messages[0].content[0].type",
    ),
    (
        "chat",
        {"messages": [{"role": "assistant", "content": "Yes.", "refusal": "No."}]},
        "messages[0].refusal",
    ),
    (
        "chat",
        {
            "messages": [
                {"role": "user", "content": "I am Ada.", "name": "Ada"},
                {"role": "assistant", "content": "So?", "name": "Bob"},
                {"role": "user", "content": "And I am not.", "name": "Eve"},
            ]
        },
        "messages[2].name",
    ),
    (
        "chat",
        {
            "messages": [
                {"role": "system", "content": "Hi", "name": "example_user"},
                {"role": "developer", "content": "Ho", "name": "example_assistant"},
            ]
        },
        "messages[1].name",
    ),
    (
        "chat",
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
                },
                {"role": "tool", "content": "x", "tool_call_id": "1", "name": "g"},
            ]
        },
        "messages[1].name",
    ),
    (
        "chat",
        {"tools": [TOOL], "tool_choice": {"type": "custom", "custom": {"name": "f"}}},
        "tool_choice",
    ),
    (
        "chat",
        {
            "tools": [TOOL],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "g"}}],
                },
            },
        },
        "tool_choice",
    ),
    (
        "chat",
        {
            "tools": [TOOL],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": []},
            },
        },
        "tool_choice.allowed_tools.tools",
    ),
    (
        "completions",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": SCHEMA, "description": "A thing."},
            }
        },
        "response_format.json_schema.description",
    ),
    ("completions", {"echo": 1}, "echo"),
    ("completions", {"prompt": []}, "prompt"),
    ("completions", {"prompt": [-1]}, "prompt[0]"),
    ("completions", {"prompt": [1, "2"]}, "prompt[1]"),
    ("completions", {"best_of": 1, "n": 2}, "best_of"),
    ("completions", {"logprobs": True}, "logprobs"),
    ("responses", {"n": 2}, "n"),
    ("responses", {"background": True}, "background"),
    ("responses", {"truncation": "auto"}, "truncation"),
    ("responses", {"include": ["file_search_call.results"]}, "include[0]"),
    (
        "responses",
        {
            "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
            "reasoning": {"effort": "low"},
        },
        "include[1]",
    ),
    ("responses", {"stream_options": {"include_obfuscation": False}}, "stream_options"),
    (
        "responses",
        {"stream": True, "stream_options": {"include_obfuscation": True}},
        "stream_options.include_obfuscation",
    ),
    (
        "responses",
        {"stream": True, "stream_options": {"include_usage": True}},
        "stream_options.include_usage",
    ),
    (
        "responses",
        {"input": [{"role": "assistant", "content": "Hm.", "phase": "commentary"}]},
        "input[0].phase",
    ),
    (
        "responses",
        {"input": [{"type": "function_call_output", "call_id": "1", "output": "x"}]},
        "input[0].call_id",
    ),
    (
        "responses",
        {"input": [{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{"}]},
        "input[0].arguments",
    ),
    ("responses", {"tools": [FLAT_TOOL], "tool_choice": {"type": "custom"}}, "tool_choice.name"),
    (
        "responses",
        {
            "tools": [FLAT_TOOL],
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "mcp", "server_label": "x"}],
            },
        },
        "tool_choice.tools[0].type",
    ),
    ("responses", {"text": {"verbosity": "low"}}, "text.verbosity"),
    ("responses", {"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ("responses", {"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
    (
        "responses",
        {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]},
        "input[0].encrypted_content",
    ),
    ("responses", {"input": [{"type": "function_call", "call_id": "1"}]}, "input[0].name"),
    ("responses", {"reasoning": {"effort": "utmost"}}, "reasoning.effort"),
    ("responses", {"reasoning": {"summary": "concise"}}, "reasoning.summary"),
    ("responses", {"reasoning": {"summary": "auto"}}, "reasoning.summary"),
    ("responses", {"reasoning": {"mode": "pro"}}, "reasoning.mode"),
    (
        "responses",
        {"reasoning": {"effort": "low"}, "max_reasoning_tokens": 9},
        "reasoning.effort",
    ),
    ("responses", {"max_output_tokens": 9, "max_reasoning_tokens": 9}, "max_reasoning_tokens"),
    ("responses", {"tool_choice": "required"}, "tool_choice"),
]  # fmt: skip


@pytest.mark.parametrize(("face", "fields", "named"), REFUSED)
def test_what_is_not_done_is_an_error_that_names_the_field(
    face: str, fields: dict[str, Any], named: str
) -> None:
    error = refusal(face, **fields)
    assert error.field is not None
    assert error.field.removeprefix("sampling.") == named
    assert "pydantic" not in str(error).lower()
    assert "\n" not in str(error)


def test_a_missing_field_is_named() -> None:
    for _, read, base, _ in FACES.values():
        for name in base:
            with pytest.raises(RequestError, match=f"{name} is missing"):
                read({key: base[key] for key in base if key != name}, ServerConfig())
