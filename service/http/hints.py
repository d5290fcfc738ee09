"""What to send in place of fields that other servers take and this one does not.

To leave a field out is bad advice where it constrains the answer: then nothing would. Each hint
names the field that does here what the other one does there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

__all__ = [
    "ANTHROPIC_HINTS",
    "CONSTRAINT_HINTS",
    "HINTS",
    "JSON_HINTS",
    "THINKING_HINTS",
    "answer_hints",
]


HINTS: Final[Mapping[str, str]] = {
    # vLLM's
    "allowed_token_ids": "use a constraint",
    "bad_words": "use logit_bias",
    "chat_template": "leave it out; the model has its own",
    "guided_decoding_backend": "leave it out; there is one compiler for all constraints",
    # llama.cpp's
    "repeat_penalty": "use repetition_penalty",
}
"""Hints by the path of a field, whatever the call."""


def answer_hints(
    *, budgets: Sequence[str], top_logprobs: str, several: str | None
) -> Mapping[str, str]:
    """Return the hints that name fields which not all calls have, or not by the same name.

    These are the budget of the answer, by the first of its names, the number of likeliest tokens,
    and the number of answers, if there may be several.
    """
    instead = "leave it out" if several is None else f"use {several}, which draws several answers"
    return {
        **dict.fromkeys(_BEAMS, f"{instead}; beams are for gRPC"),
        **{name: f"use {budgets[0]}" for name in _BUDGETS if name not in budgets},
        "n_probs": f"use {top_logprobs}",
    }


_BEAMS: Final = ("early_stopping", "length_penalty", "use_beam_search")
_BUDGETS: Final = (
    "max_completion_tokens",
    "max_new_tokens",  # SGLang's
    "max_output_tokens",
    "max_tokens",
    "n_predict",  # llama.cpp's
)
"""What others call the bound of an answer."""

THINKING_HINTS: Final[Mapping[str, str]] = {
    "chat_template_kwargs.reasoning_effort": "use reasoning_effort",
    "chat_template_kwargs.thinking_budget": "use thinking_token_budget",
    "enable_thinking": 'use "chat_template_kwargs": {"enable_thinking": ...}',
    "reasoning_budget_tokens": "use thinking_token_budget",
    "thinking": 'use "chat_template_kwargs": {"thinking": ...}',
    "thinking_budget": "use thinking_token_budget",
}
"""Hints for fields about thoughts, where a model may think."""

_STRUCTURED: Final = "structured_outputs"
_CONSTRAINTS: Final[Mapping[str, str]] = {
    # vLLM's
    "guided_json_object": "json_object",
    "structural_tag": "structural_tag",
    # SGLang's
    "ebnf": "grammar",
    "json_schema": "json",
    "regex": "regex",
    # llama.cpp's
    "grammar": "grammar",
}
"""The fields of ``structured_outputs`` for fields of the body itself."""

_WHITESPACE: Final = "use json_options.whitespace; JSON is compact without it"

_JSON_FORMS: Final = {
    "guided_whitespace_pattern": _WHITESPACE,
    f"{_STRUCTURED}.disable_additional_properties": "leave it out; objects are closed",
    f"{_STRUCTURED}.disable_any_whitespace": _WHITESPACE,
    f"{_STRUCTURED}.whitespace_pattern": _WHITESPACE,
}

CONSTRAINT_HINTS: Final[Mapping[str, str]] = {
    **{name: f"use {_STRUCTURED}.{ours}" for name, ours in _CONSTRAINTS.items()},
    **_JSON_FORMS,
}
"""Hints for constraints where ``structured_outputs`` is taken."""

_FORMER: Final = {f"guided_{ours}": ours for ours in ("choice", "grammar", "json", "regex")}

JSON_HINTS: Final[Mapping[str, str]] = {
    _STRUCTURED: "use text.format, or /v1/chat/completions for constraints other than JSON",
    **{
        name: "use text.format"
        if ours.startswith("json")
        else f"use {_STRUCTURED}.{ours} of /v1/chat/completions"
        for name, ours in {**_CONSTRAINTS, **_FORMER}.items()
    },
}
"""Hints for constraints where only ``text.format`` is taken, which is JSON."""

_CHATS: Final = "use /v1/chat/completions, which has it"
_OUTPUT: Final = "use output_config.format"
_ANY_OBJECT: Final = f"{_STRUCTURED}.json_object for any object"

ANTHROPIC_HINTS: Final[Mapping[str, str]] = {
    **HINTS,
    **answer_hints(budgets=("max_tokens",), top_logprobs="top_logprobs", several=None),
    # OpenAI's
    "instructions": "use system",
    "logprobs": _CHATS,
    "n": _CHATS,
    "parallel_tool_calls": "use tool_choice.disable_parallel_tool_use",
    "reasoning_effort": 'use "thinking": {"type": "adaptive"} with output_config.effort',
    "response_format": f"{_OUTPUT}, or {_ANY_OBJECT}",
    "stop": "use stop_sequences",
    "top_logprobs": _CHATS,
    "user": "use metadata.user_id",
    # Anthropic's own
    "container": "leave it out; nothing runs code here",
    **dict.fromkeys(
        ("output_config.format.type", "output_format.type"), f"send a schema, or use {_ANY_OBJECT}"
    ),
    "mcp_servers": "connect to them yourself, and send their tools as tools",
    # Those of other servers
    "n_probs": _CHATS,
    **dict.fromkeys(
        ("max_reasoning_tokens", "thinking_budget", "thinking_token_budget"),
        "use thinking.budget_tokens",
    ),
    **{
        name: _OUTPUT if ours == "json" else f"use {_STRUCTURED}.{ours}"
        for name, ours in {**_CONSTRAINTS, **_FORMER}.items()
    },
    **_JSON_FORMS,
}
"""Hints for the fields of Anthropic's API, where ``structured_outputs`` is taken as well."""
