"""Turning a request into a sequence, or refusing it before its first token."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from guided.decoding.choice import Chooser
from guided.engine.sequence import Sequence
from guided.errors import LimitExceededError, RequestError
from guided.spec import GenerationRequest, TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["admit"]


def admit(
    request_id: str,
    request: GenerationRequest,
    prompt: tuple[TokenId, ...],
    matcher: Matcher,
    *,
    end_ids: frozenset[TokenId],
    context_window: int,
    largest_request: int,
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
    seed = request.sampling.seed
    chooser = Chooser(
        sampling=request.sampling,
        seed=secrets.randbits(63) if seed is None else seed,
        max_tokens=request.max_tokens,
        end_ids=end_ids,
    )
    return Sequence(
        request_id,
        prompt,
        matcher,
        chooser,
        request.forcing,
        is_constrained=request.constraint is not None,
    )


def _way_out(room: int) -> str:
    return f"lower max_tokens to {room}" if room > 0 else "shorten the prompt"
