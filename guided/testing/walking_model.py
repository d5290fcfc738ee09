"""Answers without a model: given ones, or walks through the constraint."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from guided.constraint.compiler import ConstraintCompiler
from guided.constraint.reading import read_text
from guided.engine.constraint_tasks import ConstraintTasks
from guided.engine.incomplete import check_complete
from guided.errors import GuidedError, RequestError
from guided.masks.mask import tokens_of
from guided.masks.matcher import Matcher
from guided.masks.vocabulary import Vocabulary
from guided.spec import (
    CandidateResult,
    FinishReason,
    GenerationRequest,
    GenerationResult,
    PromptTokens,
    TextFit,
    TokenId,
    TokenPrompt,
    Usage,
)
from guided.spec.continued import Continued
from guided.spec.delta import Delta, can_stream
from guided.spec.findings import Finding
from guided.spec.model_name import check_model
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import HERMES
from guided.stats import CacheStats, EngineStats, Histogram, ModelInfo, Phase
from guided_service.inspection import task_of
from guided_service.messages import Inspect
from guided_service.stream_events import StreamEvent
from guided_service.token_texts import describe_tokens, text_of

__all__ = ["FREE_TEXT", "Reply", "WalkingModel"]

Reply: TypeAlias = str | BaseModel | Mapping[str, object] | list[Any] | GuidedError
"""An answer: its text, or what is written as its JSON; or an error that the request gets
instead."""

FREE_TEXT: Final = "An answer without a model."
"""The answer to a request without a constraint."""

_END: Final = TokenId(256)
_PIECE: Final = 4
"""Characters per piece of a stream."""
_LIKELY: Final = frozenset(b'{}[]",:')
_MOST_DRAWN: Final = 256
"""Answers to one request."""
_MOST_CHOSEN: Final = 200
"""Bytes that a random answer chooses before it takes the shortest end."""
_MODEL: Final = ModelInfo("no model", context_window=2**20, vocabulary_size=257)

_NO_TIMES: Final = Histogram((1.0,), (0, 0))


class WalkingModel:
    """Takes the place of an engine in a server; a token is a byte.

    Constraints are compiled in threads, so an event loop may call it.
    """

    def __init__(self, replies: tuple[Reply, ...] = ()) -> None:
        self._replies = deque[str | GuidedError]()
        self.add(replies)
        self.requests: list[GenerationRequest] = []
        """All requests, in order."""
        tokens = (*(bytes((byte,)) for byte in range(256)), None)
        vocabulary = Vocabulary(tokens, frozenset({_END}), lambda text: [*text.encode()])
        self._vocabulary = vocabulary
        self._compiler = ConstraintCompiler(vocabulary)
        self._tasks = ConstraintTasks(vocabulary, self._compiler.start)
        self._lock = threading.Lock()
        self._made = time.monotonic()
        self._usage = Usage()
        self._answered = Counter[FinishReason]()

    def add(self, replies: Iterable[Reply]) -> None:
        """Add replies to the next requests, in order of arrival.

        Raises RequestError for what is no reply.
        """
        self._replies.extend([_written(reply) for reply in replies])

    def check_ready(self) -> None:
        """Accept at once: it is always ready."""

    def check_prompt(self, request: GenerationRequest) -> None:
        """Accept any length."""

    def model(self, name: str = "") -> ModelInfo:
        """Return what ``client.model()`` returns; UnknownModelError for another name."""
        check_model(name, (_MODEL.name,))
        return _MODEL

    def models(self) -> tuple[ModelInfo, ...]:
        """Return what ``client.models()`` returns."""
        return (_MODEL,)

    def stats(self) -> EngineStats:
        """Return what ``client.stats()`` returns."""
        return EngineStats(
            seconds=time.monotonic() - self._made,
            running=0,
            waiting=0,
            usage=self._usage,
            model_calls=0,
            cache=CacheStats(block_size=1, free=0, held=0, cached=0),
            phases=dict.fromkeys(Phase, 0.0),
            compiling=_NO_TIMES,
            queueing=_NO_TIMES,
            first_token=_NO_TIMES,
            inter_token=_NO_TIMES,
            answering=_NO_TIMES,
            answered=dict(self._answered),
        )

    async def generate(
        self, request: GenerationRequest, received: float, client: str = ""
    ) -> GenerationResult:
        """Generate one answer."""
        del received, client  # nothing waits here
        return await asyncio.to_thread(self._answer, request)

    async def stream(
        self,
        request: GenerationRequest,
        received: float,
        client: str = "",
        *,
        is_watched: bool = False,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the pieces of the answers side by side, then the result; ranked ones are in it."""
        if is_watched:
            raise RequestError(
                "a server without a model cannot show how an answer comes to be",
                hint="use one that runs a model",
            )
        result = await self.generate(request, received, client)
        if can_stream(request):
            for delta in _deltas(result):
                yield delta
        yield result

    async def tokenize(
        self, request: GenerationRequest, received: float, *, texts: bool = False
    ) -> PromptTokens:
        """Return the bytes of a prompt; a message is its content, as there is no template."""
        del received  # nothing waits here
        return describe_tokens(self._vocabulary, _prompt_tokens(request), texts=texts)

    async def detokenize(self, tokens: tuple[TokenId, ...], model: str = "") -> bytes:
        """Return the text of tokens."""
        del model  # there is one
        return text_of(self._vocabulary, tokens)

    async def inspect(self, asked: Inspect) -> Finding:
        """Return what an engine finds about a constraint."""
        return await asyncio.to_thread(self._inspect, asked)

    def _inspect(self, asked: Inspect) -> Finding:
        with self._lock:
            self._tasks.submit(asked.request_id, lambda: task_of(asked))
            while True:
                for ended in self._tasks.run_slice(may_wait=True):
                    if isinstance(ended.outcome, GuidedError):
                        raise ended.outcome
                    return ended.outcome

    def _answer(self, request: GenerationRequest) -> GenerationResult:
        _check(request)
        start, asked = time.monotonic(), request
        if request.tools is not None:
            constraint = with_calls(request.tools, request.constraint, HERMES)
            request = replace(request, constraint=constraint, show_schema=False)
        begun = request.begun
        matcher = self._compiler.start(
            Continued(request.constraint, begun, "") if begun else request.constraint
        )
        with self._lock:
            self.requests.append(asked)
            replies = [self._replies.popleft() if self._replies else None for _ in _seeds(request)]
        found = [
            self._one(request, matcher, seed, reply)
            for seed, reply in zip(_seeds(request), replies, strict=True)
        ]
        result = _result(request, found[: request.n], time.monotonic() - start)
        with self._lock:
            self._usage = Usage.total((self._usage, result.usage))
            check_complete(result, request)
            self._answered[result.finish_reason] += 1
        return result

    def _one(
        self, request: GenerationRequest, start: Matcher, seed: int, reply: str | GuidedError | None
    ) -> tuple[str, FinishReason, str]:
        """Return an answer's text, why it ended, and the stop string that ended it, if one did."""
        if isinstance(reply, GuidedError):
            raise reply
        if reply is not None:
            text, reason = reply, _end_of(request, reply)
        elif request.constraint is None:
            text, reason = FREE_TEXT, FinishReason.STOP
        else:
            is_random = request.sampling.temperature > 0
            most = min(request.most_tokens, _MOST_CHOSEN) if is_random else 0
            text, reason = _walk(start, random.Random(seed), most)  # noqa: S311 - no secret
        return _stopped(request, text, reason)


def _seeds(request: GenerationRequest) -> range:
    seed = request.sampling.seed or 0
    return range(seed, seed + request.drawn)


def _check(request: GenerationRequest) -> None:
    """Raise RequestError for options that only a model supports, or for too many answers."""
    if request.drawn > _MOST_DRAWN:
        raise RequestError(
            f"{request.drawn} answers are drawn, above the limit of {_MOST_DRAWN} of a server "
            "without a model",
            field="n" if request.best_of is None else "best_of",
        )
    for name, is_asked in (
        ("beams", request.beams is not None),
        ("top_logprobs", request.top_logprobs is not None),
        ("stop_tokens", bool(request.stop_tokens)),
        ("min_tokens", bool(request.min_tokens)),
        ("stop_after", bool(request.stop_after)),
        ("reasoning", request.reasoning is not None and not request.reasoning.is_off),
    ):
        if is_asked:
            raise RequestError(
                f"{name} needs a model, and this is a server without one",
                field=name,
                hint="leave it out of what is tested by guided.testing",
            )


def _written(reply: object) -> str | GuidedError:
    """Return a reply as it is sent; raises RequestError for what is none."""
    match reply:
        case str() | GuidedError():
            return reply
        case BaseModel() | Mapping() | list():
            try:
                return to_json(reply, by_alias=True).decode()
            except PydanticSerializationError as error:
                raise RequestError(
                    f"the reply {reply!r} has no JSON: {error}", field="replies"
                ) from error
    raise RequestError(
        f"{reply!r} is no reply",
        field="replies",
        hint="pass the text of an answer, a model, dict or list, or a guided.GuidedError",
    )


def _end_of(request: GenerationRequest, reply: str) -> FinishReason:
    """Return why a reply ends; raises RequestError for one that no server would give."""
    if request.constraint is None:
        return FinishReason.STOP
    whole = (request.begun + reply).encode()
    report = read_text(request.constraint, whole)
    if report.fit is not TextFit.COMPLETE:
        there = whole[: report.offset].decode(errors="ignore")
        end = there.removeprefix(request.begun) + report.shortest_end.decode(errors="replace")
        is_blank = whole[report.offset :][:1].isspace()
        raise RequestError(
            f"the reply {reply!r} is no answer to this request: it leaves the constraint after "
            f"{there!r}" + (", with white space" if is_blank else ""),
            hint="leave out white space that JSON options do not allow, or give a dict or a model"
            if is_blank
            else f"give one that fits, such as {end!r}",
        )
    return FinishReason.STOP if report.allowed else FinishReason.COMPLETE


def _walk(start: Matcher, drawn: random.Random, most: int) -> tuple[str, FinishReason]:
    """Make at most ``most`` random choices, then take the shortest way to the end."""
    matcher, tokens = start, list[TokenId]()
    while len(tokens) < most and not matcher.is_complete:
        token = _chosen(drawn, tokens_of(matcher.mask()).tolist())
        if token == _END:
            break
        matcher = matcher.advance(token)
        tokens.append(token)
    is_closed = bool(most) and not matcher.is_accepting
    for token in matcher.shortest_completion():
        matcher = matcher.advance(token)
        tokens.append(token)
    reason = FinishReason.COMPLETE if matcher.is_complete else FinishReason.STOP
    return bytes(tokens).decode(), FinishReason.LENGTH_CLOSED if is_closed else reason


def _chosen(drawn: random.Random, tokens: list[int]) -> TokenId:
    """Choose one of the tokens, favouring those that build JSON and printable ones."""
    structure = [token for token in tokens if token in _LIKELY]
    if structure and drawn.random() < 0.4:
        return TokenId(drawn.choice(structure))
    printable = [token for token in tokens if 0x20 <= token < 0x7F]
    return TokenId(drawn.choice(printable or tokens))


def _stopped(
    request: GenerationRequest, text: str, reason: FinishReason
) -> tuple[str, FinishReason, str]:
    """Return the text up to the stop string that is complete first, and that string."""
    found = [(text.find(stop) + len(stop), stop) for stop in request.stop if stop in text]
    if not found:
        return text, reason, ""
    end, stop = min(found)
    kept = text[: end if request.include_stop else end - len(stop)]
    return kept, FinishReason.STOP_SEQUENCE, stop


def _result(
    request: GenerationRequest, found: list[tuple[str, FinishReason, str]], seconds: float
) -> GenerationResult:
    candidates = tuple(
        CandidateResult(
            *(index, text, _tokens(text), reason),
            score=0.0,
            usage=Usage(sampled_tokens=len(_tokens(text))),
            stop_string=stop,
        )
        for index, (text, reason, stop) in enumerate(found)
    )
    text, reason, stop = found[0]
    return GenerationResult(
        text=text,
        tokens=_tokens(text),
        finish_reason=reason,
        usage=Usage(
            prompt_tokens=len(_prompt_tokens(request)),
            sampled_tokens=sum(len(one.tokens) for one in candidates),
        ),
        seconds=seconds,
        candidates=candidates if request.has_candidates else (),
        verification=request.verification,
        stop_string=stop,
    )


def _deltas(result: GenerationResult) -> Iterator[Delta]:
    """Yield the pieces of all answers in turn, and the end of each of several."""
    texts = [one.text for one in result.candidates or (result,)]
    for at in range(0, max(map(len, texts)) + 1, _PIECE):
        for index, text in enumerate(texts):
            piece, is_last = text[at : at + _PIECE], at <= len(text) < at + _PIECE
            ended = result.candidates[index] if is_last and result.candidates else None
            if piece or ended is not None:
                yield Delta("", piece, index=index, ended=ended)


def _prompt_tokens(request: GenerationRequest) -> tuple[TokenId, ...]:
    prompt = request.prompt
    if isinstance(prompt, TokenPrompt):
        return prompt.read_by(_MODEL.vocabulary_size)
    return _tokens(prompt if isinstance(prompt, str) else "".join(turn.content for turn in prompt))


def _tokens(text: str) -> tuple[TokenId, ...]:
    return tuple(TokenId(byte) for byte in text.encode())
