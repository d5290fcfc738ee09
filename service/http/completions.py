"""``POST /v1/completions``: continues a plain text, without a chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from pydantic import Field

from guided.errors import LimitExceededError, RequestError
from guided.spec import (
    MAX_TOP_LOGPROBS,
    CandidateResult,
    GenerationRequest,
    GenerationResult,
    TokenLogprobs,
    TokenPrompt,
    Usage,
)
from guided_service.config import ServerConfig
from guided_service.http.asked import Asked, Shown
from guided_service.http.chat_answer import ChunkForm, One, answers_of, finish_of
from guided_service.http.chat_request import StreamOptions
from guided_service.http.constraints import ConstraintFields
from guided_service.http.errors import JsonObject
from guided_service.http.fields import Body, Budget, GenerationFields, Listed, TokenIdField, given
from guided_service.http.hints import answer_hints
from guided_service.http.logprobs import completion_logprobs
from guided_service.http.sent_names import CameFrom, named_as_sent
from guided_service.http.unions import OneOfPrompts

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

_Tokens: TypeAlias = Annotated[Listed[TokenIdField], Field(min_length=1)]
Prompts: TypeAlias = Annotated[Listed[str], Field(min_length=1)]
"""Several prompts, each of which is answered by itself."""
TokenPrompts: TypeAlias = Annotated[Listed[_Tokens], Field(min_length=1)]
"""The same of tokens."""


class CompletionRequest(ConstraintFields, GenerationFields):
    """The body of a call; see docs/openai.md."""

    hints: ClassVar[Mapping[str, str]] = {
        **GenerationFields.hints,
        **ConstraintFields.hints,
        **answer_hints(budgets=("max_tokens",), top_logprobs="logprobs", several="n"),
        **dict.fromkeys(_OF_CHATS, "send messages to /v1/chat/completions"),
        "messages": "send them to /v1/chat/completions",
        **dict.fromkeys(("prompt", "prompt[0]"), "send a text, token ids, or several of them"),
        "suffix": "leave it out; texts are only continued",
    }

    prompt: Annotated[str | Prompts | _Tokens | TokenPrompts, OneOfPrompts()]
    max_tokens: Budget | None = None
    best_of: Annotated[int, Field(ge=1)] | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    echo: bool = False
    """Begin the text of each answer with its prompt."""
    stream_options: StreamOptions | None = None

    # Ours
    heal: bool | None = None
    """Let the answer replace the last tokens of the prompt."""

    def prompts(self, config: ServerConfig) -> list[str | TokenPrompt]:
        """Return the prompts; raises LimitExceededError for more than one call may have."""
        given: Any = self.prompt
        if isinstance(given, str):
            return [given]
        if isinstance(given[0], int):
            return [TokenPrompt(given)]
        if len(given) > config.max_batch_size:
            raise LimitExceededError(
                f"prompt has {len(given)} prompts, above the limit of {config.max_batch_size}",
                limit=config.max_batch_size,
                field="prompt",
                hint="split them over several calls",
            )
        return [each if isinstance(each, str) else TokenPrompt(each) for each in given]


@dataclass(frozen=True, slots=True)
class _Style:
    is_structured: bool
    tells_usage: bool
    tells_logprobs: bool
    echoed: tuple[str, ...]
    """What the answers to each prompt begin with."""
    num_answers: int
    """To each prompt."""


def read_completion(body: Body, config: ServerConfig) -> Asked:
    """Return what a call requests; raises RequestError."""
    asked = given(CompletionRequest, body)
    if asked.stream_options is not None and not asked.stream:
        raise RequestError("stream_options needs stream", field="stream_options")
    if asked.echo and asked.logprobs is not None:
        raise RequestError(
            "log-probabilities of a prompt are not computed, so they cannot be echoed with it",
            field="logprobs",
            hint="leave out logprobs or echo",
        )
    if asked.heal and asked.logprobs is not None:
        raise RequestError(
            "tokens of a healed answer begin in the prompt, and their text_offset says nothing",
            field="logprobs",
            hint="leave one out, or ask over gRPC, where they have no offsets",
        )
    wanted = asked.wanted(config)
    if wanted is not None and wanted.description:
        raise RequestError(
            "a description needs messages, in which the model is told of it",
            field="response_format.json_schema.description",
            hint="write it into the prompt, or use /v1/chat/completions",
        )
    prompts = asked.prompts(config)
    if asked.echo and isinstance(prompts[0], TokenPrompt):
        raise RequestError(
            "a prompt of token ids is not echoed as a text",
            field="echo",
            hint="leave it out, and read the text of tokens from /detokenize",
        )
    field = None if wanted is None else wanted.field
    came_from: CameFrom = {
        **asked.came_from(prompt="prompt", constraint=field),
        "top_logprobs": "logprobs",
    }
    with named_as_sent(came_from):
        request = GenerationRequest(
            prompt=prompts[0],
            constraint=None if wanted is None else wanted.structure,
            top_logprobs=asked.logprobs,
            # If all drawn answers are returned, nothing more is drawn.
            best_of=None if asked.best_of == asked.n else asked.best_of,
            heal=asked.heal,
            **asked.common(config, asked.max_tokens, _DEFAULT_BUDGET),
        )
        others = tuple([replace(request, prompt=prompt, report=False) for prompt in prompts[1:]])
    style = _Style(
        is_structured=wanted is not None,
        tells_usage=asked.stream_options is not None and asked.stream_options.include_usage,
        tells_logprobs=asked.logprobs is not None,
        echoed=tuple([str(each) if asked.echo else "" for each in prompts]),
        num_answers=asked.n,
    )
    form = partial(CompletionForm, style)
    return Asked(
        asked.model,
        request,
        form,
        is_streamed=asked.stream,
        came_from=came_from,
        others=others,
        several=form if len(prompts) > 1 else None,
    )


class CompletionForm(ChunkForm):
    """Forms the answers to prompts; choice ``i * n + j`` is answer j to prompt i."""

    _whole = _part = "text_completion"

    def __init__(self, style: _Style, shown: Shown, number: int = 0) -> None:
        """``number`` is that of the prompt whose answer is formed, of several."""
        super().__init__(shown, tells_usage=style.tells_usage)
        self._style = style
        self._first = number * style.num_answers
        """The index of the first of its choices."""
        self._prompt = style.echoed[number]
        self._begun: set[int] = set()
        """The answers whose first chunk was formed."""
        self._closed: set[int] = set()
        """The answers whose last chunk was formed."""

    def beside(self, number: int) -> CompletionForm:
        return CompletionForm(self._style, self._shown, number)

    def whole(self, result: GenerationResult, report: JsonObject | None = None) -> JsonObject:
        return self.together([result], report)

    def together(
        self, results: Sequence[GenerationResult], report: JsonObject | None = None
    ) -> JsonObject:
        choices: list[JsonObject] = []
        for number, result in enumerate(results):
            of_prompt = self.beside(number)
            choices += of_prompt._choices(result, with_text=True)
        return self._body(choices, Usage.total(result.usage for result in results), report)

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
        told = self._beginning(index) + text
        return self._chunks([self._choice(index, told, None)] if told else [])

    def closed(self, one: CandidateResult) -> bytes:
        """Return the last chunk of one of several answers."""
        self._closed.add(one.index)
        return self._chunks([self._choice(one.index, self._beginning(one.index), one)])

    def last(self, result: GenerationResult) -> bytes:
        """Return the last chunks: ranked answers as a whole, or what is left of a single one."""
        return self._chunks(self._choices(result, with_text=bool(result.candidates)))

    def end(self, results: Sequence[GenerationResult], report: JsonObject | None = None) -> bytes:
        return self._end(Usage.total(result.usage for result in results), report)

    def ended(self, result: GenerationResult, report: JsonObject | None = None) -> bytes:
        return self.last(result) + self.end([result], report)

    def _beginning(self, index: int) -> str:
        """Return the prompt if it is repeated, and has not been for this answer."""
        if index in self._begun:
            return ""
        self._begun.add(index)
        return self._prompt

    def _choices(self, result: GenerationResult, *, with_text: bool) -> list[JsonObject]:
        """Return the choices of a prompt's answers that have ended."""
        return [
            self._choice(index, self._beginning(index) + (one.text if with_text else ""), one)
            for index, one in enumerate(answers_of(result))
            if index not in self._closed
        ]

    def _choice(self, index: int, text: str, ended: One | None) -> JsonObject:
        choice: JsonObject = {
            "index": self._first + index,
            "text": text,
            "logprobs": None,
            "finish_reason": None,
        }
        if ended is None:
            return choice
        if self._style.tells_logprobs:
            choice["logprobs"] = completion_logprobs(ended.logprobs)
        reason = ended.finish_reason
        choice["finish_reason"] = finish_of(reason, is_structured=self._style.is_structured)
        choice["guided"] = {"finish_reason": reason.value}
        return choice
