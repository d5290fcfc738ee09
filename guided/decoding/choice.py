"""The choice of one token, so that the answer can still end within its budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.decoding.device_draw import DeviceDraw
from guided.decoding.logprobs import ChoiceLogprobs, choice_logprobs
from guided.decoding.penalties import History
from guided.decoding.rejection import Proposal, choose_by_rejection
from guided.decoding.sampling import choose_token, noise_stream, score_tokens
from guided.decoding.token_distribution import TokenDistribution
from guided.errors import LimitExceededError
from guided.masks.mask import allows
from guided.masks.matcher import Matcher
from guided.spec import Forcing, Sampling, TokenId, Verification

__all__ = [
    "Chooser",
    "ChosenToken",
    "FinalCompletion",
    "ForcedContinuation",
    "advance",
    "forced_at",
]


class ChosenToken(NamedTuple):
    """A token that the model chose, and where it leads."""

    token: TokenId
    matcher: Matcher | None
    """The position after the token; ``None`` if the token ends the answer."""
    budget_limited: bool
    """Whether the budget ruled out the first choice, which left no room for an end."""
    logprobs: ChoiceLogprobs | None = None
    """Its log-probabilities, if the request wants them."""


class ForcedContinuation(NamedTuple):
    """The tokens that follow a position without a choice: a forced run, or the end."""

    tokens: tuple[TokenId, ...]
    after: Matcher
    """The position after the tokens; where the answer is closed, the one before them."""
    closes: bool
    """Whether the tokens are the shortest completion, because others might exceed the budget."""


_MIN_DEVICE_TEMPERATURE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class FinalCompletion:
    """The result of a choice where the answer has to end: its last tokens, without a choice.

    The budget leaves room for nothing else, or the constraint is at a limit.
    """

    tokens: tuple[TokenId, ...]
    """The constraint's shortest completion."""


@dataclass(frozen=True, slots=True)
class Chooser:
    """The options, besides the logits, that the choices of one answer depend on."""

    sampling: Sampling
    seed: int
    max_tokens: int
    end_ids: frozenset[TokenId]
    top_logprobs: int | None = None
    """The likeliest tokens to look up beside the chosen one; ``None`` looks nothing up."""
    verification: Verification = Verification.COUPLED
    """The verification that the request wants; see ``rule``."""

    @property
    def rule(self) -> Verification:
        """The rule by which drafted tokens stay: coupled if no token is drawn."""
        return Verification.COUPLED if self.sampling.temperature == 0.0 else self.verification

    def remaining(self, position: int) -> int:
        """Return how many tokens the answer may still have when it has ``position`` of them."""
        return self.max_tokens - position

    def can_complete(self, matcher: Matcher, position: int) -> bool:
        """Whether an answer of ``position`` tokens can still end within its budget."""
        return matcher.can_complete_within(self.remaining(position))

    def can_continue(self, matcher: Matcher, position: int) -> bool:
        """As ``can_complete``, but False where the constraint meets a limit instead of raising."""
        try:
            return self.can_complete(matcher, position)
        except LimitExceededError:
            return False

    def choose(
        self,
        logits: NDArray[np.float32],
        matcher: Matcher,
        position: int,
        history: History,
        proposals: Sequence[Proposal] = (),
    ) -> ChosenToken | FinalCompletion:
        """Choose the token at ``position`` of an answer that fits so far.

        ``proposals`` are tried by rejection, which leaves the distribution of the choice unchanged.
        Returns ``FinalCompletion`` if only the shortest completion fits the budget, or if the
        constraint meets a limit here.
        """
        try:
            return self._choose(logits, matcher, position, history, proposals)
        except LimitExceededError:
            return FinalCompletion(matcher.shortest_completion())

    def device_draw(self, matcher: Matcher, position: int) -> DeviceDraw | None:
        """Return what the device needs to draw the token at ``position`` itself.

        ``None`` if the draw depends on more than a mask and a temperature. Raises what
        ``Matcher.mask`` raises.
        """
        sampling = self.sampling
        is_plain = (
            not sampling.adjusts_logits
            and (sampling.temperature == 0.0 or not sampling.filters)
            # A lower temperature rounds divided scores otherwise than the shifted ones here.
            and not 0.0 < sampling.temperature < _MIN_DEVICE_TEMPERATURE
            and self.top_logprobs is None
            and self.rule is Verification.COUPLED
        )
        if not is_plain:
            return None
        stream = noise_stream(self.seed, position)
        return DeviceDraw(matcher.mask(), sampling.temperature, stream)

    def accept_device_token(
        self, token: TokenId, matcher: Matcher, position: int
    ) -> ChosenToken | None:
        """Return the choice of a token that was drawn on the device (``device_draw``).

        ``None`` if the budget or a limit, of which the device knows nothing, rules the token out.
        Then the caller has to ``choose`` from the logits.
        """
        after = None if token in self.end_ids else matcher
        try:
            if after is not None:
                after = after.advance(token)
                if not self.can_complete(after, position + 1):
                    return None
        except LimitExceededError:
            return None
        return ChosenToken(token, after, budget_limited=False)

    def distribution(
        self, logits: NDArray[np.float32], matcher: Matcher, position: int, history: History
    ) -> TokenDistribution:
        """Return the distribution that the token at ``position`` is drawn from, without a budget.

        The temperature is not 0.
        """
        scored = score_tokens(
            logits, matcher.mask(), self.sampling, position=position, history=history
        )
        return TokenDistribution.from_scores(*scored)

    def _choose(
        self,
        logits: NDArray[np.float32],
        matcher: Matcher,
        position: int,
        history: History,
        proposals: Sequence[Proposal],
    ) -> ChosenToken | FinalCompletion:
        """Choose as in ``choose``; a limit of the constraint raises LimitExceededError."""
        # First without the budget: it matters only near its end, and finding all tokens that fit
        # takes longer than testing one.
        if proposals:
            whole = self.distribution(logits, matcher, position, history)
            token = choose_by_rejection(whole, proposals, seed=self.seed, position=position)
            choice = self.make_choice(logits, matcher.mask(), token, matcher)
        else:
            choice = self._draw(logits, matcher, None, position, history)
        if choice.matcher is None or self.can_complete(choice.matcher, position + 1):
            return choice
        # The choice itself may be in this mask, see the last comment; drawing it again is useless.
        within = matcher.mask_within(self.remaining(position))
        if not allows(within, choice.token):
            # Without proposals both draws have the same noise, with them the second has another.
            # Either way, the two together are one draw from the tokens that fit.
            choice = self._draw(logits, matcher, within, position, history)
            choice = choice._replace(budget_limited=True)
            if choice.matcher is None or self.can_complete(choice.matcher, position + 1):
                return choice
        # Completions are short but not always the shortest: after the first token of one that
        # fits, a longer one may be found that does not. Then the first is taken whole.
        return FinalCompletion(matcher.shortest_completion())

    def _draw(
        self,
        logits: NDArray[np.float32],
        matcher: Matcher,
        within: NDArray[np.int32] | None,
        position: int,
        history: History,
    ) -> ChosenToken:
        """Draw a token from the mask, or from the part of it that is ``within`` the budget."""
        mask = matcher.mask()
        token = choose_token(
            logits,
            mask,
            self.sampling,
            seed=self.seed,
            position=position,
            history=history,
            within=within,
        )
        # Log-probabilities are relative to the tokens that could be drawn.
        return self.make_choice(logits, mask if within is None else within, token, matcher)

    def make_choice(
        self, logits: NDArray[np.float32], mask: NDArray[np.int32], token: TokenId, matcher: Matcher
    ) -> ChosenToken:
        """Return the choice of this token: the position after it, and its log-probabilities."""
        # A token that ends the answer is not text, so the constraint does not read it.
        after = None if token in self.end_ids else matcher.advance(token)
        logprobs = None
        if self.top_logprobs is not None:
            logprobs = choice_logprobs(logits, mask, token, top=self.top_logprobs)
        return ChosenToken(token, after, budget_limited=False, logprobs=logprobs)


def forced_at(
    matcher: Matcher, length: int, forcing: Forcing, max_tokens: int
) -> ForcedContinuation:
    """Return the tokens forced at a position of an answer of ``length`` tokens.

    A run that would leave no room for an end is replaced by the shortest completion. That always
    fits, because it fits at every position that an answer reaches.
    """
    try:
        run = matcher.forced_run(forcing)
        after = advance(matcher, run)
        fits = not run or after.can_complete_within(max_tokens - length - len(run))
    except LimitExceededError:
        # The constraint is at a limit: from here on only the known completion is certain.
        if length == 0:
            raise  # no token is out yet, so the request can still be refused
        fits = False
    if not fits:
        return ForcedContinuation(matcher.shortest_completion(), matcher, closes=True)
    return ForcedContinuation(run, after, closes=False)


def advance(matcher: Matcher, tokens: Iterable[TokenId]) -> Matcher:
    """Return the position after some tokens."""
    for token in tokens:
        matcher = matcher.advance(token)
    return matcher
