"""What comes back: answers, why they ended, what they cost and how long they took."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import chain
from operator import add, sub
from typing import NewType

__all__ = [
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
"""Number of a token in a vocabulary, which is also its column in the logits."""


class Verification(StrEnum):
    """What decides whether a guessed token stays; see docs/verification.md.

    At temperature 0 all of them take the likeliest token.
    """

    COUPLED = "coupled"
    """It stays if it is the token that would be drawn without guesses; the answer of a seed does
    not depend on what was guessed."""
    REJECTION = "rejection"
    """It stays with the chance that makes up for how it was guessed. Answers have the same law;
    which of them a seed gives depends on what was guessed."""
    TYPICAL = "typical"
    """It stays if it is likely enough. More stay, and answers have another law than the model's."""


class FinishReason(StrEnum):
    """Why an answer ended."""

    COMPLETE = "complete"
    """The structure is complete: nothing may follow."""
    STOP = "stop"
    """The model chose to end where it was allowed to."""
    LENGTH_CLOSED = "length_closed"
    """The token budget closed the answer by its shortest completion."""
    LENGTH = "length"
    """The token budget ran out in an answer without a constraint."""
    STOP_SEQUENCE = "stop_sequence"
    """A stop string or stop token of the caller came; the text may be unfinished."""
    DEADLINE_CLOSED = "deadline_closed"
    """The deadline came near, and closed the answer by its shortest completion."""
    DEADLINE = "deadline"
    """The deadline came near in an answer without a constraint."""

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


class _Drafted:
    """Rates of what was drafted, by one drafter or by all."""

    __slots__ = ()

    drafted_tokens: int
    accepted_tokens: int
    drafted_calls: int
    corrected_calls: int

    @property
    def acceptance_rate(self) -> float:
        """The share of drafted tokens that the model agreed with; 0 where none was drafted."""
        return self.accepted_tokens / max(1, self.drafted_tokens)

    @property
    def mean_accepted_length(self) -> float:
        """Accepted tokens in a model call that had drafted ones to judge; 0 where none had."""
        return self.accepted_tokens / max(1, self.drafted_calls)

    @property
    def correction_rate(self) -> float:
        """The share of calls with drafts that ended where every drafted token was wrong."""
        return self.corrected_calls / max(1, self.drafted_calls)


@dataclass(frozen=True, slots=True)
class DrafterUsage(_Drafted):
    """What one drafter did; a drafted token belongs to the first drafter that proposed it."""

    name: str
    """How requests name it."""
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    """Of its tokens those that the model agreed with."""
    drafted_calls: int = 0
    """Model calls that had tokens of its to judge."""
    corrected_calls: int = 0
    """Those of them that ended at a place for which it had drafted, and wrongly."""
    skipped_calls: int = 0
    """Model calls for which it was not asked, as it would not have paid."""
    draft_nanoseconds: int = 0
    """The time that it took to propose. Whole numbers, so that sums of them never fall."""

    @property
    def draft_seconds(self) -> float:
        """The time that it took to propose."""
        return self.draft_nanoseconds / 1e9


@dataclass(frozen=True, slots=True)
class Usage(_Drafted):
    """What an answer, or all candidates of a request, cost in tokens and model calls."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    """Tokens of the prompt that an earlier request had left in the cache."""
    sampled_tokens: int = 0
    """Tokens of the answer that the model chose."""
    forced_tokens: int = 0
    """Tokens of the answer that the constraint left no choice about."""
    model_calls: int = 0
    """Forward passes that this answer took part in, that of its prompt included."""
    drafted_tokens: int = 0
    """Tokens that were guessed; what is forced after a guess is not counted."""
    accepted_tokens: int = 0
    """Guessed tokens that the model agreed with; they count as sampled, too."""
    drafted_calls: int = 0
    """Model calls that had guesses to judge."""
    corrected_calls: int = 0
    """Those of them that ended at a place where every guess was wrong."""
    shared_tokens: int = 0
    """Tokens that candidates or beams took over from another one, and did not compute again."""
    copied_tokens: int = 0
    """Those of them that had to be copied, as they shared a block of memory with later ones."""
    by_drafter: tuple[DrafterUsage, ...] = ()
    """What each drafter did, in the order in which they were first asked."""
    target_nanoseconds: int = 0
    """Its share of the time of its model calls, by the tokens that each call computed."""
    reasoning_tokens: int = 0
    """Of the answer's tokens those of its thoughts, with what ends them."""
    mask_nanoseconds: int = 0
    """What its masks, its choices and the runs that follow from them took after model calls."""

    @property
    def target_seconds(self) -> float:
        """Its share of the time of its model calls."""
        return self.target_nanoseconds / 1e9

    @property
    def mask_seconds(self) -> float:
        """What masks, choices and the runs that follow from them took."""
        return self.mask_nanoseconds / 1e9

    @property
    def draft_seconds(self) -> float:
        """The time that all drafters took."""
        return sum(each.draft_nanoseconds for each in self.by_drafter) / 1e9

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer."""
        return self.sampled_tokens + self.forced_tokens

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        """What several answers cost together."""
        every = tuple(usages)
        of_drafters: dict[str, DrafterUsage] = {}
        for each in chain.from_iterable(usage.by_drafter for usage in every):
            known = of_drafters.get(each.name)
            of_drafters[each.name] = each if known is None else _combined(add, known, each)
        summed = {name: sum(getattr(usage, name) for usage in every) for name in _counts(cls)}
        return cls(**summed, by_drafter=tuple(of_drafters.values()))

    def since(self, earlier: Usage) -> Usage:
        """What was added after an earlier one; of drafters those that did something."""
        before = {each.name: each for each in earlier.by_drafter}
        added = (
            _combined(sub, each, before.get(each.name, DrafterUsage(each.name)))
            for each in self.by_drafter
        )
        left = {name: getattr(self, name) - getattr(earlier, name) for name in _counts(Usage)}
        return Usage(
            **left, by_drafter=tuple(each for each in added if each != DrafterUsage(each.name))
        )


def _counts(kind: type[Usage | DrafterUsage]) -> list[str]:
    """The fields that are numbers."""
    return [each.name for each in fields(kind) if each.name not in ("name", "by_drafter")]


def _combined(
    operation: Callable[[int, int], int], one: DrafterUsage, other: DrafterUsage
) -> DrafterUsage:
    """Two usages of one drafter, number by number."""
    counts = {
        name: operation(getattr(one, name), getattr(other, name)) for name in _counts(DrafterUsage)
    }
    return DrafterUsage(one.name, **counts)


@dataclass(frozen=True, slots=True)
class Timing:
    """When what an answer waited for came, in seconds."""

    compiling_seconds: float = 0.0
    """Prompt and constraint, before the request could wait for room."""
    waiting_seconds: float = 0.0
    """For room in the batch and in the cache; once started over, it does not count again."""
    first_token_seconds: float | None = None
    """From the moment the engine took the request to the first token that the model chose;
    ``None`` where every token was certain."""
    mean_inter_token_seconds: float | None = None
    """From that moment to the last token chosen, for each token of the answer but the first;
    ``None`` where one model call brought all."""
    max_inter_token_seconds: float | None = None
    """The longest pause between model calls that brought tokens; ``None`` where one brought all."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that was allowed at a place of an answer, and how likely it was there."""

    token: TokenId
    text: bytes
    """Its bytes, which may be part of a character; none for a token that ends the answer."""
    raw: float
    masked: float


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """How likely a token of an answer was: natural logarithms, before bias and temperature."""

    token: TokenId
    text: bytes
    """Its bytes, which may be part of a character."""
    raw: float | None
    """By the model alone; ``None`` for a forced token, which the model was not asked about."""
    masked: float | None
    """By the model among the allowed tokens; ``raw - masked`` is the logarithm of their share."""
    top: tuple[Alternative, ...] = ()
    """The likeliest allowed tokens, likeliest first."""

    @property
    def is_forced(self) -> bool:
        """Whether the token was taken without asking the model."""
        return self.raw is None


@dataclass(frozen=True, slots=True)
class CandidateResult:
    """One of the answers to a request that asked for several."""

    index: int
    """Which of the drawn answers it is, or which of the beams by their score; from 0."""
    text: str
    tokens: tuple[TokenId, ...]
    finish_reason: FinishReason
    score: float
    """By which the best are found, higher is better; see docs/candidates.md."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """For each of ``tokens``, where the request asked for it."""
    reasoning: str = ""
    """What the model thought before; only where the request let it think."""
    reasoning_tokens: int = 0
    """The first of ``tokens`` that are those thoughts, with what ends them."""


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """One answer; of a request that asked for several, the first of them."""

    text: str
    tokens: tuple[TokenId, ...]
    """The answer's tokens, without an end-of-sequence token; a stop sequence is among them."""
    finish_reason: FinishReason
    usage: Usage
    seconds: float
    """From the moment the engine took the request to its last token."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """For each of ``tokens``, where the request asked for it."""
    timing: Timing = field(default_factory=Timing)
    candidates: tuple[CandidateResult, ...] = ()
    """All answers where ``n``, ``best_of`` or ``beams`` was set: as drawn, or the best first where
    they were ranked. Fewer than ``n`` where beams found no more."""
    verification: Verification = Verification.COUPLED
    """What decided which guessed tokens stayed."""
    reasoning: str = ""
    """What the model thought before; only where the request let it think."""
    reasoning_tokens: int = 0
    """The first of ``tokens`` that are those thoughts, with what ends them."""
