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
from guided.spec import CandidateResult, GenerationResult, Usage
from guided.spec.delta import Delta

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

    def candidates(self) -> list[CandidateResult]:
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

    def take_deltas(self) -> list[Delta]:
        """Return what became certain of streamed answers since the last call."""
        return []

    def begin_call(self) -> None:
        """Record that it takes part in a model call."""
        self.model_calls += 1
        self._chosen_before = self.num_chosen

    def end_call(self) -> None:
        """Record when the model call brought tokens, if it did."""
        # Forced tokens alone do not count as the model's answer, see ``RequestClock``.
        if self.num_chosen > self._chosen_before:
            self.clock.record_tokens()

    def result(self) -> GenerationResult:
        """Return the result of the request, once it is finished.

        Raises IncompleteAnswerError if an answer was cut short and the request forbids that.
        """
        # ``best_of`` makes more answers than are returned.
        request = self.submission.request
        given = self.candidates()[: request.n]
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
        vocabulary: Vocabulary,
        drafter: DrafterUnion | None,
        scorer: Scorer = by_likelihood,
    ) -> None:
        super().__init__(submission)
        self._answers = tuple(answers)
        self._vocabulary = vocabulary
        self._growing = list(range(len(answers))) if submission.is_streamed else []
        """The numbers of streamed answers that were not handed out to their end."""
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

    def take_deltas(self) -> list[Delta]:
        """Return what became certain of each answer, and the end of each of several."""
        request_id, request = self.request_id, self.submission.request
        deltas: list[Delta] = []
        for index in list(self._growing):
            answer = self._answers[index]
            ended: CandidateResult | None = None
            if thought := answer.take_new_thoughts():
                deltas.append(Delta(request_id, thought, is_thought=True, index=index))
            text = answer.take_new_text()
            if answer.finish_reason is not None:
                self._growing.remove(index)
                # The end of a single answer is that of its request.
                if request.has_candidates:
                    (score,) = self._scorer([answer])
                    ended = self._candidate(index, score)
            if text or ended is not None:
                # Answers that are compared have them in any case.
                tells = request.top_logprobs is not None
                logprobs = answer.take_new_logprobs(self._vocabulary) if tells else ()
                deltas.append(Delta(request_id, text, logprobs=logprobs, index=index, ended=ended))
        return deltas

    def close_for_deadline(self) -> None:
        """End unfinished answers along their shortest completions."""
        for answer in self._answers:
            if answer.finish_reason is None:
                answer.close_for_deadline()

    def candidates(self) -> list[CandidateResult]:
        """Return all answers in the order of their seeds, or best first if the best are wanted."""
        request = self.submission.request
        # A single answer is compared with none, so it is not scored.
        scores = self._scorer(self._answers) if request.has_candidates else [0.0]
        candidates = [self._candidate(index, score) for index, score in enumerate(scores)]
        # A stable sort: of equal scores the earlier answer comes first.
        if request.best_of is not None:
            candidates.sort(key=lambda candidate: -candidate.score)
        return candidates

    def _candidate(self, index: int, score: float) -> CandidateResult:
        """Return an answer that has ended."""
        answer, tells = self._answers[index], self.submission.request.top_logprobs is not None
        assert answer.finish_reason is not None, f"{self.request_id!r} is still running"
        return CandidateResult(
            index=index,
            text=answer.text(self._vocabulary),
            tokens=answer.answer,
            finish_reason=answer.finish_reason,
            score=score,
            logprobs=answer.token_logprobs(self._vocabulary) if tells else (),
            reasoning=answer.reasoning(),
            reasoning_tokens=answer.num_thoughts,
            usage=answer.usage(),
            stop_string="" if answer.stops is None else answer.stops.found,
        )

    def own_usage(self) -> Usage:
        """The costs of all answers."""
        return Usage.total(answer.usage() for answer in self._answers)
