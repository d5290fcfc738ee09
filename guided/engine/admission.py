"""Admission: turn a request into a group of answers, or refuse it before its first token."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from guided.decoding.beam_search import BeamSearch
from guided.decoding.choice import Chooser
from guided.decoding.stop_strings import StopSearch
from guided.drafters.union import DrafterUnion
from guided.engine.answer_state import AnswerState
from guided.engine.beams import BeamGroup
from guided.engine.group import Group, SampledGroup
from guided.engine.scoring import Judge, scorer_for
from guided.engine.submission import Submission
from guided.engine.text_stream import TextStream
from guided.engine.thoughts import ThoughtsReader
from guided.engine.token_room import TokenRoom
from guided.errors import LimitExceededError, RequestError
from guided.masks.least_tokens import LeastTokensMatcher
from guided.masks.thinking import ThinkingMatcher
from guided.masks.vocabulary import Vocabulary
from guided.spec import NO_DRAFTER, Constraint, GenerationRequest
from guided.spec.composition import Text
from guided.spec.continued import Continued, answer_constraint
from guided.spec.thoughts import AfterThoughts
from guided.spec.tool_format import HERMES, ToolFormat, mark

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["Admission"]


class Admission:
    """Checks requests against what the engine can serve, and makes the groups of their answers."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        room: TokenRoom,
        max_batch: int,
        drafter: DrafterUnion | None = None,
        judge: Judge | None = None,
        tool_format: ToolFormat = HERMES,
    ) -> None:
        self._vocabulary = vocabulary
        self._room = room
        self._max_batch = max_batch
        self._drafter = drafter
        self._judge = judge
        self._texts = vocabulary.token_bytes
        """The text of each token in an answer."""
        self._marked_texts = _mark_special_tokens(vocabulary, tool_format)
        """The same for texts with tool calls, whose special tokens have a text too."""
        self._opening = tool_format.opening
        """The sign after which any such answer begins: stops count only after it."""

    def make_group(self, submission: Submission, matcher: Matcher) -> Group:
        """Make the group of answers; raises where budget, batch or cache cannot hold them.

        ``matcher`` is at the first token. What the group opens is put into ``submission.at_end``,
        also if this raises after that.
        """
        request, vocabulary = submission.request, self._vocabulary
        budget = self._checked_budget(submission, matcher)
        matcher = _held_back(matcher, request, vocabulary)
        # Thoughts have a budget and an end to respect; the answer after them may still be free.
        is_constrained = answer_constraint(request.constraint) is not None
        # Beams choose by score alone: they have no sampling, and are not streamed.
        if request.beams is not None:
            search = BeamSearch(
                request.beams,
                matcher,
                max_tokens=budget,
                forcing=request.forcing,
                end_ids=vocabulary.end_ids,
                is_constrained=is_constrained,
            )
            return BeamGroup(submission, search, self._texts_of(request), _skip_of(request))
        answers = [
            self._make_answer(submission, matcher, budget, seed, is_constrained=is_constrained)
            for seed in _seeds(request)
        ]
        # Raises where the request wants a judge that is not loaded or cannot read the prompt.
        scorer = scorer_for(request, self._judge, vocabulary)
        drafter = None if request.drafters == (NO_DRAFTER,) else self._drafter
        return SampledGroup(submission, answers, vocabulary, drafter, scorer)

    def _texts_of(self, request: GenerationRequest) -> Sequence[bytes | None]:
        """Return the text of each token in the answers of a request."""
        return self._texts if request.tools is None else self._marked_texts

    def _make_answer(
        self,
        submission: Submission,
        matcher: Matcher,
        budget: int,
        seed: int,
        *,
        is_constrained: bool,
    ) -> AnswerState:
        """Make one sampled answer, with what its request wants of it."""
        request, vocabulary, start = submission.request, self._vocabulary, len(submission.prompt)
        has_calls, texts = request.tools is not None, self._texts_of(request)
        skip = _skip_of(request)
        # Candidates are compared by the log-probabilities of their tokens.
        default_top = 0 if request.has_candidates else None
        chooser = Chooser(
            sampling=request.sampling,
            seed=seed,
            max_tokens=budget,
            end_ids=vocabulary.end_ids,
            top_logprobs=default_top if request.top_logprobs is None else request.top_logprobs,
            verification=request.verification,
        )
        stops = text_stream = None
        if request.stop or request.stop_tokens:
            stops = StopSearch(
                texts,
                strings=request.stop,
                tokens=request.stop_tokens,
                include=request.include_stop,
                after=request.stop_after or 0,
                opening=self._opening if has_calls else "",
                skip=skip,
            )
        if submission.is_streamed:
            # What may still turn out to be a stop string is held back.
            held_back = () if request.include_stop else request.stop
            # As for a whole answer: a free or stopped text may be cut inside a character.
            may_be_cut = not is_constrained or stops is not None
            text_stream = TextStream(
                texts,
                start=start,
                held_back=[string.encode() for string in held_back],
                errors="replace" if may_be_cut else "strict",
                skip=skip,
            )
        return AnswerState(
            submission.prompt,
            matcher,
            chooser,
            request.forcing,
            is_constrained=is_constrained,
            texts=texts if has_calls else None,
            stops=stops,
            text_stream=text_stream,
            thoughts=_make_thoughts_reader(
                request.constraint, matcher, vocabulary, start, is_streamed=submission.is_streamed
            ),
            skip=skip,
        )

    def _checked_budget(self, submission: Submission, matcher: Matcher) -> int:
        """Return the budget of each answer; refuse what this engine cannot answer to its end."""
        request, prompt = submission.request, submission.prompt
        if request.report:
            raise RequestError(
                "a report is made by the server, beside the answer",
                field="report",
                hint="leave it out; guided.check reports without a model",
            )
        # The first token is chosen from the logits after the prompt, so the prompt needs a token.
        if not prompt:
            raise RequestError("the prompt has no tokens", field="prompt")
        self._check_width(request)
        self._check_drafters(request)
        # The cheap checks come first: finding the shortest completion may take a search.
        budget = self._room.budget_of(request, len(prompt))
        if not matcher.can_complete_within(budget):
            shortest = len(matcher.shortest_completion())
            raise self._room.too_small(request, len(prompt), shortest)
        _check_tokens(request, self._vocabulary)
        return budget

    def _check_width(self, request: GenerationRequest) -> None:
        """Refuse more answers, or wider beams, than one step can serve.

        The width is that of ``Runnable.batch_slots``: a request that needs more than there are
        would never start, nor would any behind it.
        """
        if request.beams is not None:
            field, width, hint = "beams.width", request.beams.width, "make the beams narrower"
        # Before ``best_of``, which may be 1 here.
        elif request.sampling.is_contrastive:
            field, width, hint = (
                "sampling.top_k",
                request.sampling.num_candidate_tokens,
                "choose among fewer",
            )
        elif request.best_of is not None:
            field, width, hint = "best_of", request.best_of, "ask for fewer"
        else:
            field, width, hint = "n", request.n, "ask for fewer"
        if width > self._max_batch:
            raise LimitExceededError(
                f"{field} is {width}, but the engine runs {self._max_batch} answers at once",
                limit=self._max_batch,
                field=field,
                hint=hint,
            )

    def _check_drafters(self, request: GenerationRequest) -> None:
        """Refuse drafters that this engine does not have."""
        has = () if self._drafter is None else self._drafter.names
        for name in request.drafters:
            if name not in has and name != NO_DRAFTER:
                known = ", ".join(map(repr, (*has, NO_DRAFTER)))
                raise RequestError(
                    f"drafters names {name!r}, which is none of {known}",
                    field="drafters",
                    hint="name one of these, or leave drafters out for all",
                )


def _seeds(request: GenerationRequest) -> list[int]:
    """Return a seed for each answer: the request's own seed and its successors."""
    given = request.sampling.seed
    # Answer i has the seed of a separate request with seed + i, see docs/candidates.md.
    first = secrets.randbits(63) if given is None else given
    return [(first + index) % 2**63 for index in range(request.drawn)]


def _check_tokens(request: GenerationRequest, vocabulary: Vocabulary) -> None:
    """Refuse token ids that this model does not have, and stop tokens that no text has."""
    for field, tokens in (
        ("sampling.logit_bias", [token for token, _ in request.sampling.logit_bias]),
        ("stop_tokens", request.stop_tokens),
    ):
        for token in tokens:
            if not 0 <= token < len(vocabulary):
                raise RequestError(
                    f"{field} names token {token}, but the model has {len(vocabulary)} tokens",
                    field=field,
                )
    for token in request.stop_tokens:
        if vocabulary.token_bytes[token] is None and token not in vocabulary.end_ids:
            raise RequestError(
                f"stop token {token} stands for no text, and only tokens of text stop an answer",
                field="stop_tokens",
                hint="leave it out; a constraint that ends with guided.SpecialToken stops there",
            )


def _mark_special_tokens(vocabulary: Vocabulary, form: ToolFormat) -> Sequence[bytes | None]:
    """Return the texts of the tokens, with marked names for the special tokens of a format."""
    if not form.special_tokens:
        return vocabulary.token_bytes
    texts = list(vocabulary.token_bytes)
    for name in form.special_tokens:
        texts[vocabulary.named[name]] = mark(name).encode()
    return tuple(texts)


def _skip_of(request: GenerationRequest) -> int:
    """Return how many bytes the tokens of an answer spell before its text."""
    constraint = request.constraint
    return len(constraint.respelled.encode()) if isinstance(constraint, Continued) else 0


def _held_back(matcher: Matcher, request: GenerationRequest, vocabulary: Vocabulary) -> Matcher:
    """Return the position before an answer whose ends and stop tokens come late enough.

    The tokens of thoughts do not count.
    """
    if isinstance(matcher, ThinkingMatcher):
        return replace(matcher, answer=_held_back(matcher.answer, request, vocabulary))
    if request.stop_tokens:
        after = request.stop_after or 0
        matcher = LeastTokensMatcher.before(matcher, after, vocabulary, request.stop_tokens)
    return LeastTokensMatcher.before(matcher, request.min_tokens or 0, vocabulary)


def _make_thoughts_reader(
    constraint: Constraint,
    matcher: Matcher,
    vocabulary: Vocabulary,
    start: int,
    *,
    is_streamed: bool,
) -> ThoughtsReader | None:
    """Make the reader of the thoughts before an answer; ``None`` where it has none.

    ``start`` is the index of the first token of thoughts and answer, after those of the prompt.
    """
    if not isinstance(constraint, AfterThoughts):
        return None
    assert isinstance(matcher, ThinkingMatcher), matcher
    # Special tokens that end the thoughts are no part of their text.
    end_text = b"".join(
        piece.text.encode()
        if isinstance(piece, Text)
        else vocabulary.token_bytes[vocabulary.named[piece.name]] or b""
        for piece in constraint.end
    )
    return ThoughtsReader(matcher.thoughts, vocabulary, start, end_text, is_streamed=is_streamed)
