"""Streams answers that are watched: events show how each comes about, step by step.

::

    data: {"tokens": [...], "steps": [...]}      for each step, see guided_service.watching
    data: {"end": {...}}                         why it ended and what it cost
    data: {"error": {...}}                       in its place
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from guided.errors import RequestError
from guided.spec import CandidateResult, FinishReason, GenerationResult, TokenLogprobs
from guided_service.config import ServerConfig
from guided_service.http.asked import Asked, Shown
from guided_service.http.chat_request import read_chat
from guided_service.http.errors import JsonObject
from guided_service.http.events import event
from guided_service.http.fields import Body

__all__ = ["WatchForm", "read_watched"]

_LIKELIEST: Final = 10
"""How many allowed tokens each choice lists, unless the call says."""


class WatchForm:
    """Streams how one answer comes about."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def whole(self, result: GenerationResult, report: JsonObject | None = None) -> JsonObject:
        """Return the content of the last event; there is no other form."""
        usage = result.usage
        ends = result.finish_reason is FinishReason.STOP
        told = {
            "model": self._shown.model,
            "finish_reason": result.finish_reason,
            "text": result.text,
            "seconds": result.seconds,
            "first_token_seconds": result.timing.first_token_seconds,
            "prompt_tokens": usage.prompt_tokens,
            "reused_tokens": usage.reused_tokens,
            "output_tokens": usage.output_tokens,
            "model_calls": usage.model_calls,
            # One per token, and one for an end that the model chose.
            "plain_model_calls": usage.output_tokens + ends,
            "drafted_tokens": usage.drafted_tokens,
            "accepted_tokens": usage.accepted_tokens,
        }
        return {"end": told if report is None else told | {"report": report}}

    def thought(self, text: str, index: int = 0) -> bytes:  # noqa: ARG002
        """Never called: a watched answer yields tokens, those of thoughts too, not text."""
        raise AssertionError(f"a thought in an answer that is watched: {text!r}")

    def grown(
        self,
        text: str,
        logprobs: tuple[TokenLogprobs, ...] = (),  # noqa: ARG002
        index: int = 0,  # noqa: ARG002
    ) -> bytes:
        """Return the events of some lines, each of which is JSON already."""
        # Not by ``splitlines``, which would also split at line breaks inside texts.
        lines = text.removesuffix("\n").split("\n")
        return b"".join(b"data: " + line.encode() + b"\n\n" for line in lines)

    def closed(self, one: CandidateResult) -> bytes:
        """Never called: only one answer is watched."""
        raise AssertionError(f"several answers that are watched: {one!r}")

    def ended(self, result: GenerationResult, report: JsonObject | None = None) -> bytes:
        return event(self.whole(result, report))

    def failed(self, error: JsonObject) -> bytes:
        return event(error)


def read_watched(body: Body, config: ServerConfig) -> Asked:
    """Return what a call requests: a chat completion of one answer; raises RequestError."""
    asked = read_chat(body, config)
    request = asked.request
    if request.has_candidates:
        raise RequestError("only one answer can be watched", field="n", hint="request one")
    if request.top_logprobs is None:
        request = replace(request, top_logprobs=_LIKELIEST)
    return replace(asked, request=request, form=WatchForm, is_streamed=True)
