"""Values beyond a bound, or that only equal the one that is taken, are errors with their field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.test_http_fields import refusal

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("chat", {"max_tokens": 10**400, "reasoning_effort": "low"}, "max_tokens"),
    ("chat", {"max_completion_tokens": 2**31}, "max_completion_tokens"),
    ("chat", {"max_reasoning_tokens": 2**31}, "max_reasoning_tokens"),
    ("chat", {"stop_token_ids": [-1]}, "stop_token_ids[0]"),
    ("chat", {"stop_token_ids": [2**31]}, "stop_token_ids[0]"),
    ("chat", {"guided_choice": []}, "guided_choice"),
    ("chat", {"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
    ("chat", {"structured_outputs": {"json_object": 1}}, "structured_outputs.json_object"),
    ("chat", {"store": 0}, "store"),
    ("completions", {"echo": 0}, "echo"),
    ("responses", {"background": 0.0}, "background"),
    ("responses", {"n": True}, "n"),
    ("responses", {"n": 1.0}, "n"),
    ("responses", {"max_output_tokens": 2**31}, "max_output_tokens"),
    ("responses", {"input": [{"type": "reasoning", "summary": []}]}, "input"),
    *(
        ("responses", {"input": [{"type": "function_call", "call_id": "c", **call}]}, "input[0]")
        for call in ({"name": "f g", "arguments": "{}"}, {"name": "f", "arguments": "3"})
    ),
]


@pytest.mark.parametrize(("face", "fields", "named"), REFUSED)
def test_the_field_is_named(face: str, fields: dict[str, Any], named: str) -> None:
    error = refusal(face, **fields)
    assert error.field == named
    assert "\n" not in str(error)
