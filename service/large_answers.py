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
from guided.spec import CandidateResult, GenerationRequest, GenerationResult
from guided_service.held_bytes import count_held, count_let_go

__all__ = ["check_answers_fit", "encoded_answer"]

_MANY: Final = 200
"""Tokens with log-probabilities, each perhaps with twenty alternatives, that take about 10 ms."""

_SCORE_BYTES: Final = 512
"""Bytes that a token and its log-probabilities take, about, with what is encoded of them; so does
each alternative."""

Encoded = TypeVar("Encoded")
Result = TypeVar("Result", GenerationResult, CandidateResult)


def check_answers_fit(request: GenerationRequest, most_bytes: int) -> None:
    """Raise LimitExceededError if the answers may take more bytes than one call may hold."""
    if request.top_logprobs is None:
        return
    answers, tokens, scores = request.drawn, request.most_tokens, 1 + request.top_logprobs
    nbytes = answers * tokens * scores * _SCORE_BYTES
    if nbytes > most_bytes:
        raise LimitExceededError(
            f"the log-probabilities of {answers} x {tokens} tokens with top_logprobs "
            f"{request.top_logprobs} may take {nbytes} bytes, above the limit of {most_bytes}",
            limit=most_bytes,
            field="max_tokens",
            hint="lower max_tokens, top_logprobs or the number of answers",
        )


@asynccontextmanager
async def encoded_answer(
    encode: Callable[[Result], Encoded], result: Result
) -> AsyncIterator[Encoded]:
    """Return an answer as ``encode`` encodes it, which may be called in a thread.

    What a long one takes counts until the block ends; raises as ``Hold.add`` does.
    """
    answers: tuple[GenerationResult | CandidateResult, ...] = (result,)
    if isinstance(result, GenerationResult):
        answers += result.candidates
    scored = [token for each in answers for token in each.logprobs]
    if len(scored) < _MANY:
        yield encode(result)
        return
    nbytes = _SCORE_BYTES * sum([1 + len(token.top) for token in scored])
    count_held(nbytes)
    try:
        yield await asyncio.to_thread(encode, result)
    finally:
        count_let_go(nbytes)
