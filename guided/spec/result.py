"""Results: answers, why they ended, what they cost and how long they took."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import chain
from operator import add, sub
from typing import Final, NewType

__all__ = [
    "LEAST_LOGPROB",
    "Alternative",
    "CandidateResult",
    "DrafterUsage",
    "FinishReason",
    "GenerationResult",
    "Timing",
    "TokenId",
    "TokenLogprobs",
    "Usage",
    "Verification",
]

TokenId = NewType("TokenId", int)
"""Id of a token in a vocabulary, which is also its column in the logits."""

LEAST_LOGPROB: Final = -9999.0
"""Stands for the logarithm of 0 in JSON, which has no infinite numbers."""


class Verification(StrEnum):
    """The rule that decides whether a drafted token is kept; see docs/verification.md.

    At temperature 0 all rules take the likeliest token.
    """

    COUPLED = "coupled"
    """A token is kept if it would be drawn without drafts, so the answer of a seed does not depend
    on the drafts."""
    REJECTION = "rejection"
    """A token is kept with a probability that makes up for how it was drafted. Answers follow the
    same distribution, but which answer a seed gives depends on the drafts."""
    TYPICAL = "typical"
    """A token is kept if it is likely enough. More are kept, and answers do not follow the model's
    distribution."""


class FinishReason(StrEnum):
    """Why an answer ended."""

    COMPLETE = "complete"
    """The structure is complete: nothing may follow."""
    STOP = "stop"
    """The model chose to end where that was allowed."""
    LENGTH_CLOSED = "length_closed"
    """The token budget closed the answer by its shortest completion."""
    LENGTH = "length"
    """The token budget ran out in an answer without a constraint."""
    STOP_SEQUENCE = "stop_sequence"
    """The caller's stop string or stop token occurred; the text may be unfinished."""
    DEADLINE_CLOSED = "deadline_closed"
    """The deadline approached and closed the answer by its shortest completion."""
    DEADLINE = "deadline"
    """The deadline approached in an answer without a constraint."""

    @property
    def is_cut_short(self) -> bool:
        """Whether a budget, a deadline or a limit ended the answer before it was complete."""
        return self in _CUT_SHORT


_CUT_SHORT = frozenset(
    {
        FinishReason.LENGTH_CLOSED,
        FinishReason.LENGTH,
        FinishReason.DEADLINE_CLOSED,
        FinishReason.DEADLINE,
    }
)


class _DraftRates:
    """Rates of drafted tokens, of one drafter or of all."""

    __slots__ = ()

    drafted_tokens: int
    accepted_tokens: int
    drafted_calls: int
    corrected_calls: int

    @property
    def acceptance_rate(self) -> float:
        """The share of drafted tokens that the model accepted; 0 if none was drafted."""
        return self.accepted_tokens / max(1, self.drafted_tokens)

    @property
    def mean_accepted_length(self) -> float:
        """Accepted tokens per model call that verified drafts; 0 if none did."""
        return self.accepted_tokens / max(1, self.drafted_calls)

    @property
    def correction_rate(self) -> float:
        """The share of calls with drafts that ended where every drafted token was wrong."""
        return self.corrected_calls / max(1, self.drafted_calls)


@dataclass(frozen=True, slots=True)
class DrafterUsage(_DraftRates):
    """The counts of one drafter; a drafted token belongs to the first drafter that proposed it."""

    name: str
    """Its name in requests."""
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    """Its drafted tokens that the model accepted."""
    drafted_calls: int = 0
    """Model calls that verified tokens of this drafter."""
    corrected_calls: int = 0
    """Drafted calls that ended at a place where it had drafted only wrong tokens."""
    skipped_calls: int = 0
    """Model calls that it was not used for, because it would not have paid off."""
    draft_nanoseconds: int = 0
    """The time that it took to draft. An integer, so that sums never decrease."""

    @property
    def draft_seconds(self) -> float:
        """The time that it took to draft, in seconds."""
        return self.draft_nanoseconds / 1e9


@dataclass(frozen=True, slots=True)
class Usage(_DraftRates):
    """The cost of an answer, or of all candidates of a request, in tokens and model calls."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    """Tokens of the prompt that an earlier request had left in the cache."""
    sampled_tokens: int = 0
    """Tokens of the answer that the model chose."""
    forced_tokens: int = 0
    """Tokens of the answer for which the constraint left no choice."""
    model_calls: int = 0
    """Model calls that this answer took part in, including that of its prompt."""
    drafted_tokens: int = 0
    """Tokens that were drafted; tokens forced after a draft are not counted."""
    accepted_tokens: int = 0
    """Drafted tokens that the model accepted; they also count as sampled."""
    drafted_calls: int = 0
    """Model calls that verified drafts."""
    corrected_calls: int = 0
    """Drafted calls that ended at a place where every draft was wrong."""
    shared_tokens: int = 0
    """Tokens that candidates or beams took over from another one without computing them again."""
    copied_tokens: int = 0
    """Shared tokens that had to be copied because their block of memory held later ones too."""
    by_drafter: tuple[DrafterUsage, ...] = ()
    """The counts of each drafter, in the order in which they were first used."""
    target_nanoseconds: int = 0
    """Its share of the time of its model calls, by the tokens that each call computed."""
    reasoning_tokens: int = 0
    """Tokens of the answer that belong to its thoughts, including their end."""
    mask_nanoseconds: int = 0
    """Time after model calls for its masks, its choices and the runs that follow from them."""

    @property
    def target_seconds(self) -> float:
        """Its share of the time of its model calls, in seconds."""
        return self.target_nanoseconds / 1e9

    @property
    def mask_seconds(self) -> float:
        """Time for masks, choices and the runs that follow from them, in seconds."""
        return self.mask_nanoseconds / 1e9

    @property
    def draft_seconds(self) -> float:
        """The time that all drafters took, in seconds."""
        return sum(each.draft_nanoseconds for each in self.by_drafter) / 1e9

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer."""
        return self.sampled_tokens + self.forced_tokens

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        """Return the cost of several answers together."""
        every = tuple(usages)
        of_drafters: dict[str, DrafterUsage] = {}
        for each in chain.from_iterable(usage.by_drafter for usage in every):
            total = of_drafters.get(each.name)
            of_drafters[each.name] = each if total is None else _combine(add, total, each)
        summed = {name: sum(getattr(usage, name) for usage in every) for name in _counts(cls)}
        return cls(**summed, by_drafter=tuple(of_drafters.values()))

    def since(self, earlier: Usage) -> Usage:
        """Return what was added since an earlier usage, with only the drafters that were active."""
        before = {each.name: each for each in earlier.by_drafter}
        added = (
            _combine(sub, each, before.get(each.name, DrafterUsage(each.name)))
            for each in self.by_drafter
        )
        counts = {name: getattr(self, name) - getattr(earlier, name) for name in _counts(Usage)}
        return Usage(
            **counts, by_drafter=tuple(each for each in added if each != DrafterUsage(each.name))
        )


def _counts(kind: type[Usage | DrafterUsage]) -> list[str]:
    """Return the names of the numeric fields."""
    return [each.name for each in fields(kind) if each.name not in ("name", "by_drafter")]


def _combine(
    operation: Callable[[int, int], int], one: DrafterUsage, other: DrafterUsage
) -> DrafterUsage:
    """Combine two usages of one drafter, number by number."""
    counts = {
        name: operation(getattr(one, name), getattr(other, name)) for name in _counts(DrafterUsage)
    }
    return DrafterUsage(one.name, **counts)


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of an answer's stages, in seconds."""

    compiling_seconds: float = 0.0
    """Preparing prompt and constraint, before the request could wait for room."""
    waiting_seconds: float = 0.0
    """Waiting for room in the batch and in the cache; not counted again after starting over."""
    first_token_seconds: float | None = None
    """Seconds from when the engine took the request to the first token that the model chose;
    ``None`` if every token was certain."""
    mean_inter_token_seconds: float | None = None
    """From that moment to the last token chosen, per token of the answer after the first; ``None``
    if one model call gave all."""
    max_inter_token_seconds: float | None = None
    """The longest pause between model calls that gave tokens; ``None`` if one gave all."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that was allowed at a place of an answer, with its likelihood there."""

    token: TokenId
    text: bytes
    """Its bytes, which may be part of a character; empty for a token that ends the answer."""
    raw: float
    masked: float


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """How likely a token of an answer was: natural logarithms, before bias and temperature."""

    token: TokenId
    text: bytes
    """Its bytes, which may be part of a character."""
    raw: float | None
    """By the model alone; ``None`` for a forced token, which the model did not choose."""
    masked: float | None
    """By the model among the allowed tokens; ``raw - masked`` is the logarithm of their share."""
    top: tuple[Alternative, ...] = ()
    """The likeliest allowed tokens, likeliest first."""

    @property
    def is_forced(self) -> bool:
        """Whether the token was taken without consulting the model."""
        return self.raw is None


@dataclass(frozen=True, slots=True)
class CandidateResult:
    """One of several answers to a request."""

    index: int
    """Its number among the drawn answers, or among the beams by score; from 0."""
    text: str
    tokens: tuple[TokenId, ...]
    finish_reason: FinishReason
    score: float
    """Ranks the answers, higher is better; see docs/candidates.md."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """For each of ``tokens``, if requested."""
    reasoning: str = ""
    """The model's thoughts before the answer; only if the request let it think."""
    reasoning_tokens: int = 0
    """How many of the first ``tokens`` belong to the thoughts, including their end."""
    usage: Usage | None = None
    """Its own tokens and drafts, without what all answers share; ``None`` for beams."""
    stop_string: str = ""
    """The stop string that ended the answer; empty if none did."""


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """One answer; if the request wanted several, the first of them."""

    text: str
    tokens: tuple[TokenId, ...]
    """The answer's tokens, without an end-of-sequence token but with a stop sequence."""
    finish_reason: FinishReason
    usage: Usage
    seconds: float
    """Seconds from when the engine took the request to its last token."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """For each of ``tokens``, if requested."""
    timing: Timing = field(default_factory=Timing)
    candidates: tuple[CandidateResult, ...] = ()
    """All answers if ``n``, ``best_of`` or ``beams`` was set: as drawn, or the best first if
    ranked. Fewer than ``n`` if the beams found no more."""
    verification: Verification = Verification.COUPLED
    """The rule that decided which drafted tokens were kept."""
    reasoning: str = ""
    """The model's thoughts before the answer; only if the request let it think."""
    reasoning_tokens: int = 0
    """How many of the first ``tokens`` belong to the thoughts, including their end."""
    stop_string: str = ""
    """The stop string that ended the answer; empty if none did."""
