"""Turning a request into a sequence, or refusing it before its first token."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from guided.decoding.choice import Chooser
from guided.decoding.stopping import StopSearch
from guided.engine.request_clock import RequestClock
from guided.engine.sequence import Sequence
from guided.engine.text_stream import TextStream
from guided.engine.urgency import Urgency
from guided.errors import LimitExceededError, RequestError
from guided.spec import GenerationRequest, TokenId
from guided.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["admit"]


def admit(
    request_id: str,
    request: GenerationRequest,
    prompt: tuple[TokenId, ...],
    matcher: Matcher,
    *,
    urgency: Urgency,
    stream: bool,
    vocabulary: Vocabulary,
    context_window: int,
    largest_request: int,
    clock: RequestClock,
) -> Sequence:
    """Check a request against its budget, the context window and the cache."""
    if not prompt:
        raise RequestError("the prompt has no tokens", field="prompt")
    tokens = len(prompt) + request.max_tokens
    if tokens > context_window:
        raise RequestError(
            f"the prompt has {len(prompt)} tokens, and max_tokens is {request.max_tokens}: "
            f"{tokens} in all, but the context window holds {context_window}",
            field="max_tokens",
            hint=_way_out(context_window - len(prompt)),
        )
    if tokens > largest_request:
        raise LimitExceededError(
            f"the prompt has {len(prompt)} tokens, and max_tokens is {request.max_tokens}: "
            f"{tokens} in all, but the key/value cache takes {largest_request}",
            limit=largest_request,
            field="max_tokens",
            hint=_way_out(largest_request - len(prompt)) + ", or give the engine a larger cache",
        )
    if not matcher.fits(request.max_tokens):
        shortest = len(matcher.shortest_end())
        raise LimitExceededError(
            f"max_tokens is {request.max_tokens}, but the shortest answer known has "
            f"{shortest} tokens",
            limit=request.max_tokens,
            field="max_tokens",
            hint=f"allow at least {shortest}",
        )
    _check_tokens(request, vocabulary)
    seed = request.sampling.seed
    chooser = Chooser(
        sampling=request.sampling,
        seed=secrets.randbits(63) if seed is None else seed,
        max_tokens=request.max_tokens,
        end_ids=vocabulary.end_ids,
        top_logprobs=request.top_logprobs,
    )
    return Sequence(
        request_id,
        prompt,
        matcher,
        chooser,
        request.forcing,
        is_constrained=request.constraint is not None,
        clock=clock,
        stops=_stops(request, vocabulary),
        urgency=urgency,
        text_stream=_text_stream(request, vocabulary, len(prompt)) if stream else None,
    )


def _check_tokens(request: GenerationRequest, vocabulary: Vocabulary) -> None:
    """Refuse token ids that this model has not."""
    for field, tokens in (
        ("sampling.logit_bias", [token for token, _ in request.sampling.logit_bias]),
        ("stop_tokens", request.stop_tokens),
    ):
        for token in tokens:
            if not 0 <= token < len(vocabulary):
                raise RequestError(
                    f"{field} names token {token}, but the model has {len(vocabulary)} tokens",
                    field=field,
                )
    for token in request.stop_tokens:
        if vocabulary.token_bytes[token] is None and token not in vocabulary.end_ids:
            raise RequestError(
                f"stop token {token} stands for no text, so no answer ever holds it",
                field="stop_tokens",
            )


def _stops(request: GenerationRequest, vocabulary: Vocabulary) -> StopSearch | None:
    if not request.stop and not request.stop_tokens:
        return None
    return StopSearch(
        vocabulary.token_bytes,
        strings=request.stop,
        tokens=request.stop_tokens,
        include=request.include_stop,
    )


def _text_stream(request: GenerationRequest, vocabulary: Vocabulary, start: int) -> TextStream:
    held = () if request.include_stop else request.stop
    # As for a whole answer: a free or a stopped text may be cut inside a character.
    may_be_cut = request.constraint is None or request.stop or request.stop_tokens
    return TextStream(
        vocabulary.token_bytes,
        start=start,
        held=[string.encode() for string in held],
        errors="replace" if may_be_cut else "strict",
    )


def _way_out(room: int) -> str:
    return f"lower max_tokens to {room}" if room > 0 else "shorten the prompt"
