"""Formats log-probabilities as OpenAI's API does.

They are relative to the allowed tokens (``masked``), from which tokens are chosen; without a
constraint they are the model's own. A forced token had no alternative: 0.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable

from guided.spec import Alternative, TokenLogprobs
from guided.spec.result import LEAST_LOGPROB
from guided_service.http.errors import JsonObject

__all__ = ["chat_logprobs", "completion_logprobs", "told_tokens"]


def chat_logprobs(tokens: Iterable[TokenLogprobs]) -> JsonObject:
    """Return the ``logprobs`` of a message."""
    return {"content": told_tokens(tokens), "refusal": None}


def told_tokens(tokens: Iterable[TokenLogprobs]) -> list[JsonObject]:
    """Return each token with its log-probability and its alternatives."""
    return [
        {**_told(token), "top_logprobs": [_told(other) for other in token.top]} for token in tokens
    ]


def completion_logprobs(tokens: tuple[TokenLogprobs, ...]) -> JsonObject:
    """Return the ``logprobs`` of a completion: lists by token, with each token's text offset."""
    # A character that several tokens spell counts from the first one after its last byte.
    decoder = getincrementaldecoder("utf-8")("replace")
    offsets, length = [], 0
    for token in tokens:
        offsets.append(length)
        length += len(decoder.decode(token.text))
    return {
        "tokens": [_text(token.text) for token in tokens],
        "token_logprobs": [_number(token.masked) for token in tokens],
        "top_logprobs": [
            # The likeliest last: of several that are shown alike it stays.
            {_text(other.text): _number(other.masked) for other in reversed(token.top)}
            for token in tokens
        ],
        "text_offset": offsets,
    }


def _told(token: TokenLogprobs | Alternative) -> JsonObject:
    return {
        "token": _text(token.text),
        "logprob": _number(token.masked),
        "bytes": list(token.text),
    }


def _number(logprob: float | None) -> float:
    return 0.0 if logprob is None else max(logprob, LEAST_LOGPROB)


def _text(text: bytes) -> str:
    return text.decode(errors="replace")
