"""Bounds and counts what answers with log-probabilities take, and encodes long ones in a thread.

::

    request ──▶ could its answers be held at all? ──▶ the engine ──▶ counted ──▶ encoded, sent
                  │ no                                                 │ no room
                  LimitExceededError                                   OverloadedError

Of each token a caller may have the twenty likeliest, so an answer may take a thousand times the
memory of its text. Most end long before their budgets: so a budget is not held while an answer
grows, and only one that could never be sent is refused. What came of it is counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from guided.errors import LimitExceededError
from guided.spec import CandidateResult, GenerationRequest, GenerationResult, TokenLogprobs
from guided_service.held_bytes import count_held, count_let_go

__all__ = ["check_answers_fit", "encoded_answer", "scored_bytes"]

_MANY: Final = 200
"""Tokens with log-probabilities, each perhaps with twenty alternatives, that take about 10 ms."""

_SCORE_BYTES: Final = 512
"""Bytes that a token and its log-probabilities take, about, with what is encoded of them; so does
each alternative."""

Encoded = TypeVar("Encoded")
Result = TypeVar("Result", GenerationResult, CandidateResult)


def check_answers_fit(
    request: GenerationRequest, window: int, most_bytes: int, prompts: int = 1
) -> None:
    """Raise LimitExceededError if the answers may take more bytes than one call may hold.

    None of them is longer than the ``window`` of the model's context, in tokens. ``prompts`` are
    those of the call, each of which is answered like ``request``.
    """
    if request.top_logprobs is None:
        return
    answers, scores = prompts * request.drawn, 1 + request.top_logprobs
    tokens = min(request.most_tokens, window)
    nbytes = answers * tokens * scores * _SCORE_BYTES
    if nbytes > most_bytes:
        number = "the number of answers" if prompts == 1 else "the number of prompts or answers"
        raise LimitExceededError(
            f"the log-probabilities of {answers} x {tokens} tokens with top_logprobs "
            f"{request.top_logprobs} may take {nbytes} bytes, above the limit of {most_bytes}",
            limit=most_bytes,
            field="max_tokens",
            hint=f"lower max_tokens, top_logprobs or {number}",
        )


def scored_bytes(result: GenerationResult | CandidateResult) -> int:
    """Return the bytes that the log-probabilities of all answers in a result take, about."""
    return _SCORE_BYTES * sum([1 + len(token.top) for token in _scored(result)])


@asynccontextmanager
async def encoded_answer(
    encode: Callable[[Result], Encoded], result: Result
) -> AsyncIterator[Encoded]:
    """Return an answer as ``encode`` encodes it, which may be called in a thread.

    What a long one takes counts until the block ends; raises as ``Hold.add`` does.
    """
    if len(_scored(result)) < _MANY:
        yield encode(result)
        return
    nbytes = scored_bytes(result)
    count_held(nbytes)
    try:
        yield await asyncio.to_thread(encode, result)
    finally:
        count_let_go(nbytes)


def _scored(result: GenerationResult | CandidateResult) -> list[TokenLogprobs]:
    answers: tuple[GenerationResult | CandidateResult, ...] = (result,)
    if isinstance(result, GenerationResult) and result.candidates:
        answers = result.candidates  # the first of which is the result itself
    return [token for each in answers for token in each.logprobs]
