"""The group of answers to one request, and the result made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from guided.drafters.union import DrafterUnion
from guided.engine.answer_state import AnswerState
from guided.engine.contrastive import ContrastiveRunnable
from guided.engine.incomplete import check_complete
from guided.engine.runnable import Runnable
from guided.engine.sampled import SampledRunnable
from guided.engine.scoring import Scorer, by_likelihood
from guided.engine.submission import Submission
from guided.masks.vocabulary import Vocabulary
from guided.spec import (
    CandidateResult,
    GenerationResult,
    TokenLogprobs,
    Usage,
)

__all__ = ["Group", "SampledGroup"]


class Group:
    """The answers of one request; they end as a whole. Subclasses say how they are made."""

    def __init__(self, submission: Submission) -> None:
        self.submission = submission
        self.request_id = submission.request_id
        self.order = submission.order
        self.clock = submission.clock
        self.model_calls = 0
        """Forward passes that it took part in."""
        self.target_nanoseconds = 0
        """Its share of the time of those passes."""
        self.mask_nanoseconds = 0
        """Time spent on it after those passes: masks, choices, runs that follow, committed rows."""
        self._chosen_before = 0

    @property
    def first(self) -> Runnable:
        """The runnable to begin with; it may fork off more."""
        raise NotImplementedError

    @property
    def is_finished(self) -> bool:
        """Whether all answers have ended."""
        raise NotImplementedError

    @property
    def num_chosen(self) -> int:
        """Tokens that the model chose so far."""
        raise NotImplementedError

    def close_for_deadline(self) -> None:
        """End unfinished answers along their shortest completions, without a model call.

        It may be called again after TakesLongError, and then goes on.
        """
        raise NotImplementedError

    def candidates(self, vocabulary: Vocabulary) -> list[CandidateResult]:
        """Return the answers in the order in which they are given; only the first ``n`` are."""
        raise NotImplementedError

    def own_usage(self) -> Usage:
        """The costs of its answers so far, without the costs that they share."""
        raise NotImplementedError

    def usage(self) -> Usage:
        """Return the costs so far; the answers share the prompt and their model calls."""
        use = self.submission.cache_use
        return replace(
            self.own_usage(),
            prompt_tokens=len(self.submission.prompt),
            reused_tokens=use.reused or 0,
            model_calls=self.model_calls,
            target_nanoseconds=self.target_nanoseconds,
            mask_nanoseconds=self.mask_nanoseconds,
            shared_tokens=use.shared,
            copied_tokens=use.copied,
        )

    def take_new_text(self) -> str:
        """Return the part of a streamed text that became certain since the last call."""
        return ""

    def take_new_thoughts(self) -> str:
        """Return the part of the thoughts that became certain since the last call."""
        return ""

    def take_new_logprobs(self, vocabulary: Vocabulary) -> tuple[TokenLogprobs, ...]:  # noqa: ARG002
        """Return the log-probabilities of the tokens since the last call, if requested."""
        return ()

    def begin_call(self) -> None:
        """Record that it takes part in a model call."""
        self.model_calls += 1
        self._chosen_before = self.num_chosen

    def end_call(self) -> None:
        """Record when the model call brought tokens, if it did."""
        # Forced tokens alone do not count as the model's answer, see ``RequestClock``.
        if self.num_chosen > self._chosen_before:
            self.clock.record_tokens()

    def result(self, vocabulary: Vocabulary) -> GenerationResult:
        """Return the result of the request, once it is finished.

        Raises IncompleteAnswerError if an answer was cut short and the request forbids that.
        """
        # ``best_of`` makes more answers than are returned.
        request = self.submission.request
        given = self.candidates(vocabulary)[: request.n]
        result = GenerationResult(
            text=given[0].text,
            tokens=given[0].tokens,
            finish_reason=given[0].finish_reason,
            usage=self.usage(),
            seconds=self.clock.seconds,
            timing=self.clock.timing(len(given[0].tokens)),
            logprobs=given[0].logprobs,
            candidates=tuple(given) if request.has_candidates else (),
            verification=request.verification,
            reasoning=given[0].reasoning,
            reasoning_tokens=given[0].reasoning_tokens,
            stop_string=given[0].stop_string,
        )
        check_complete(result, request)
        return result


class SampledGroup(Group):
    """Answers that start from the same prompt, each with its own seed."""

    def __init__(
        self,
        submission: Submission,
        answers: Sequence[AnswerState],
        drafter: DrafterUnion | None,
        scorer: Scorer = by_likelihood,
    ) -> None:
        super().__init__(submission)
        self._answers = tuple(answers)
        self._scorer = scorer
        # Contrastive search draws nothing, so it has only one answer.
        first, siblings = self._answers[0], self._answers[1:]
        self._first: Runnable
        if first.chooser.sampling.is_contrastive:
            self._first = ContrastiveRunnable(submission, first)
        else:
            self._first = SampledRunnable(submission, first, drafter, siblings)

    @property
    def first(self) -> Runnable:
        """The runnable that computes the prompt."""
        return self._first

    @property
    def is_finished(self) -> bool:
        """Whether all answers have ended."""
        return all(answer.finish_reason is not None for answer in self._answers)

    @property
    def num_chosen(self) -> int:
        """Tokens of all answers that the model chose."""
        return sum([answer.num_chosen for answer in self._answers])

    def take_new_text(self) -> str:
        """Return the part of the only answer that became certain, if it is streamed."""
        return self._answers[0].take_new_text()

    def take_new_thoughts(self) -> str:
        """Return the part of its thoughts that became certain."""
        return self._answers[0].take_new_thoughts()

    def take_new_logprobs(self, vocabulary: Vocabulary) -> tuple[TokenLogprobs, ...]:
        """Return the new log-probabilities of the only answer."""
        return self._answers[0].take_new_logprobs(vocabulary)

    def close_for_deadline(self) -> None:
        """End unfinished answers along their shortest completions."""
        for answer in self._answers:
            if answer.finish_reason is None:
                answer.close_for_deadline()

    def candidates(self, vocabulary: Vocabulary) -> list[CandidateResult]:
        """Return all answers in the order of their seeds, or best first if the best are wanted."""
        request = self.submission.request
        # A single answer is compared with none, so it is not scored.
        scores = self._scorer(self._answers) if request.has_candidates else [0.0]
        tells = request.top_logprobs is not None
        candidates = []
        for index, (answer, score) in enumerate(zip(self._answers, scores, strict=True)):
            assert answer.finish_reason is not None, f"{self.request_id!r} is still running"
            candidates.append(
                CandidateResult(
                    index=index,
                    text=answer.text(vocabulary),
                    tokens=answer.answer,
                    finish_reason=answer.finish_reason,
                    score=score,
                    logprobs=answer.token_logprobs(vocabulary) if tells else (),
                    reasoning=answer.reasoning(),
                    reasoning_tokens=answer.num_thoughts,
                    stop_string="" if answer.stops is None else answer.stops.found,
                )
            )
        # A stable sort: of equal scores the earlier answer comes first.
        if request.best_of is not None:
            candidates.sort(key=lambda candidate: -candidate.score)
        return candidates

    def own_usage(self) -> Usage:
        """The costs of all answers."""
        return Usage.total(answer.usage() for answer in self._answers)
