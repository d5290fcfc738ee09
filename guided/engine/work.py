"""What the engine asks of the answers in it: those that wait, those that run, and their steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from guided.decoding.draft_budget import DraftBudget
from guided.decoding.drafting import OpenDrafter
from guided.engine.request_clock import RequestClock
from guided.engine.urgency import Urgency
from guided.kv.block_table import BlockTable
from guided.kv.reservation import SlotCopies
from guided.kv.sequence_blocks import SequenceBlocks
from guided.masks.vocabulary import Vocabulary
from guided.model.batch import Segment, SegmentOutput
from guided.spec import GenerationResult, TokenId, Usage

__all__ = ["Group", "Running", "Settled", "StepWork", "Waiting"]


class Group(Protocol):
    """All that is made for one request; it ends as a whole."""

    request_id: str
    urgency: Urgency
    cache_salt: str
    """Whose beginnings of texts it shares in the cache."""
    clock: RequestClock
    model_calls: int
    """Forward passes that it took part in."""

    @property
    def first(self) -> Waiting:
        """What is to run; it may become more."""
        ...

    @property
    def is_finished(self) -> bool: ...

    @property
    def num_chosen(self) -> int:
        """Tokens that the model chose so far."""
        ...

    def new_text(self) -> str:
        """What became certain of a streamed text since the last call."""
        ...

    def usage(self) -> Usage:
        """What it has cost so far."""
        ...

    def close_for_deadline(self) -> None:
        """End what has not ended along its way out; that takes no model call."""
        ...

    def result(self, vocabulary: Vocabulary) -> GenerationResult:
        """What the request is answered with, once it is finished.

        Raises IncompleteAnswerError where it was cut short and is not to be given then.
        """
        ...


class Waiting(Protocol):
    """Something without room in the cache."""

    @property
    def request_id(self) -> str: ...
    @property
    def num_places(self) -> int:
        """Places of a batch that it takes in the end."""
        ...

    @property
    def tokens(self) -> Sequence[TokenId]:
        """What comes first, of which the cache may know a beginning."""
        ...

    def needs(self, blocks: SequenceBlocks, block_size: int, step_tokens: int) -> tuple[int, ...]:
        """Blocks, by group of layers, that let it run for some steps without giving way."""
        ...

    def run(self, blocks: SequenceBlocks, open_drafter: OpenDrafter) -> Running:
        """Start with the blocks that were opened for ``tokens``, which it owns from now on."""
        ...


class Running(Protocol):
    """Something with room in the cache."""

    @property
    def request_id(self) -> str: ...
    @property
    def num_places(self) -> int:
        """Places of a batch that it takes in the end."""
        ...

    @property
    def pending(self) -> int:
        """Tokens that are certain but not yet in the cache."""
        ...

    @property
    def is_finished(self) -> bool: ...
    @property
    def tables(self) -> Sequence[BlockTable]:
        """What it holds of the cache."""
        ...

    def needs(self, block_size: int, step_tokens: int) -> tuple[int, ...]:
        """As of what waits, beside what it has."""
        ...

    def draft(self, count: int, budget: DraftBudget) -> StepWork:
        """What a step computes for it when it gets ``count`` pending tokens."""
        ...

    def stop(self) -> Waiting:
        """Give all blocks back; the result can start over from its tokens."""
        ...

    def check(self) -> None:
        """Raise unless it can go on with the next step."""
        ...


class StepWork(Protocol):
    """What one step computes for something that runs."""

    @property
    def running(self) -> Running: ...

    def without_guesses(self) -> StepWork:
        """The certain part alone."""
        ...

    def demand(self) -> tuple[int, ...]:
        """Blocks that it takes, by group of layers."""
        ...

    def reserve(self) -> Iterator[Segment]:
        """Set rows aside; the copies of a segment are to be made before the next is asked for."""
        ...

    def settle(self, outputs: Sequence[SegmentOutput]) -> Settled:
        """Take over what the model said to each segment."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """What follows from a step for the engine."""

    copies: tuple[SlotCopies, ...] = ()
    """To be made in the cache, by group of layers."""
    forks: tuple[Running, ...] = ()
    """What runs from now on beside what was computed."""
