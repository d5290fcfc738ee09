"""How many tokens an answer may have: the budget of its request, and the room beside its prompt."""

from __future__ import annotations

from dataclasses import dataclass

from guided.engine.cache_size import StepLimits
from guided.errors import LimitExceededError, RequestError
from guided.kv.block_cache import BlockCache
from guided.spec import GenerationRequest

__all__ = ["TokenRoom"]

_COPIED_BLOCKS = 3
"""Blocks that a beam may need besides those of its tokens: a partly filled one of the prompt, one
that it grows into, and one still to be copied."""


@dataclass(frozen=True, slots=True)
class TokenRoom:
    """The tokens that prompt and answer may have together.

    A budget that the caller sets has to fit; the default is lowered to the room there is.
    """

    context_window: int
    """The most tokens of prompt and answer."""
    cache_tokens: int
    """The most tokens that one request may hold in the key/value cache."""
    block_size: int

    @classmethod
    def of(cls, context_window: int, cache: BlockCache, limits: StepLimits) -> TokenRoom:
        """Return the room of an engine with this cache."""
        reachable = cache.max_tokens(limits.step_tokens)
        return cls(context_window, reachable or context_window, limits.block_size)

    def budget_of(self, request: GenerationRequest, prompt_length: int) -> int:
        """Return the tokens that each answer of a request may have, thoughts included.

        Raises RequestError if the context window cannot hold them beside the prompt, and
        LimitExceededError if the cache cannot.
        """
        if request.max_tokens is not None:
            self._check_context(request.max_tokens, prompt_length)
            self._check_cache(request, request.max_tokens, prompt_length)
            return request.max_tokens
        left = self._left(request, prompt_length)
        budget = min(request.default_max_tokens, left)
        if request.min_tokens is not None and request.min_tokens > budget:
            raise RequestError(
                f"min_tokens is {request.min_tokens}, but {_lowered(budget, prompt_length)}",
                field="min_tokens",
                hint="lower it, or shorten the prompt",
            )
        return budget

    def too_small(
        self, request: GenerationRequest, prompt_length: int, shortest: int
    ) -> LimitExceededError:
        """Return the error for an answer that has at least ``shortest`` tokens, too many."""
        budget = self.budget_of(request, prompt_length)
        if budget < request.most_tokens:
            told, hint = _lowered(budget, prompt_length), "shorten the prompt"
        else:
            # The face that a request came through may have set the default to what its caller sent.
            name = "the budget" if request.max_tokens is None else "max_tokens"
            told, hint = f"{name} is {budget}", f"allow at least {shortest}"
        return LimitExceededError(
            f"{told}, but the shortest answer known has {shortest} tokens",
            limit=budget,
            field="max_tokens",
            hint=hint,
        )

    def _left(self, request: GenerationRequest, prompt_length: int) -> int:
        """Return the largest budget that fits beside a prompt; raises if none does."""
        in_context = self.context_window - prompt_length
        in_cache = self._most_in_cache(request, prompt_length)
        left = min(in_context, in_cache)
        if left < 1:
            is_cache = in_cache < in_context
            limit = self.cache_tokens if is_cache else self.context_window
            holds = "key/value cache takes" if is_cache else "context window holds"
            raise LimitExceededError(
                f"the prompt has {prompt_length} tokens and leaves no room for an answer: the "
                f"{holds} {limit}",
                limit=limit,
                field="prompt",
                hint="shorten the prompt",
            )
        return left

    def _check_context(self, max_tokens: int, prompt_length: int) -> None:
        tokens = prompt_length + max_tokens
        if tokens > self.context_window:
            raise RequestError(
                f"the prompt has {prompt_length} tokens, and max_tokens is {max_tokens}: "
                f"{tokens} in all, but the context window holds {self.context_window}",
                field="max_tokens",
                hint=_smaller_request(self.context_window - prompt_length),
            )

    def _check_cache(self, request: GenerationRequest, max_tokens: int, prompt_length: int) -> None:
        """Refuse a request that could not run to its end even with the cache to itself."""
        # Otherwise it would wait for ever, and so would every request after it.
        fitting = self._most_in_cache(request, prompt_length)
        if max_tokens <= fitting:
            return
        if request.beams is None:
            tried = request.sampling.num_candidate_tokens
            needed = max_tokens + tried
            described = f"max_tokens is {max_tokens}"
            if tried:
                described += f", with {tried} tokens tried at a place"
        else:
            width = request.beams.width
            needed = width * (max_tokens + _COPIED_BLOCKS * self.block_size)
            described = f"{width} beams of max_tokens ({max_tokens}) may take {needed}"
        raise LimitExceededError(
            f"the prompt has {prompt_length} tokens, and {described}: "
            f"{prompt_length + needed} in all, but the key/value cache takes "
            f"{self.cache_tokens}",
            limit=self.cache_tokens,
            field="max_tokens",
            hint=_smaller_request(fitting) + ", or give the engine a larger cache",
        )

    def _most_in_cache(self, request: GenerationRequest, prompt_length: int) -> int:
        """Return the largest budget for which the cache has room; below 1 if there is none.

        Sampled answers can wait for each other's blocks; beams are all present at once.
        """
        room = self.cache_tokens - prompt_length
        if request.beams is None:
            return room - request.sampling.num_candidate_tokens
        return room // request.beams.width - _COPIED_BLOCKS * self.block_size


def _lowered(budget: int, prompt_length: int) -> str:
    """Return what an error says of a default budget that the prompt has lowered."""
    return f"the prompt has {prompt_length} tokens and leaves room for {budget}"


def _smaller_request(room: int) -> str:
    """Return the hint for a request that has ``room`` tokens left beside its prompt."""
    return f"lower max_tokens to {room}" if room > 0 else "shorten the prompt"
