"""Beam search under a constraint, as arithmetic on log-probabilities; knows no cache and no model.

All beams are compared at the same number of tokens, a *round* a token, as in the beam search of
transformers. A forced run is part of a beam before its rounds come: its tokens are fed in one call,
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

from guided.decoding.ranking import least
from guided.decoding.sampling import allowed_tokens
from guided.errors import LimitExceededError, ModelError
from guided.spec import Beams, FinishReason, Forcing, TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["BeamSearch", "Found", "Hypothesis"]


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """One token that may come next."""

    token: TokenId
    logprob: float
    after: Matcher | None
    """The position behind it; ``None`` behind a token that ends the answer."""
    narrowed: bool
    """The budget took a likelier token away."""


@dataclass(frozen=True, slots=True, eq=False)
class Hypothesis:
    """The beginning of an answer, and what is certain to follow it."""

    tokens: tuple[TokenId, ...]
    matcher: Matcher
    """The position behind the tokens; not read where the answer ends there."""
    end: FinishReason | None
    """Why the answer ends behind the tokens; ``None`` where it does not."""
    scores: tuple[float, ...] = ()
    """The sum of log-probabilities up to each token, as far as the model was asked."""
    num_forced: int = 0
    narrowed: bool = False
    ways: tuple[Way, ...] | None = None
    """How it may go on; ``None`` until the model was asked."""

    @property
    def num_fed(self) -> int:
        """Tokens that the model has to read."""
        return len(self.tokens) if self.end is None else len(self.tokens) - 1

    def wants(self, place: int) -> bool:
        """Whether logits for the token at ``place`` of the answer are still needed."""
        if place < len(self.tokens):
            return place >= len(self.scores)
        return place == len(self.tokens) and self.end is None and self.ways is None

    def is_ready(self, length: int) -> bool:
        """Whether the round behind ``length`` tokens can be made."""
        if length < len(self.tokens):
            return length < len(self.scores)
        return self.end is not None or self.ways is not None

    def score(self, length: int) -> float:
        """The sum of log-probabilities of the first ``length`` tokens."""
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
class _Step:
    """A hypothesis and one more token of it."""

    parent: int
    score: float
    way: Way | None
    """``None`` where the token is one that the hypothesis has already."""
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
        self._beams = beams
        self._max_tokens = max_tokens
        self._forcing = forcing
        self._end_ids = np.array(sorted(end_ids), dtype=np.int64)
        self._is_constrained = is_constrained
        self.length = 0
        """Tokens of every beam that count in this round."""
        self.found: list[Found] = []
        """The best answers, best first; at most as many as beams are wide."""
        root = self._settled(Hypothesis((), matcher, None), matcher)
        self.live: tuple[Hypothesis, ...] = (root,)
        """The likeliest beginnings, likeliest first."""
        if not root.tokens and root.end is not None:
            self.live = ()
            self.found = [Found((), root.end, 0.0, 0)]

    @property
    def is_over(self) -> bool:
        """Whether no better answer is in sight."""
        if not self.live:
            return True
        if len(self.found) < self._beams.width:
            return False
        if self._beams.early_stopping:
            return True
        return self._penalised(self.live[0].score(self.length), self.length) <= (
            self.found[-1].score
        )

    @property
    def is_ready(self) -> bool:
        """Whether a round can be made without asking the model."""
        return all(hypothesis.is_ready(self.length) for hypothesis in self.live)

    @property
    def stem(self) -> int:
        """How many tokens the model has to read before the beams part."""
        if len(self.live) == 1:
            return len(self.live[0].scores)
        texts = [hypothesis.tokens for hypothesis in self.live]
        first, last = min(texts), max(texts)
        return next(i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)

    def read(self, beam: int, place: int, logits: NDArray[np.float32]) -> None:
        """Take what the model says (``[vocab]``) about the token at ``place`` of an answer."""
        hypothesis = self.live[beam]
        assert hypothesis.wants(place), f"nobody asked about place {place} of beam {beam}"
        logprobs = _log_softmax(logits)
        if place == len(hypothesis.tokens):
            hypothesis = self._with_ways(hypothesis, logprobs)
        if place < len(hypothesis.tokens):
            score = hypothesis.score(place) + float(logprobs[hypothesis.tokens[place]])
            hypothesis = replace(hypothesis, scores=(*hypothesis.scores, score))
        self._replace(beam, hypothesis)

    def forget_ways(self) -> None:
        """Have the model asked again how each beam may go on."""
        self.live = tuple(replace(hypothesis, ways=None) for hypothesis in self.live)

    def advance(self) -> list[int]:
        """Make one round; by beam, the number of the former one that it goes on from.

        Of the best steps, twice as many as beams are wide, those that end an answer count among
        the first half only, as in transformers.
        """
        width = self._beams.width
        steps = sorted(self._steps(), key=attrgetter("score"), reverse=True)[: 2 * width]
        ended = [step for step in steps[:width] if step.ends]
        going = [step for step in steps if not step.ends][:width]
        self.found += [self._finished(step) for step in ended]
        self.found = sorted(self.found, key=attrgetter("score"), reverse=True)[:width]
        self.live = tuple(self._taken(step) for step in going)
        self.length += 1
        return [step.parent for step in going]

    def close(self, reason: FinishReason) -> None:
        """End all beams where they stand, along their shortest ways out.

        Their scores count the tokens that the model was asked about.
        """
        for beam in self.live:
            closed = self._closed(beam, beam.matcher) if beam.end is None else beam
            count = len(closed.scores)
            score = self._penalised(closed.score(count), max(1, count))
            self.found.append(Found(closed.tokens, reason, score, closed.num_forced))
        self.found = sorted(self.found, key=attrgetter("score"), reverse=True)[: self._beams.width]
        self.live = ()

    def _steps(self) -> list[_Step]:
        length, steps = self.length, []
        for parent, hypothesis in enumerate(self.live):
            if length < len(hypothesis.tokens):
                is_last = hypothesis.end is not None and length + 1 == len(hypothesis.tokens)
                steps.append(_Step(parent, hypothesis.score(length + 1), None, is_last))
            elif hypothesis.end is not None:
                steps.append(_Step(parent, hypothesis.score(length), None, ends=True))
            else:
                assert hypothesis.ways is not None, f"beam {parent} does not know its ways"
                for way in hypothesis.ways:
                    score = hypothesis.score(length) + way.logprob
                    steps.append(_Step(parent, score, way, self._is_end(way)))
        return steps

    def _is_end(self, way: Way) -> bool:
        is_spent = self.length + 1 == self._max_tokens
        return way.after is None or way.after.is_complete or is_spent

    def _taken(self, step: _Step) -> Hypothesis:
        """The hypothesis behind a step, with the run that follows from it."""
        hypothesis = self.live[step.parent]
        way = step.way
        if way is None or way.after is None:
            return hypothesis
        longer = replace(
            hypothesis,
            tokens=(*hypothesis.tokens, way.token),
            scores=(*hypothesis.scores, step.score),
            narrowed=hypothesis.narrowed or way.narrowed,
            ways=None,
        )
        return self._settled(longer, way.after)

    def _finished(self, step: _Step) -> Found:
        hypothesis = self._taken(step)
        is_stop = step.way is not None and step.way.after is None
        narrowed = hypothesis.narrowed or (step.way is not None and step.way.narrowed)
        reason = FinishReason.STOP if is_stop else hypothesis.end
        assert reason is not None, "an answer was found that has no end"
        if narrowed and self._is_constrained:
            reason = FinishReason.LENGTH_CLOSED
        # A token that ends the answer counts, as its log-probability does.
        count = max(1, len(hypothesis.tokens) + is_stop)
        score = self._penalised(step.score, count)
        return Found(hypothesis.tokens, reason, score, hypothesis.num_forced)

    def _settled(self, hypothesis: Hypothesis, matcher: Matcher) -> Hypothesis:
        """With what is certain to follow, and the end where nothing may follow or fit."""
        position = len(hypothesis.tokens)
        try:
            run = matcher.forced_run(self._forcing)
            after = matcher
            for token in run:
                after = after.advance(token)
            left = self._max_tokens - position - len(run)
            fits = after.fits(left)
        except LimitExceededError:
            if position == 0:
                raise  # nothing is said yet, so the request can still be refused
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
        """With the shortest way out behind it, and nothing else."""
        way_out = matcher.shortest_end()
        return replace(
            hypothesis,
            tokens=hypothesis.tokens + way_out,
            end=self._early_end(),
            num_forced=hypothesis.num_forced + len(way_out),
        )

    def _with_ways(self, hypothesis: Hypothesis, logprobs: NDArray[np.float64]) -> Hypothesis:
        """With the likeliest tokens that leave room for an end, or closed where none does."""
        matcher, left = hypothesis.matcher, self._max_tokens - len(hypothesis.tokens)
        try:
            ways, lost = self._fitting(matcher, matcher.mask(), logprobs, left)
            if lost > -np.inf:
                ways, _ = self._fitting(matcher, matcher.mask_within(left), logprobs, left)
        except LimitExceededError:
            ways = []
        if not ways:
            return self._closed(hypothesis, matcher)
        narrowed = [replace(way, narrowed=way.logprob < lost) for way in ways]
        return replace(hypothesis, ways=tuple(narrowed))

    def _fitting(
        self,
        matcher: Matcher,
        mask: NDArray[np.int32],
        logprobs: NDArray[np.float64],
        left: int,
    ) -> tuple[list[Way], float]:
        """The likeliest ways on, and the likeliest that left no room (``-inf``: none)."""
        allowed = allowed_tokens(mask, len(logprobs))
        if not logprobs[allowed].max(initial=-np.inf) <= 0:  # so too if any is NaN
            raise ModelError("the model's logits are not numbers")
        is_end = np.isin(allowed, self._end_ids)
        ways, lost = [], -np.inf
        # Which of several end tokens is meant makes no difference to the answer.
        ends = allowed[is_end]
        for index in least(-logprobs[ends], min(1, len(ends))):
            token = TokenId(int(ends[index]))
            ways.append(Way(token, float(logprobs[token]), None, narrowed=False))
        texts = allowed[~is_end]
        for index in least(-logprobs[texts], min(2 * self._beams.width, len(texts))):
            token = TokenId(int(texts[index]))
            after = matcher.advance(token)
            if after.fits(left - 1):
                ways.append(Way(token, float(logprobs[token]), after, narrowed=False))
            else:
                lost = max(lost, float(logprobs[token]))
        return ways, lost

    def _early_end(self) -> FinishReason:
        return FinishReason.LENGTH_CLOSED if self._is_constrained else FinishReason.LENGTH

    def _penalised(self, score: float, count: int) -> float:
        divisor: float = float(count) ** self._beams.length_penalty
        return score / divisor

    def _replace(self, beam: int, hypothesis: Hypothesis) -> None:
        self.live = (*self.live[:beam], hypothesis, *self.live[beam + 1 :])


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    shifted = wide - wide.max()
    logprobs: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return logprobs
