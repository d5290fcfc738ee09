"""All fields of ``POST /v1/messages``, and those of ``anthropic`` that it does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guided.spec import (
    FinishReason,
    GenerationResult,
    Usage,
)
from guided_service.http.anthropic_request import (
    MessageRequest,
)
from guided_service.http.asked import Asked, Shown
from tests.service.test_anthropic_requests import (
    BASE,
    FORMAT,
    TOOL,
    asked,
    refusal,
)

ANTHROPICS = {
    "messages.create": {
        *("max_tokens", "messages", "model", "cache_control", "container", "diagnostics"),
        *("inference_geo", "metadata", "output_config", "service_tier", "speed"),
        *("stop_sequences", "system", "thinking", "tool_choice", "tools", "stream"),
        *("temperature", "top_p", "top_k"),
    },
    "beta.messages.create": {
        *("prefill", "billing_policy", "compaction", "context_management", "fallbacks"),
        *("fallback_credit_token", "mcp_servers", "output_format", "thread"),
    },
}
"""The fields of bodies that the package ``anthropic`` 2.14.0 sends."""


@pytest.mark.parametrize(
    "name", sorted(set().union(*ANTHROPICS.values()) - set(MessageRequest.model_fields))
)
def test_a_field_of_anthropic_that_is_not_honoured_is_an_error_that_names_it(name: str) -> None:
    error = refusal(**{name: "something"})
    assert error.field == name
    assert str(error).startswith(f"{name} is not honoured by this server; ")


EXAMPLES: dict[str, dict[str, Any]] = {
    "model": {"model": "other"},
    "max_tokens": {"max_tokens": 5},
    "messages": {"messages": [{"role": "user", "content": "other"}]},
    "system": {"system": "Be kind."},
    "stream": {"stream": True},
    "stop_sequences": {"stop_sequences": ["end"]},
    "temperature": {"temperature": 0.5},
    "top_p": {"top_p": 0.5},
    "top_k": {"top_k": 5},
    "tools": {"tools": [TOOL]},
    "tool_choice": {"tools": [TOOL], "tool_choice": {"type": "any"}},
    "thinking": {"thinking": {"type": "enabled", "budget_tokens": 9}},
    "output_config": {"output_config": {"format": FORMAT}},
    "output_format": {"output_format": FORMAT},
    "structured_outputs": {"structured_outputs": {"regex": "a"}},
    "seed": {"seed": 7},
    "frequency_penalty": {"frequency_penalty": 0.5},
    "presence_penalty": {"presence_penalty": 0.5},
    "logit_bias": {"logit_bias": {"5": -100}},
    "min_p": {"min_p": 0.1},
    "repetition_penalty": {"repetition_penalty": 1.1},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 3},
    "stop_token_ids": {"stop_token_ids": [5]},
    "priority": {"priority": 3},
    "cache_salt": {"cache_salt": "salt"},
    "include_stop_str_in_output": {
        "stop_sequences": ["end"],
        "include_stop_str_in_output": True,
    },
    "min_tokens": {"min_tokens": 3},
    "ignore_eos": {"ignore_eos": True},
    "json_options": {"output_format": FORMAT, "json_options": {"whitespace": 1}},
    "on_incomplete": {"on_incomplete": "error"},
    "report": {"output_format": FORMAT, "report": True},
    "show_schema": {"output_format": FORMAT, "show_schema": True},
    "metadata": {"metadata": {"user_id": "x"}},
    "service_tier": {"service_tier": "standard_only"},
    **{
        name: {name: value}
        for name, value in (
            ("cache_control", {"type": "ephemeral"}),
            ("speed", "standard"),
            (
                "context_management",
                {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            ),
        )
    },
}
IGNORED = {"cache_control", "context_management", "metadata", "service_tier", "speed"}
"""Fields that are accepted and have no effect; docs/anthropic.md says why for each."""
ANSWER = GenerationResult("x", (), FinishReason.STOP, Usage(), 1.0)


def seen(one: Asked) -> tuple[object, ...]:
    """Everything that a request leads to."""
    form = one.form(Shown("id", 0, "m"))
    return one.model, one.request, one.is_streamed, str(form.whole(ANSWER))


@pytest.mark.parametrize("name", sorted(MessageRequest.model_fields))
def test_a_field_that_is_taken_is_honoured(name: str) -> None:
    fields = EXAMPLES[name]
    # Fields that it depends on are given in both.
    beside = {key: value for key, value in fields.items() if key != name}
    assert (seen(asked(**fields)) == seen(asked(**beside))) == (name in IGNORED)


def test_null_says_nothing() -> None:
    names = (set().union(*ANTHROPICS.values()) | {"best_off"}) - BASE.keys()
    assert asked(**dict.fromkeys(names)).request == asked().request


def test_the_page_tells_of_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "anthropic.md").read_text("utf-8")
    for name in MessageRequest.model_fields:
        assert f"`{name}`" in page, name
