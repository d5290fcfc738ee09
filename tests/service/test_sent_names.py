"""Errors over HTTP name the fields that the caller sent, wherever they are found."""

from __future__ import annotations

from typing import Any

import pytest

from guided.errors import LimitExceededError, RequestError
from guided_service.config import ServerConfig
from guided_service.http.anthropic_request import read_count, read_message
from guided_service.http.errors import refusal_of
from guided_service.http.sent_names import named_as_sent
from guided_service.http.token_requests import read_prompted
from tests.service.test_http_fields import asked, refusal

USER = {"role": "user", "content": "Hi"}
BEGUN: dict[str, Any] = {
    "messages": [USER, {"role": "assistant", "content": "He"}],
    "continue_final_message": True,
}


def told_of(error: RequestError, came_from: Any = None) -> Any:
    return refusal_of(error, 0.5, came_from).body["error"]


@pytest.mark.parametrize(
    ("face", "fields", "param", "told"),
    [
        (
            "chat",
            {**BEGUN, "reasoning_effort": "low"},
            "reasoning_effort",
            "a message that has begun comes after its thoughts; leave reasoning_effort out, or set "
            "it to none or 0",
        ),
        (
            "chat",
            {**BEGUN, "chat_template_kwargs": {"thinking": True}},
            "chat_template_kwargs.thinking",
            "a message that has begun comes after its thoughts; leave "
            "chat_template_kwargs.thinking out, or set it to false",
        ),
        (
            "chat",
            {"n": 2, "temperature": 0},
            "temperature",
            "2 answers of temperature 0 are all the same; set a temperature, or ask for beams",
        ),
        ("completions", {"prompt": ["a", ""]}, "prompt", "the prompt is empty"),
    ],
)
def test_an_error_of_a_request_names_the_field_of_its_body(
    face: str, fields: dict[str, Any], param: str, told: str
) -> None:
    error = refusal(face, **fields)
    assert (error.field, str(error)) == (param, told)
    body = told_of(error)
    assert (body["param"], body["message"]) == (param, told)


def test_errors_of_the_engine_name_the_fields_of_anthropic() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [USER]}
    came_from = read_message(body, ServerConfig()).came_from
    for ours, sent in [
        ("stop", "stop_sequences"),
        ("prompt", "messages"),
        ("reasoning", "thinking"),
    ]:
        assert told_of(RequestError("no", field=ours), came_from)["param"] == sent


def test_an_error_of_a_prompt_whose_tokens_are_asked_for_names_the_field() -> None:
    with pytest.raises(RequestError) as caught:
        read_prompted({"messages": [USER], "continue_final_message": True})
    assert caught.value.field == "continue_final_message"
    counted = read_count({"model": "m", "messages": [USER]})
    assert told_of(RequestError("no", field="prompt"), counted.came_from)["param"] == "messages"


@pytest.mark.parametrize("face", ["chat", "completions", "responses"])
@pytest.mark.parametrize(
    ("ours", "sent"),
    [
        ("stop_tokens", "stop_token_ids"),
        ("include_stop", "include_stop_str_in_output"),
        ("stop", "stop"),
        ("sampling.logit_bias", "logit_bias"),
    ],
)
def test_errors_of_the_engine_name_fields_about_stops(face: str, ours: str, sent: str) -> None:
    error = RequestError(f"{ours} names token 300, but the model has 256 tokens", field=ours)
    body = told_of(error, asked(face).came_from)
    assert body["param"] == sent
    if ours == "stop_tokens":
        assert body["message"].startswith("stop_token_ids names token 300")


def test_log_probabilities_have_another_name_in_completions() -> None:
    error = RequestError("too many", field="top_logprobs")
    assert told_of(error, asked("completions").came_from)["param"] == "logprobs"
    assert told_of(error, asked("chat").came_from)["param"] == "top_logprobs"


def test_a_renamed_error_keeps_its_kind_and_its_facts() -> None:
    with (
        pytest.raises(LimitExceededError, match="max_output_tokens is 5") as caught,
        named_as_sent({"max_tokens": "max_output_tokens"}),
    ):
        raise LimitExceededError("max_tokens is 5", limit=4, field="max_tokens", hint="less")
    assert (caught.value.field, caught.value.limit) == ("max_output_tokens", 4)
    assert str(caught.value) == "max_output_tokens is 5; less"
