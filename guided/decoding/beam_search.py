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
from guided.decoding.choice import forced_at
from guided.decoding.filters import log_softmax, smallest_indices
from guided.errors import LimitExceededError, ModelError
from guided.spec import Beams, FinishReason, Forcing, TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["BeamAnswer", "BeamSearch", "Hypothesis"]


@dataclass(frozen=True, slots=True, eq=False)
class Continuation:
    """One token that may come next."""

    token: TokenId
    logprob: float
    after: Matcher | None
    """The position after it; ``None`` after a token that ends the answer."""
    budget_limited: bool
    """Whether the budget ruled out a likelier token."""


@dataclass(frozen=True, slots=True, eq=False)
class Hypothesis:
    """The beginning of an answer, with the tokens that are certain to follow it."""

    tokens: tuple[TokenId, ...]
    matcher: Matcher
    """The position after the tokens; not read if the answer ends there."""
    finish_reason: FinishReason | None
    """Why the answer ends after the tokens; ``None`` if it does not."""
    scores: tuple[float, ...] = ()
    """The sum of log-probabilities up to each token, for the tokens computed so far."""
    num_forced: int = 0
    budget_limited: bool = False
    continuations: tuple[Continuation, ...] | None = None
    """What may come next; ``None`` until the model has computed it."""

    @property
    def num_fed(self) -> int:
        """The number of tokens that the model has to read."""
        return len(self.tokens) if self.finish_reason is None else len(self.tokens) - 1

    def needs_logits(self, index: int) -> bool:
        """Whether logits for the token at this index of the answer are still needed."""
        if index < len(self.tokens):
            return index >= len(self.scores)
        is_next = index == len(self.tokens)
        return is_next and self.finish_reason is None and self.continuations is None

    def is_ready(self, length: int) -> bool:
        """Whether the round after ``length`` tokens can be made."""
        if length < len(self.tokens):
            return length < len(self.scores)
        return self.finish_reason is not None or self.continuations is not None

    def score(self, length: int) -> float:
        """Return the sum of log-probabilities of the first ``length`` tokens."""
        return self.scores[length - 1] if length else 0.0


@dataclass(frozen=True, slots=True)
class BeamAnswer:
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
        """``matcher`` is at the first token of the answer.

        ``is_constrained`` says whether the answer itself, apart from thoughts, has a constraint; it
        decides only finish reasons. Raises LimitExceededError if its first tokens exceed a limit.
        """
        self.width = beams.width
        """The beam width: the most beams."""
        self._beams = beams
        self._max_tokens = max_tokens
        self._forcing = forcing
        self._end_ids = np.array(sorted(end_ids), dtype=np.int64)
        self._is_constrained = is_constrained
        self.length = 0
        """Tokens of every beam that count in this round."""
        self.num_chosen = 0
        """Rounds in which the model chose: the others only counted tokens of forced runs."""
        self.answers: list[BeamAnswer] = []
        """The best answers, best first; at most as many as the beam width."""
        root = self._append_forced_run(Hypothesis((), matcher, None))
        self.live: tuple[Hypothesis, ...] = (root,)
        """The beams that are not answers yet, likeliest first."""
        # The empty text is the only answer: the search is over without a model call.
        if not root.tokens and root.finish_reason is not None:
            self.live = ()
            self.answers = [BeamAnswer((), root.finish_reason, 0.0, 0)]

    @property
    def is_over(self) -> bool:
        """Whether no better answer is in sight."""
        if not self.live:
            return True
        if len(self.answers) < self.width:
            return False
        if self._beams.early_stopping:
            return True
        # The score within reach is estimated by the best beam's present one, as in transformers.
        best = self._apply_length_penalty(self.live[0].score(self.length), self.length)
        return best <= self.answers[-1].score

    @property
    def is_ready(self) -> bool:
        """Whether a round can be made without a model call."""
        return all(hypothesis.is_ready(self.length) for hypothesis in self.live)

    @property
    def num_shared(self) -> int:
        """The number of tokens at the start that all beams have in common."""
        if len(self.live) == 1:
            return len(self.live[0].scores)
        texts = [hypothesis.tokens for hypothesis in self.live]
        # All texts have the common beginning of the first and the last in sorted order.
        first, last = min(texts), max(texts)
        return next(i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)

    def read_logits(self, beam: int, index: int, logits: NDArray[np.float32]) -> None:
        """Score the token at this index of a beam by its logits (``[vocab]``).

        At the index after the last token, find the beam's continuations instead.
        """
        hypothesis = self.live[beam]
        assert hypothesis.needs_logits(index), f"token {index} of beam {beam} needs no logits"
        logprobs = log_softmax(logits.astype(np.float64))
        if index == len(hypothesis.tokens):
            hypothesis = self._find_continuations(hypothesis, logprobs)
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
        extensions = sorted(self._list_extensions(), key=attrgetter("score"), reverse=True)
        best = extensions[: 2 * self.width]
        # If all of the first half end, the search continues with the second half.
        ended = [extension for extension in best[: self.width] if extension.ends]
        continuing = [extension for extension in best if not extension.ends][: self.width]
        # Both take long where constraints do, and may be given up: then nothing has changed.
        answers = [self._finish(extension) for extension in ended]
        live = tuple([self._extend(extension) for extension in continuing])
        self._add_answers(answers)
        self.live = live
        self.length += 1
        self.num_chosen += any(each.continuation is not None for each in best)
        return [extension.parent for extension in continuing]

    def close_for_deadline(self) -> None:
        """End all beams where they stand, along their shortest completions.

        Their scores count only the tokens that the model has scored.
        """
        reason = FinishReason.DEADLINE_CLOSED if self._is_constrained else FinishReason.DEADLINE
        found = []
        for beam in self.live:
            # If the end of a beam is known, its last tokens are there already.
            closed = self._close(beam) if beam.finish_reason is None else beam
            count = len(closed.scores)
            # The model has not scored the tokens of a completion.
            score = self._apply_length_penalty(closed.score(count), max(1, count))
            found.append(BeamAnswer(closed.tokens, reason, score, closed.num_forced))
        self._add_answers(found)
        self.live = ()

    def _add_answers(self, answers: list[BeamAnswer]) -> None:
        """Add answers, and keep the best, as many as the beam width."""
        by_score = sorted(self.answers + answers, key=attrgetter("score"), reverse=True)
        self.answers = by_score[: self.width]

    def _list_extensions(self) -> list[_Extension]:
        """Return every continuation of every beam by one token, and the ends of beams that end."""
        length, found = self.length, []
        for parent, hypothesis in enumerate(self.live):
            # A forced run is in the hypothesis already; a round only counts its next token.
            if length < len(hypothesis.tokens):
                is_last = length + 1 == len(hypothesis.tokens)
                ends = is_last and hypothesis.finish_reason is not None
                found.append(_Extension(parent, hypothesis.score(length + 1), None, ends))
            elif hypothesis.finish_reason is not None:
                # An empty completion closed it, after its last token was counted.
                found.append(_Extension(parent, hypothesis.score(length), None, ends=True))
            else:
                assert hypothesis.continuations is not None, (
                    f"beam {parent} has no continuations yet"
                )
                for one in hypothesis.continuations:
                    is_end = one.after is None or one.after.is_complete
                    ends = is_end or length + 1 == self._max_tokens
                    score = hypothesis.score(length) + one.logprob
                    found.append(_Extension(parent, score, one, ends))
        return found

    def _extend(self, extension: _Extension) -> Hypothesis:
        """Return the hypothesis with its next token, and the run that this token forces."""
        hypothesis, chosen = self.live[extension.parent], extension.continuation
        if chosen is None or chosen.after is None:
            return hypothesis
        longer = replace(
            hypothesis,
            tokens=(*hypothesis.tokens, chosen.token),
            matcher=chosen.after,
            scores=(*hypothesis.scores, extension.score),
            budget_limited=hypothesis.budget_limited or chosen.budget_limited,
            continuations=None,
        )
        return self._append_forced_run(longer)

    def _finish(self, extension: _Extension) -> BeamAnswer:
        """Return the answer of an extension that ends one."""
        hypothesis, chosen = self._extend(extension), extension.continuation
        is_stop = chosen is not None and chosen.after is None
        reason = FinishReason.STOP if is_stop else hypothesis.finish_reason
        assert reason is not None, "an answer was found that has no end"
        budget_limited = hypothesis.budget_limited or (chosen is not None and chosen.budget_limited)
        # The caller learns that a likelier answer did not fit in the tokens left.
        if budget_limited and self._is_constrained:
            reason = FinishReason.LENGTH_CLOSED
        # A token that ends the answer counts, because its log-probability does.
        count = max(1, len(hypothesis.tokens) + is_stop)
        score = self._apply_length_penalty(extension.score, count)
        return BeamAnswer(hypothesis.tokens, reason, score, hypothesis.num_forced)

    def _append_forced_run(self, hypothesis: Hypothesis) -> Hypothesis:
        """Return the hypothesis with the tokens that are forced after it, which have no score yet.

        It ends if nothing may follow or no token is left, or with the shortest completion where
        ``forced_at`` closes it.
        """
        forced = forced_at(
            hypothesis.matcher, len(hypothesis.tokens), self._forcing, self._max_tokens
        )
        if forced.closes:
            return self._close(hypothesis)
        tokens, reason = hypothesis.tokens + forced.tokens, None
        if forced.after.is_complete:
            reason = FinishReason.COMPLETE
        elif len(tokens) == self._max_tokens:
            reason = self._early_finish_reason()
        return replace(
            hypothesis,
            tokens=tokens,
            matcher=forced.after,
            finish_reason=reason,
            num_forced=hypothesis.num_forced + len(forced.tokens),
        )

    def _close(self, hypothesis: Hypothesis) -> Hypothesis:
        """Return the hypothesis followed by the shortest completion."""
        completion = hypothesis.matcher.shortest_completion()
        return replace(
            hypothesis,
            tokens=hypothesis.tokens + completion,
            finish_reason=self._early_finish_reason(),
            num_forced=hypothesis.num_forced + len(completion),
        )

    def _find_continuations(
        self, hypothesis: Hypothesis, logprobs: NDArray[np.float64]
    ) -> Hypothesis:
        """Return the hypothesis with its likeliest continuations that can still end in the budget.

        If there are none, return it with its shortest completion.
        """
        matcher, left = hypothesis.matcher, self._max_tokens - len(hypothesis.tokens)
        try:
            mask = matcher.mask()
            found, rejected_logprob = self._split_by_budget(matcher, mask, logprobs, left)
            # Only near the end of the budget, because finding all tokens that fit takes longer.
            if rejected_logprob > -np.inf:
                found, _ = self._split_by_budget(matcher, matcher.mask_within(left), logprobs, left)
        except LimitExceededError:
            found = []
        if not found:
            return self._close(hypothesis)
        continuations = [
            replace(one, budget_limited=one.logprob < rejected_logprob) for one in found
        ]
        return replace(hypothesis, continuations=tuple(continuations))

    def _split_by_budget(
        self,
        matcher: Matcher,
        mask: NDArray[np.int32],
        logprobs: NDArray[np.float64],
        left: int,
    ) -> tuple[list[Continuation], float]:
        """Return the likeliest continuations with which the answer can end within ``left`` tokens.

        Also returns the log-probability of the likeliest one rejected for that, -inf if none was.
        End tokens are never rejected.
        """
        allowed = allowed_tokens(mask, len(logprobs))
        if not logprobs[allowed].max(initial=-np.inf) <= 0:  # also true if any is NaN
            raise ModelError("the model's logits are not numbers")
        is_end = np.isin(allowed, self._end_ids)
        found, rejected_logprob = [], -np.inf
        # Which of several end tokens is chosen makes no difference to the answer.
        ends = allowed[is_end]
        for index in smallest_indices(-logprobs[ends], min(1, len(ends))):
            token = TokenId(int(ends[index]))
            found.append(Continuation(token, float(logprobs[token]), None, budget_limited=False))
        # A round considers twice the width of extensions, and one beam may have all of them.
        texts = allowed[~is_end]
        for index in smallest_indices(-logprobs[texts], min(2 * self.width, len(texts))):
            token = TokenId(int(texts[index]))
            logprob, after = float(logprobs[token]), matcher.advance(token)
            if after.can_complete_within(left - 1):
                found.append(Continuation(token, logprob, after, budget_limited=False))
            else:
                rejected_logprob = max(rejected_logprob, logprob)
        return found, rejected_logprob

    def _early_finish_reason(self) -> FinishReason:
        return FinishReason.LENGTH_CLOSED if self._is_constrained else FinishReason.LENGTH

    def _apply_length_penalty(self, score: float, count: int) -> float:
        divisor: float = float(count) ** self._beams.length_penalty
        return score / divisor
