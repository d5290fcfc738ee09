"""The statistics of an engine since it was made, as one frozen snapshot.

Counters never decrease, so two snapshots can be subtracted. docs/metrics.md has the definitions and
their sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self, TypeVar

from guided.spec import FinishReason, Usage
from guided.spec.constraint_kind import ConstraintKind

__all__ = [
    "CacheStats",
    "CompileOutcome",
    "ConstraintStats",
    "EngineStats",
    "Histogram",
    "ModelInfo",
    "Phase",
]


Word = TypeVar("Word", bound=StrEnum)
Number = TypeVar("Number", int, float)


class Phase(StrEnum):
    """What an engine spends its time on; all but the first are parts of a step."""

    TAKE = "take"
    """Tokenising the prompt, compiling the constraint, and the forced run at the start."""
    ADMIT = "admit"
    """Finding room for waiting requests."""
    DRAFT = "draft"
    """Dividing the tokens of the step among requests, and drafting."""
    RESERVE = "reserve"
    """Reserving rows of the cache, and packing."""
    FORWARD = "forward"
    """The model call."""
    SETTLE = "settle"
    """Masks, choices, the runs that follow, and keeping the rows of accepted tokens."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of durations in each range."""

    bounds: tuple[float, ...]
    """Rising upper bounds of the ranges, in seconds; a bound belongs to the range that it ends."""
    counts: tuple[int, ...]
    """One for each range, and one for durations above all bounds."""
    total: float = 0.0
    """The sum of all durations, in seconds."""

    @property
    def count(self) -> int:
        """The number of durations in all ranges."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Their mean in seconds; 0 without any."""
        return self.total / max(1, self.count)

    @classmethod
    def together(cls, histograms: Sequence[Histogram]) -> Histogram:
        """Add up histograms, at least one, that have the same bounds."""
        bounds = histograms[0].bounds
        assert all(each.bounds == bounds for each in histograms), "engines of two versions"
        counts = tuple(map(sum, zip(*(each.counts for each in histograms), strict=True)))
        return cls(bounds, counts, sum(each.total for each in histograms))

    def since(self, earlier: Histogram) -> Histogram:
        """Return what was added since an earlier one with the same bounds."""
        counts = zip(self.counts, earlier.counts, strict=True)
        return Histogram(
            self.bounds, tuple(now - then for now, then in counts), self.total - earlier.total
        )


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model that a server has loaded."""

    name: str
    """The name that its user would give."""
    context_window: int
    """Most tokens of prompt and answer together."""
    vocabulary_size: int
    """Number of tokens in its vocabulary."""
    drafters: tuple[str, ...] = ()
    """Its drafters, by the names that requests use, in order."""
    instruction_set: str = ""
    """The instruction set of its matrix products on the CPU, e.g. ``AVX2``; else empty."""
    tool_format: str = "hermes"
    """The format in which it writes tool calls; a name of ``guided.spec.tool_format``."""
    adapters: tuple[str, ...] = ()
    """The LoRA adapters that requests may name."""
    thinks: bool = False
    """Whether its chat template has thoughts before answers."""


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The blocks of the key/value cache, summed over all groups of layers."""

    block_size: int
    """Slots of a block."""
    free: int
    """Blocks that are empty now."""
    held: int
    """Blocks that running requests hold now."""
    cached: int
    """Blocks that are kept now for requests with the same beginning."""
    held_slots: int = 0
    """Slots held by running requests, summed over model calls."""
    spare_slots: int = 0
    """Held slots without a row."""

    @property
    def waste(self) -> float:
        """The share of held slots without a row; 0 if none was held."""
        return self.spare_slots / max(1, self.held_slots)

    def since(self, earlier: CacheStats) -> CacheStats:
        """Return the counters since an earlier snapshot; current values stay."""
        return replace(
            self,
            held_slots=self.held_slots - earlier.held_slots,
            spare_slots=self.spare_slots - earlier.spare_slots,
        )


class CompileOutcome(StrEnum):
    """How a compilation ended."""

    COMPILED = "compiled"
    """The constraint can be enforced."""
    INVALID = "invalid"
    """It is no valid schema, grammar or pattern."""
    UNSUPPORTED = "unsupported"
    """It has something that cannot be enforced."""
    UNSATISFIABLE = "unsatisfiable"
    """No text fits it."""
    LIMIT = "limit"
    """It takes more work or memory than is allowed."""
    STOPPED = "stopped"
    """It was ended from outside: a deadline came, the callers left, or it was begun again."""
    FAILED = "failed"
    """An error of another kind."""


@dataclass(frozen=True, slots=True)
class ConstraintStats:
    """The constraints that a compiler was asked for, and what it keeps of them."""

    hits: int = 0
    """Look-ups that found a compiled constraint."""
    refusal_hits: int = 0
    """Look-ups that found a refusal."""
    compilations: Mapping[CompileOutcome, int] = field(default_factory=dict)
    """Compilations that ended, without outcomes that never occurred."""
    compile_seconds: Mapping[CompileOutcome, float] = field(default_factory=dict)
    """Processor time of these, in seconds."""
    kept: int = 0
    """Compiled constraints that are kept now."""
    kept_bytes: int = 0
    """About how many bytes these hold, without masks, as last measured."""
    kept_refusals: int = 0
    """Refusals that are kept now."""
    mask_hits: int = 0
    """Masks that were kept, of the same position or of another like it."""
    masks: Histogram = Histogram((), (0,))
    """The time of each mask that was computed."""
    mask_bytes: int = 0
    """Bytes of the masks that are kept now."""

    @property
    def misses(self) -> int:
        """Look-ups that found nothing, and so led to a compilation."""
        return sum(self.compilations.values())

    @classmethod
    def total(cls, each: Iterable[ConstraintStats]) -> ConstraintStats:
        """Add up the counts of several compilers, and what they keep."""
        every = tuple(each)
        names = (
            *("hits", "refusal_hits", "kept", "kept_bytes", "kept_refusals"),
            *("mask_hits", "mask_bytes"),
        )
        return cls(
            **{name: sum(getattr(one, name) for one in every) for name in names},
            compilations=_summed([one.compilations for one in every]),
            compile_seconds=_summed([one.compile_seconds for one in every]),
            masks=Histogram.together([one.masks for one in every]),
        )

    def since(self, earlier: ConstraintStats) -> ConstraintStats:
        """Return the counters since an earlier snapshot; current values stay."""
        return replace(
            self,
            hits=self.hits - earlier.hits,
            refusal_hits=self.refusal_hits - earlier.refusal_hits,
            compilations=_added(self.compilations, earlier.compilations),
            compile_seconds=_added(self.compile_seconds, earlier.compile_seconds),
            mask_hits=self.mask_hits - earlier.mask_hits,
            masks=self.masks.since(earlier.masks),
        )


@dataclass(frozen=True, slots=True)
class EngineStats:
    """The statistics of an engine at one moment."""

    seconds: float
    """Seconds since the engine was made."""
    running: int
    """Requests that now have room in the cache."""
    waiting: int
    """Requests that now wait for room."""
    usage: Usage
    """The usage of all requests together so far; ``usage.model_calls`` counts a call once for each
    request in it."""
    model_calls: int
    """Model calls, each of which serves all running requests."""
    cache: CacheStats
    phases: Mapping[Phase, float]
    """Seconds spent on each phase."""
    compiling: Histogram
    """Of answered requests: prompt and constraint, before they could wait for room."""
    queueing: Histogram
    """Of answered requests: waiting for room."""
    first_token: Histogram
    """Of answered requests: from being taken to the first token that the model chose."""
    inter_token: Histogram
    """Of answered requests: from tokens of a model call to those of the next."""
    answering: Histogram
    """Of answered requests: from being taken to the last token."""
    answered: Mapping[FinishReason, int] = field(default_factory=dict)
    """Requests by the reason why their answer ended, without reasons that never occurred."""
    failed: int = 0
    """Requests that ended with an error after they were taken."""
    cancelled: int = 0
    """Requests that were cancelled."""
    refused: int = 0
    """Requests that ended with an error before they were taken."""
    preempted: int = 0
    """How often a request gave up its room to others, and started over from its tokens."""
    in_flight: int = 0
    """Requests that now hold a place of the server; 0 for an engine without a server."""
    queued: int = 0
    """Requests that now wait for a place of the server; 0 for an engine without a server."""
    constraints: ConstraintStats = field(default_factory=ConstraintStats)
    """The constraints of requests, and those compiled ahead of them."""
    submitted: Mapping[ConstraintKind, int] = field(default_factory=dict)
    """Requests that the engine was given, however they ended, by the kind of their constraint."""

    @property
    def ended(self) -> int:
        """All requests that have ended, in whatever way."""
        return sum(self.answered.values()) + self.failed + self.cancelled + self.refused

    @property
    def step_seconds(self) -> float:
        """Seconds spent in steps."""
        return sum(seconds for phase, seconds in self.phases.items() if phase is not Phase.TAKE)

    @property
    def overhead(self) -> float:
        """The share of step time outside the model; 0 before the first step."""
        steps = self.step_seconds
        return 1.0 - self.phases[Phase.FORWARD] / steps if steps else 0.0

    @property
    def throughput(self) -> float:
        """Tokens of answers per second that the engine worked; 0 before it did."""
        busy = sum(self.phases.values())
        return self.usage.output_tokens / busy if busy else 0.0

    @property
    def tokens_per_call(self) -> float:
        """Tokens of answers per model call; 0 before the first."""
        return self.usage.output_tokens / max(1, self.model_calls)

    def since(self, earlier: Self) -> EngineStats:
        """Return the counters since an earlier snapshot of the same engine; current values stay."""
        return replace(
            self,
            seconds=self.seconds - earlier.seconds,
            usage=self.usage.since(earlier.usage),
            model_calls=self.model_calls - earlier.model_calls,
            cache=self.cache.since(earlier.cache),
            phases={phase: self.phases[phase] - earlier.phases[phase] for phase in self.phases},
            compiling=self.compiling.since(earlier.compiling),
            queueing=self.queueing.since(earlier.queueing),
            first_token=self.first_token.since(earlier.first_token),
            inter_token=self.inter_token.since(earlier.inter_token),
            answering=self.answering.since(earlier.answering),
            answered=_added(self.answered, earlier.answered),
            failed=self.failed - earlier.failed,
            cancelled=self.cancelled - earlier.cancelled,
            refused=self.refused - earlier.refused,
            preempted=self.preempted - earlier.preempted,
            constraints=self.constraints.since(earlier.constraints),
            submitted=_added(self.submitted, earlier.submitted),
        )


def _added(now: Mapping[Word, Number], earlier: Mapping[Word, Number]) -> dict[Word, Number]:
    """Return what was added to each count, in ``now`` under every word of ``earlier``."""
    return {word: value - earlier.get(word, 0) for word, value in now.items()}


def _summed(counts: Iterable[Mapping[Word, Number]]) -> dict[Word, Number]:
    summed: dict[Word, Number] = {}
    for each in counts:
        for word, value in each.items():
            summed[word] = summed.get(word, 0) + value
    return summed
