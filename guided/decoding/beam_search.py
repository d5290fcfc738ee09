"""Beam search under a constraint, as arithmetic on log-probabilities; knows no cache and no model.

All beams are compared at the same number of tokens, one *round* per token, as in the beam search of
transformers. A forced run joins a beam before its rounds come: its tokens are fed in one call,
which gives the log-probabilities of all of them, and its rounds then pass without a call::

    counted ......... | ahead (forced)
    {"name":  "       |  A  d  a            len(tokens) = 6, length = 3, scores of 5 tokens known
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from guided.decoding.allowed_tokens import allowed_tokens
from guided.decoding.choice import advance
from guided.decoding.filters import least, log_softmax
from guided.errors import LimitExceededError, ModelError
from guided.spec import Beams, FinishReason, Forcing, TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["BeamSearch", "Found", "Hypothesis"]


@dataclass(frozen=True, slots=True, eq=False)
class Continuation:
    """One token that may come next."""

    token: TokenId
    logprob: float
    after: Matcher | None
    """The position after it; ``None`` after a token that ends the answer."""
    narrowed: bool
    """Whether the budget ruled out a likelier token."""


@dataclass(frozen=True, slots=True, eq=False)
class Hypothesis:
    """The beginning of an answer, with the tokens that are certain to follow it."""

    tokens: tuple[TokenId, ...]
    matcher: Matcher
    """The position after the tokens; not read if the answer ends there."""
    end: FinishReason | None
    """Why the answer ends after the tokens; ``None`` if it does not."""
    scores: tuple[float, ...] = ()
    """The sum of log-probabilities up to each token, for the tokens computed so far."""
    num_forced: int = 0
    narrowed: bool = False
    continuations: tuple[Continuation, ...] | None = None
    """What may come next; ``None`` until the model has computed it."""

    @property
    def num_fed(self) -> int:
        """The number of tokens that the model has to read."""
        return len(self.tokens) if self.end is None else len(self.tokens) - 1

    def wants(self, index: int) -> bool:
        """Whether logits for the token at this index of the answer are still needed."""
        if index < len(self.tokens):
            return index >= len(self.scores)
        return index == len(self.tokens) and self.end is None and self.continuations is None

    def is_ready(self, length: int) -> bool:
        """Whether the round after ``length`` tokens can be made."""
        if length < len(self.tokens):
            return length < len(self.scores)
        return self.end is not None or self.continuations is not None

    def score(self, length: int) -> float:
        """Return the sum of log-probabilities of the first ``length`` tokens."""
        return self.scores[length - 1] if length else 0.0


@dataclass(frozen=True, slots=True)
class Found:
    """A whole answer."""

    tokens: tuple[TokenId, ...]
    finish_reason: FinishReason
    score: float
    """The sum of log-probabilities over (number of tokens) ** length_penalty."""
    num_forced: int


@dataclass(frozen=True, slots=True, eq=False)
class _Extension:
    """A hypothesis and one more token of it."""

    parent: int
    score: float
    continuation: Continuation | None
    """``None`` where the hypothesis already has the token."""
    ends: bool


class BeamSearch:
    """The beams of one request and the answers that they found."""

    def __init__(
        self,
        beams: Beams,
        matcher: Matcher,
        *,
        max_tokens: int,
        forcing: Forcing,
        end_ids: frozenset[TokenId],
        is_constrained: bool,
    ) -> None:
        self.width = beams.width
        """The most beams."""
        self._beams = beams
        self._max_tokens = max_tokens
        self._forcing = forcing
        self._end_ids = np.array(sorted(end_ids), dtype=np.int64)
        self._is_constrained = is_constrained
        self.length = 0
        """Tokens of every beam that count in this round."""
        self.found: list[Found] = []
        """The best answers, best first; at most as many as the beam width."""
        root = self._with_run(Hypothesis((), matcher, None), matcher)
        self.live: tuple[Hypothesis, ...] = (root,)
        """The likeliest beginnings, likeliest first."""
        # Nothing can be chosen: the empty text is the only answer.
        if not root.tokens and root.end is not None:
            self.live = ()
            self.found = [Found((), root.end, 0.0, 0)]

    @property
    def is_over(self) -> bool:
        """Whether no better answer is in sight."""
        if not self.live:
            return True
        if len(self.found) < self.width:
            return False
        if self._beams.early_stopping:
            return True
        # The score within reach is estimated by the best beam's present one, as in transformers.
        best = self._penalised(self.live[0].score(self.length), self.length)
        return best <= self.found[-1].score

    @property
    def is_ready(self) -> bool:
        """Whether a round can be made without a model call."""
        return all(hypothesis.is_ready(self.length) for hypothesis in self.live)

    @property
    def num_shared(self) -> int:
        """The number of tokens that the model has to read before the beams part."""
        if len(self.live) == 1:
            return len(self.live[0].scores)
        texts = [hypothesis.tokens for hypothesis in self.live]
        # All texts have the common beginning of the first and the last in sorted order.
        first, last = min(texts), max(texts)
        return next(i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)

    def read(self, beam: int, index: int, logits: NDArray[np.float32]) -> None:
        """Take the logits (``[vocab]``) for the token at this index of an answer."""
        hypothesis = self.live[beam]
        assert hypothesis.wants(index), f"nobody asked about token {index} of beam {beam}"
        logprobs = log_softmax(logits.astype(np.float64))
        if index == len(hypothesis.tokens):
            hypothesis = self._with_continuations(hypothesis, logprobs)
        # If nothing fits, the line above closed the hypothesis, and it has a token here.
        if index < len(hypothesis.tokens):
            score = hypothesis.score(index) + float(logprobs[hypothesis.tokens[index]])
            hypothesis = replace(hypothesis, scores=(*hypothesis.scores, score))
        # Hypotheses are frozen: several beams may have come from the same one.
        self.live = (*self.live[:beam], hypothesis, *self.live[beam + 1 :])

    def forget_continuations(self) -> None:
        """Make the model compute again what may come next in each beam."""
        self.live = tuple(replace(hypothesis, continuations=None) for hypothesis in self.live)

    def advance(self) -> list[int]:
        """Make one round; return, for each beam, the index of the earlier beam that it continues.

        Of the best extensions, twice as many as the beam width, those that end an answer count only
        in the first half, as in transformers.
        """
        best = sorted(self._extensions(), key=attrgetter("score"), reverse=True)[: 2 * self.width]
        # If all of the first half end, the search continues with the second half.
        ended = [extension for extension in best[: self.width] if extension.ends]
        going = [extension for extension in best if not extension.ends][: self.width]
        self._add([self._finished(extension) for extension in ended])
        self.live = tuple([self._extended(extension) for extension in going])
        self.length += 1
        return [extension.parent for extension in going]

    def close_for_deadline(self) -> None:
        """End all beams where they stand, along their shortest completions.

        Their scores count only the tokens that the model has scored.
        """
        reason = FinishReason.DEADLINE_CLOSED if self._is_constrained else FinishReason.DEADLINE
        found = []
        for beam in self.live:
            # If the end of a beam is known, its last tokens are there already.
            closed = self._closed(beam, beam.matcher) if beam.end is None else beam
            count = len(closed.scores)
            # The model has not scored the tokens of a completion.
            score = self._penalised(closed.score(count), max(1, count))
            found.append(Found(closed.tokens, reason, score, closed.num_forced))
        self._add(found)
        self.live = ()

    def _add(self, found: list[Found]) -> None:
        everything = sorted(self.found + found, key=attrgetter("score"), reverse=True)
        self.found = everything[: self.width]

    def _extensions(self) -> list[_Extension]:
        """Return all ways to make each beam one token longer, or to end it."""
        length, found = self.length, []
        for parent, hypothesis in enumerate(self.live):
            # A forced run is in the hypothesis already; a round only counts its next token.
            if length < len(hypothesis.tokens):
                is_last = hypothesis.end is not None and length + 1 == len(hypothesis.tokens)
                found.append(_Extension(parent, hypothesis.score(length + 1), None, is_last))
            elif hypothesis.end is not None:
                # An empty completion closed it, after its last token was counted.
                found.append(_Extension(parent, hypothesis.score(length), None, ends=True))
            else:
                assert hypothesis.continuations is not None, f"beam {parent} was not asked about"
                for one in hypothesis.continuations:
                    is_end = one.after is None or one.after.is_complete
                    ends = is_end or length + 1 == self._max_tokens
                    score = hypothesis.score(length) + one.logprob
                    found.append(_Extension(parent, score, one, ends))
        return found

    def _extended(self, extension: _Extension) -> Hypothesis:
        """Return the hypothesis with its next token, and the run that follows from it."""
        hypothesis, chosen = self.live[extension.parent], extension.continuation
        if chosen is None or chosen.after is None:
            return hypothesis
        longer = replace(
            hypothesis,
            tokens=(*hypothesis.tokens, chosen.token),
            scores=(*hypothesis.scores, extension.score),
            narrowed=hypothesis.narrowed or chosen.narrowed,
            continuations=None,
        )
        return self._with_run(longer, chosen.after)

    def _finished(self, extension: _Extension) -> Found:
        """Return the answer of an extension that ends one."""
        hypothesis, chosen = self._extended(extension), extension.continuation
        is_stop = chosen is not None and chosen.after is None
        reason = FinishReason.STOP if is_stop else hypothesis.end
        assert reason is not None, "an answer was found that has no end"
        narrowed = hypothesis.narrowed or (chosen is not None and chosen.narrowed)
        # The caller learns that a likelier answer did not fit in the tokens left.
        if narrowed and self._is_constrained:
            reason = FinishReason.LENGTH_CLOSED
        # A token that ends the answer counts, because its log-probability does.
        count = max(1, len(hypothesis.tokens) + is_stop)
        score = self._penalised(extension.score, count)
        return Found(hypothesis.tokens, reason, score, hypothesis.num_forced)

    def _with_run(self, hypothesis: Hypothesis, matcher: Matcher) -> Hypothesis:
        """Return the hypothesis with the run that follows; it ends if nothing may follow or fit."""
        position = len(hypothesis.tokens)
        # As ``AnswerState`` does for sampled answers.
        try:
            run = matcher.forced_run(self._forcing)
            after = advance(matcher, run)
            left = self._max_tokens - position - len(run)
            fits = after.fits(left)
        except LimitExceededError:
            if position == 0:
                raise  # no token is out yet, so the request can still be refused
            fits = False
        if not fits:
            return self._closed(hypothesis, matcher)
        end = None
        if after.is_complete:
            end = FinishReason.COMPLETE
        elif left == 0:
            end = self._early_end()
        return replace(
            hypothesis,
            tokens=hypothesis.tokens + run,
            matcher=after,
            end=end,
            num_forced=hypothesis.num_forced + len(run),
        )

    def _closed(self, hypothesis: Hypothesis, matcher: Matcher) -> Hypothesis:
        """Return the hypothesis followed by the shortest completion."""
        completion = matcher.shortest_completion()
        return replace(
            hypothesis,
            tokens=hypothesis.tokens + completion,
            end=self._early_end(),
            num_forced=hypothesis.num_forced + len(completion),
        )

    def _with_continuations(
        self, hypothesis: Hypothesis, logprobs: NDArray[np.float64]
    ) -> Hypothesis:
        """Add the likeliest continuations that leave room for an end, or close the hypothesis."""
        matcher, left = hypothesis.matcher, self._max_tokens - len(hypothesis.tokens)
        try:
            found, lost = self._fitting(matcher, matcher.mask(), logprobs, left)
            # Only near the end of the budget, because finding all tokens that fit takes longer.
            if lost > -np.inf:
                found, _ = self._fitting(matcher, matcher.mask_within(left), logprobs, left)
        except LimitExceededError:
            found = []
        if not found:
            return self._closed(hypothesis, matcher)
        narrowed = [replace(one, narrowed=one.logprob < lost) for one in found]
        return replace(hypothesis, continuations=tuple(narrowed))

    def _fitting(
        self,
        matcher: Matcher,
        mask: NDArray[np.int32],
        logprobs: NDArray[np.float64],
        left: int,
    ) -> tuple[list[Continuation], float]:
        """Return the likeliest tokens that fit, and the likeliest that did not (``-inf``: none)."""
        allowed = allowed_tokens(mask, len(logprobs))
        if not logprobs[allowed].max(initial=-np.inf) <= 0:  # also true if any is NaN
            raise ModelError("the model's logits are not numbers")
        is_end = np.isin(allowed, self._end_ids)
        found, lost = [], -np.inf
        # Which of several end tokens is chosen makes no difference to the answer.
        ends = allowed[is_end]
        for index in least(-logprobs[ends], min(1, len(ends))):
            token = TokenId(int(ends[index]))
            found.append(Continuation(token, float(logprobs[token]), None, narrowed=False))
        # A round considers twice the width of extensions, and one beam may have all of them.
        texts = allowed[~is_end]
        for index in least(-logprobs[texts], min(2 * self.width, len(texts))):
            token = TokenId(int(texts[index]))
            after = matcher.advance(token)
            if after.fits(left - 1):
                found.append(Continuation(token, float(logprobs[token]), after, narrowed=False))
            else:
                lost = max(lost, float(logprobs[token]))
        return found, lost

    def _early_end(self) -> FinishReason:
        return FinishReason.LENGTH_CLOSED if self._is_constrained else FinishReason.LENGTH

    def _penalised(self, score: float, count: int) -> float:
        divisor: float = float(count) ** self._beams.length_penalty
        return score / divisor
