"""``POST /v1/completions``: continues a plain text, without a chat template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Final, TypeAlias

from pydantic import Field

from guided.errors import RequestError
from guided.spec import (
    MAX_TOP_LOGPROBS,
    CandidateResult,
    GenerationRequest,
    GenerationResult,
    TokenLogprobs,
)
from guided_service.config import ServerConfig
from guided_service.http.asked import Asked, Shown
from guided_service.http.chat_answer import ChunkForm, One, answers_of, finish_of
from guided_service.http.chat_request import StreamOptions
from guided_service.http.constraints import ConstraintFields
from guided_service.http.errors import JsonObject
from guided_service.http.fields import Body, Budget, GenerationFields, Off, given
from guided_service.http.hints import answer_hints
from guided_service.http.logprobs import completion_logprobs
from guided_service.http.unions import OneOfKinds

__all__ = ["CompletionForm", "CompletionRequest", "read_completion"]

_DEFAULT_BUDGET: Final = 16
"""The budget of a completion whose request sets none, if the context has room for it; OpenAI's."""

_OF_CHATS: Final = (
    "add_generation_prompt",
    "chat_template_kwargs",
    "continue_final_message",
    "enable_thinking",
    "max_reasoning_tokens",
    "reasoning_budget_tokens",
    "reasoning_effort",
    "thinking",
    "thinking_budget",
    "thinking_token_budget",
    "tool_choice",
    "tools",
)
"""Fields that mean nothing without a chat template."""

OnePrompt: TypeAlias = Annotated[list[str], Field(min_length=1, max_length=1)]
"""One prompt; several prompts take several calls here."""


class CompletionRequest(ConstraintFields, GenerationFields):
    """The body of a call; see docs/openai.md."""

    hints: ClassVar[Mapping[str, str]] = {
        **GenerationFields.hints,
        **ConstraintFields.hints,
        **answer_hints(budgets=("max_tokens",), top_logprobs="logprobs", several="n"),
        **dict.fromkeys(_OF_CHATS, "send messages to /v1/chat/completions"),
        "messages": "send them to /v1/chat/completions",
        "prompt": "send one text; several are several calls",
        "suffix": "leave it out; texts are only continued",
    }

    prompt: Annotated[str | OnePrompt, OneOfKinds()]
    max_tokens: Budget | None = None
    best_of: Annotated[int, Field(ge=1)] | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    echo: Off | None = None
    """The prompt is never repeated."""
    stream_options: StreamOptions | None = None


@dataclass(frozen=True, slots=True)
class _Style:
    is_structured: bool
    tells_usage: bool
    tells_logprobs: bool


def read_completion(body: Body, config: ServerConfig) -> Asked:
    """Return what a call requests; raises RequestError."""
    asked = given(CompletionRequest, body)
    if asked.stream_options is not None and not asked.stream:
        raise RequestError("stream_options needs stream", field="stream_options")
    wanted = asked.wanted(config)
    if wanted is not None and wanted.description:
        raise RequestError(
            "a description needs messages, in which the model is told of it",
            field="response_format.json_schema.description",
            hint="write it into the prompt, or use /v1/chat/completions",
        )
    request = GenerationRequest(
        prompt=asked.prompt if isinstance(asked.prompt, str) else asked.prompt[0],
        constraint=None if wanted is None else wanted.structure,
        top_logprobs=asked.logprobs,
        # If all drawn answers are returned, nothing more is drawn.
        best_of=None if asked.best_of == asked.n else asked.best_of,
        **asked.common(config, asked.max_tokens, _DEFAULT_BUDGET),
    )
    style = _Style(
        is_structured=wanted is not None,
        tells_usage=asked.stream_options is not None and asked.stream_options.include_usage,
        tells_logprobs=asked.logprobs is not None,
    )
    return Asked(
        asked.model,
        request,
        partial(CompletionForm, style),
        is_streamed=asked.stream,
        constraint_field=None if wanted is None else wanted.field,
    )


class CompletionForm(ChunkForm):
    """Forms one completion; with ``n``, each is one of its choices."""

    _whole = _part = "text_completion"

    def __init__(self, style: _Style, shown: Shown) -> None:
        super().__init__(shown, tells_usage=style.tells_usage)
        self._style = style
        self._closed: set[int] = set()
        """The answers whose last chunk was formed."""

    def whole(self, result: GenerationResult, report: JsonObject | None = None) -> JsonObject:
        choices = [
            self._choice(index, one.text, one) for index, one in enumerate(answers_of(result))
        ]
        return self._body(choices, result.usage, report)

    def thought(self, text: str, index: int = 0) -> bytes:  # noqa: ARG002
        """Never called: nothing here requests thoughts."""
        raise AssertionError(f"a thought in an answer without any: {text!r}")

    def grown(
        self,
        text: str,
        logprobs: tuple[TokenLogprobs, ...] = (),  # noqa: ARG002
        index: int = 0,
    ) -> bytes:
        """Return the chunk of more text; log-probabilities come with the last one."""
        return self._chunks([self._choice(index, text, None)] if text else [])

    def closed(self, one: CandidateResult) -> bytes:
        """Return the last chunk of one of several answers."""
        self._closed.add(one.index)
        return self._chunks([self._choice(one.index, "", one)])

    def ended(self, result: GenerationResult, report: JsonObject | None = None) -> bytes:
        """Return the last chunks: ranked answers as a whole, or what is left of a single one."""
        last = [
            self._choice(index, one.text if result.candidates else "", one)
            for index, one in enumerate(answers_of(result))
            if index not in self._closed
        ]
        return self._chunks(last) + self._end(result.usage, report)

    def _choice(self, index: int, text: str, ended: One | None) -> JsonObject:
        choice: JsonObject = {"index": index, "text": text, "logprobs": None, "finish_reason": None}
        if ended is None:
            return choice
        if self._style.tells_logprobs:
            choice["logprobs"] = completion_logprobs(ended.logprobs)
        reason = ended.finish_reason
        choice["finish_reason"] = finish_of(reason, is_structured=self._style.is_structured)
        choice["guided"] = {"finish_reason": reason.value}
        return choice
