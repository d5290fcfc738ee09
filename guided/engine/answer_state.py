"""The state of one answer in the making: its tokens, its place in the constraint, its costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.decoding.choice import (
    Chooser,
    ChosenToken,
    FinalCompletion,
    ForcedContinuation,
    forced_at,
)
from guided.decoding.draft_counts import DraftCounts
from guided.decoding.draft_tree import DraftTree
from guided.decoding.logprobs import ChoiceLogprobs, forced_logprobs
from guided.decoding.penalties import NO_HISTORY, GrowingTokenArray, History
from guided.decoding.stop_strings import StopSearch
from guided.decoding.verify import Acceptance
from guided.engine.text_stream import TextStream
from guided.engine.thoughts import ThoughtsReader
from guided.masks.matcher import Matcher
from guided.masks.vocabulary import Vocabulary
from guided.spec import FinishReason, Forcing, TokenId, TokenLogprobs, Usage

__all__ = ["AnswerState"]

# These say more than that the answer was closed early, so they are reported instead.
_EXTERNAL_REASONS: Final = (
    FinishReason.STOP_SEQUENCE,
    FinishReason.DEADLINE_CLOSED,
    FinishReason.DEADLINE,
)


class AnswerState:
    """One answer: its tokens, its place in the constraint, and what it cost.

    It knows neither the cache nor the batch, so it survives when its request gives way.

    Its tokens, in order::

        prompt ............ | answer ........................
        committed (in the cache) ......... | pending (certain)
    """

    def __init__(
        self,
        prompt: tuple[TokenId, ...],
        matcher: Matcher,
        chooser: Chooser,
        forcing: Forcing,
        *,
        is_constrained: bool,
        texts: Sequence[bytes | None] | None = None,
        stops: StopSearch | None = None,
        text_stream: TextStream | None = None,
        thoughts: ThoughtsReader | None = None,
        skip: int = 0,
    ) -> None:
        """``texts`` is by token, or the vocabulary's; its first ``skip`` bytes are left out."""
        self.prompt_length = len(prompt)
        self.tokens: list[TokenId] = list(prompt)
        """Prompt and answer so far."""
        self.matcher = matcher
        self.chooser = chooser
        self.forcing = forcing
        self.finish_reason: FinishReason | None = None
        self._is_constrained = is_constrained
        self._is_closed_early = False
        self.stops = stops
        self._texts = texts
        self._text_stream = text_stream
        self._thoughts = thoughts
        """Reads the thoughts before the answer, where it has any."""
        self._skip = skip
        self._token_array = GrowingTokenArray()
        self._logprobs: list[ChoiceLogprobs | None] = []
        """One for each token of the answer, ``None`` if forced; empty unless requested."""
        self._end_logprobs: ChoiceLogprobs | None = None
        self._num_streamed = 0
        """Tokens of the answer whose log-probabilities were streamed, or never will be."""
        self._num_sampled = 0
        self._num_forced = 0
        self.drafts = DraftCounts()
        """Counts of what was drafted for it, by drafter, and of what was accepted."""
        # A run may be certain from the start, and may even be the whole answer.
        self._append_continuation(None)

    @property
    def chosen_logprobs(self) -> list[ChoiceLogprobs]:
        """The log-probabilities of the tokens that the model chose, including a chosen end."""
        return [choice for choice in (*self._logprobs, self._end_logprobs) if choice is not None]

    @property
    def answer_length(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - self.prompt_length

    @property
    def num_chosen(self) -> int:
        """Tokens of the answer that the model chose."""
        return self._num_sampled

    @property
    def answer(self) -> tuple[TokenId, ...]:
        """The tokens of the answer so far."""
        return self.answer_since(0)

    def answer_since(self, index: int) -> tuple[TokenId, ...]:
        """The tokens of the answer from this index on."""
        return tuple(self.tokens[self.prompt_length + index :])

    def history(self) -> History:
        """The tokens so far, for sampling; empty where sampling does not read them."""
        if not self.chooser.sampling.reads_history:
            return NO_HISTORY
        return History(
            self._token_array.as_array(self.tokens), self.prompt_length, self.chooser.end_ids
        )

    def make_trunk(self, committed: int, count: int) -> DraftTree:
        """Make a trunk of a draft tree from the next ``count`` tokens not yet in the cache."""
        tokens = self.tokens[committed : committed + count]
        reaches_the_tip = committed + count == len(self.tokens)
        return DraftTree.chain(tokens, self.matcher if reaches_the_tip else None)

    def find_continuation(
        self, tree: DraftTree, acceptance: Acceptance
    ) -> ForcedContinuation | None:
        """Return the tokens forced after those that a model call confirmed and chose.

        ``None`` where the answer ends, and where the call added nothing to it, as for a part of the
        prompt. This may take long, and changes nothing.
        """
        path, choice = acceptance.path, acceptance.choice
        length = self.answer_length + len(path) - tree.trunk_length
        if choice is None:
            matcher = tree.matchers[path[-1]] if len(path) > tree.trunk_length else None
        elif isinstance(choice, FinalCompletion):
            matcher = None
        else:
            matcher, length = choice.matcher, length + 1
        return (
            None
            if matcher is None
            else forced_at(matcher, length, self.forcing, self.chooser.max_tokens)
        )

    def extend(
        self,
        tree: DraftTree,
        acceptance: Acceptance,
        continuation: ForcedContinuation | None = None,
    ) -> None:
        """Append the tokens that a model call confirmed and chose, and the run that follows.

        ``continuation`` is the result of ``find_continuation``; ``None`` computes it here.
        """
        logprobs, path = iter(acceptance.logprobs), acceptance.path
        # The trunk is in ``tokens`` already; only the confirmed part of the draft is new.
        for length, node in enumerate(path[tree.trunk_length :], tree.trunk_length + 1):
            matcher = tree.matchers[node]
            assert matcher is not None, f"drafted node {node} has no matcher"
            if tree.certain[node]:
                self._append(tree.tokens[node], matcher, is_forced=True)
            else:
                self._append(tree.tokens[node], matcher, next(logprobs, None), is_forced=False)
            if self.finish_reason is not None:
                # A stop string ends the answer inside the path; the nodes after it do not count.
                self.drafts.add(tree, path[:length], path_ends_in_choice=False)
                return
        self.drafts.add(tree, path, path_ends_in_choice=acceptance.choice is not None)
        self._is_closed_early = self._is_closed_early or acceptance.budget_limited
        if acceptance.choice is not None:
            self.append_choice(acceptance.choice, continuation)
        elif len(path) > tree.trunk_length:
            self._append_continuation(continuation)

    def append_choice(
        self, choice: ChosenToken | FinalCompletion, continuation: ForcedContinuation | None = None
    ) -> None:
        """Append the choice after the last token, and the run that follows from it."""
        if isinstance(choice, FinalCompletion):
            self._close(choice.tokens)
            return
        self._is_closed_early = self._is_closed_early or choice.budget_limited
        # A token that ends the answer is not part of it; its log-probability counts in scores.
        if choice.matcher is None:
            self._end_logprobs = choice.logprobs
            self._finish(FinishReason.STOP)
        else:
            self._append(choice.token, choice.matcher, choice.logprobs, is_forced=False)
            if self.finish_reason is None:
                self._append_continuation(continuation)

    def close_for_deadline(self) -> None:
        """End the answer along its shortest completion, without a model call."""
        self._force(self.matcher.shortest_completion(), self.matcher)
        if self.finish_reason is None:
            is_constrained = self._is_constrained
            self._finish(FinishReason.DEADLINE_CLOSED if is_constrained else FinishReason.DEADLINE)

    def take_new_text(self) -> str:
        """Return the text that became certain since the last call; empty if not streamed."""
        if self._text_stream is None or (self._thoughts is not None and not self._thoughts.is_over):
            return ""
        if self.finish_reason is None:
            return self._text_stream.grow(self.tokens)
        return self._text_stream.end(self.tokens, self.stops.length if self.stops else None)

    def take_new_thoughts(self) -> str:
        """Return the thoughts that became certain since the last call."""
        return "" if self._thoughts is None else self._thoughts.take_new_text(self.tokens)

    def take_new_logprobs(self, vocabulary: Vocabulary) -> tuple[TokenLogprobs, ...]:
        """Return the log-probabilities of the tokens since the last call, without thoughts."""
        begin = max(self._num_streamed, self.num_thoughts)
        self._num_streamed = self.answer_length
        return self.token_logprobs(vocabulary, begin)

    @property
    def num_thoughts(self) -> int:
        """The number of tokens of the thoughts, including their end; they begin the answer."""
        return 0 if self._thoughts is None else self._thoughts.length

    def reasoning(self) -> str:
        """The thoughts as text."""
        return "" if self._thoughts is None else self._thoughts.text(self.answer)

    def text(self, vocabulary: Vocabulary) -> str:
        """Return the answer as text; only after it has a finish reason."""
        is_stopped = self.finish_reason is FinishReason.STOP_SEQUENCE
        tokens = self.answer[self.num_thoughts :]
        if self._texts is None:
            answer = vocabulary.decode(tokens)
        else:
            answer = b"".join([self._texts[token] or b"" for token in tokens])
        text = answer[self._skip :][: self.stops.length if self.stops else None]
        # A free or stopped text may be cut inside a character; others never are.
        errors = "strict" if self._is_constrained and not is_stopped else "replace"
        return text.decode("utf-8", errors)

    def usage(self) -> Usage:
        """The costs of this answer alone: its tokens, and what was drafted for it."""
        return Usage(
            sampled_tokens=self._num_sampled,
            forced_tokens=self._num_forced,
            reasoning_tokens=self.num_thoughts,
            drafted_tokens=self.drafts.total.tokens,
            accepted_tokens=self.drafts.total.accepted,
            drafted_calls=self.drafts.total.calls,
            corrected_calls=self.drafts.total.corrected,
            by_drafter=self.drafts.by_drafter(),
        )

    def token_logprobs(self, vocabulary: Vocabulary, index: int = 0) -> tuple[TokenLogprobs, ...]:
        """Return the log-probabilities of the tokens from an index on; none if not requested."""
        if self.chooser.top_logprobs is None:
            return ()
        known = zip(self.answer_since(index), self._logprobs[index:], strict=True)
        return tuple(
            forced_logprobs(token, vocabulary)
            if found is None
            else found.with_texts(token, vocabulary)
            for token, found in known
        )

    def _append_continuation(self, continuation: ForcedContinuation | None) -> None:
        """Append the tokens that are forced now, and finish the answer where it ends there."""
        if continuation is None:
            continuation = forced_at(
                self.matcher, self.answer_length, self.forcing, self.chooser.max_tokens
            )
        if continuation.closes:
            self._close(continuation.tokens)
            return
        self._force(continuation.tokens, continuation.after)
        if self.finish_reason is not None:
            return
        if continuation.after.is_complete:
            self._finish(FinishReason.COMPLETE)
        elif self.chooser.remaining(self.answer_length) == 0:
            self._close(())

    def _close(self, completion: tuple[TokenId, ...]) -> None:
        """End the answer with ``completion``, its shortest; no limit can prevent that."""
        self._is_closed_early = True
        # The matcher stays where it is, because nothing reads it any more.
        self._force(completion, self.matcher)
        if self.finish_reason is None:
            self._finish(FinishReason.LENGTH)

    def _force(self, run: tuple[TokenId, ...], after: Matcher) -> None:
        """Append a run; ``after`` is the position after all of it."""
        # No token of the run needs a position of its own, because nothing is chosen in between.
        for token in run:
            self._append(token, after, is_forced=True)
            if self.finish_reason is not None:
                return

    def _append(
        self,
        token: TokenId,
        matcher: Matcher,
        logprobs: ChoiceLogprobs | None = None,
        *,
        is_forced: bool,
    ) -> None:
        """Append one token, and finish where it completes a stop string."""
        self.tokens.append(token)
        self.matcher = matcher
        if is_forced:
            self._num_forced += 1
        else:
            self._num_sampled += 1
        if self.chooser.top_logprobs is not None:
            self._logprobs.append(logprobs)
        if self._thoughts is not None and not self._thoughts.is_over:
            self._read_thought(self._thoughts, token)
        elif self.stops is not None and self.stops.read_token(token):
            self._finish(FinishReason.STOP_SEQUENCE)

    def _read_thought(self, thoughts: ThoughtsReader, token: TokenId) -> None:
        # Stops are searched for in the answer alone.
        thoughts.read(token)
        if thoughts.is_over and self._text_stream is not None:
            self._text_stream.begin_at(self.prompt_length + thoughts.length)

    def _finish(self, reason: FinishReason) -> None:
        # An answer that the budget limited is reported as closed, even if the model ended it.
        is_closed = self._is_constrained and self._is_closed_early
        if is_closed and reason not in _EXTERNAL_REASONS:
            reason = FinishReason.LENGTH_CLOSED
        self.finish_reason = reason
