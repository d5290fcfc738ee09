"""The answers of one request that are drawn, one or several."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import fields

from guided.engine.completeness import checked
from guided.engine.contrast import WaitingContrast
from guided.engine.preparation import Preparation
from guided.engine.running import WaitingSequence
from guided.engine.scoring import Scorer, by_likelihood
from guided.engine.sequence import Sequence
from guided.engine.work import Waiting
from guided.masks.vocabulary import Vocabulary
from guided.spec import CandidateResult, FinishReason, GenerationResult, Usage

__all__ = ["DrawnGroup"]


class DrawnGroup:
    """Sequences that start from the same prompt with seeds of their own.

    The first one computes the prompt; the others are its twins until then, and go on from there.
    """

    def __init__(
        self,
        asked: Preparation,
        members: Items[Sequence],
        scorer: Scorer = by_likelihood,
    ) -> None:
        self.request_id = asked.request_id
        self.urgency = asked.urgency
        self.cache_salt = asked.request.cache_salt
        self.clock = asked.clock
        self.model_calls = 0
        self._request = asked.request
        self._members = tuple(members)
        self._scorer = scorer
        self._members[0].twins = self._members[1:]

    @property
    def first(self) -> Waiting:
        """The one that computes the prompt."""
        first = self._members[0]
        if first.chooser.sampling.is_contrastive:
            return WaitingContrast(first)
        return WaitingSequence(first)

    @property
    def is_finished(self) -> bool:
        """Whether all have come to an end."""
        return all(member.finish_reason is not None for member in self._members)

    @property
    def num_chosen(self) -> int:
        """Tokens of all answers that the model chose."""
        return sum(member.num_chosen for member in self._members)

    def new_text(self) -> str:
        """What became certain of the text of the one answer, where it is streamed."""
        return self._members[0].new_text()

    def close_for_deadline(self) -> None:
        """End what has not ended along its way out."""
        for member in self._members:
            if member.finish_reason is None:
                member.close_for_deadline()

    def result(self, vocabulary: Vocabulary) -> GenerationResult:
        """The first answer, or the best one, and the others behind it where they were asked for.

        Raises IncompleteAnswerError where the request wants none that was cut short.
        """
        candidates = self._candidates(vocabulary)
        if self._request.best_of is not None:
            candidates.sort(key=lambda candidate: -candidate.score)
        given = candidates[: self._request.n]
        result = GenerationResult(
            text=given[0].text,
            tokens=given[0].tokens,
            finish_reason=given[0].finish_reason,
            usage=self.usage(),
            seconds=self.clock.seconds,
            timing=self.clock.timing(len(given[0].tokens)),
            logprobs=given[0].logprobs,
            candidates=tuple(given) if self._request.has_candidates else (),
        )
        return checked(result, self._request)

    def _candidates(self, vocabulary: Vocabulary) -> list[CandidateResult]:
        scores = self._scorer(self._members) if self._request.has_candidates else [0.0]
        tells = self._request.top_logprobs is not None
        return [
            CandidateResult(
                index=index,
                text=member.text(vocabulary),
                tokens=member.answer,
                finish_reason=_reason(member),
                score=score,
                logprobs=member.told_logprobs(vocabulary) if tells else (),
            )
            for index, (member, score) in enumerate(zip(self._members, scores, strict=True))
        ]

    def usage(self) -> Usage:
        """What all members cost; they have the prompt and their model calls in common."""
        costs = [member.usage() for member in self._members]
        sums = {
            field.name: sum(getattr(cost, field.name) for cost in costs) for field in fields(Usage)
        }
        common = {
            "prompt_tokens": self._members[0].prompt_length,
            "model_calls": self.model_calls,
        }
        return Usage(**sums | common)


def _reason(sequence: Sequence) -> FinishReason:
    reason = sequence.finish_reason
    assert reason is not None, f"request {sequence.request_id!r} is still running"
    return reason
