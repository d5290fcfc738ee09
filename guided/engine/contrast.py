"""Contrastive search in the engine: all contenders of a place are tried in one call.

The call that tries them also says what may come behind each, so the one that is taken has its own
contenders at once: a call a token, and one for the prompt. See docs/contrastive-search.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Items
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from guided.decoding.choice import Closing
from guided.decoding.contrastive_search import (
    Contender,
    SeenStates,
    best_contender,
    find_contenders,
)
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.drafting import OpenDrafter
from guided.engine.room import demand
from guided.engine.sequence import Sequence
from guided.engine.work import Settled
from guided.errors import LimitExceededError
from guided.kv.block_table import BlockTable
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import Segment, SegmentOutput
from guided.spec import TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["ContrastStep", "RunningContrast", "WaitingContrast"]


@dataclass(frozen=True, slots=True, eq=False)
class WaitingContrast:
    """A sequence of contrastive search without room in the cache."""

    sequence: Sequence

    @property
    def request_id(self) -> str:
        """That of its request."""
        return self.sequence.request_id

    @property
    def num_places(self) -> int:
        """One for each contender, as all of them are computed at once."""
        return self.sequence.chooser.sampling.contenders

    @property
    def tokens(self) -> tuple[TokenId, ...]:
        """None: the cache may know a beginning, but not the hidden states of its tokens."""
        return ()

    def needs(self, blocks: SequenceBlocks, block_size: int, step_tokens: int) -> tuple[int, ...]:
        """Blocks for its pending tokens and the first contenders, and one more."""
        pending = len(self.sequence.tokens) - blocks.committed
        return demand(blocks, pending + self.num_places + block_size, step_tokens)

    def run(self, blocks: SequenceBlocks, open_drafter: OpenDrafter) -> RunningContrast:  # noqa: ARG002 - nothing is guessed
        """Start with blocks that hold nothing yet."""
        self.sequence.admitted(blocks.committed)
        return RunningContrast(self.sequence, blocks)


class RunningContrast:
    """A sequence of contrastive search with its blocks and the hidden states of its tokens.

    It reads what is certain, then has contenders for the next token until one of them is taken::

        tokens  p p p p | c c c     all in the cache: 3 contenders
        tokens  p p p p c | r r     one was taken, and two tokens are forced behind it: to be read
    """

    def __init__(self, sequence: Sequence, blocks: SequenceBlocks) -> None:
        assert blocks.committed == 0, f"{blocks.committed} tokens without hidden states"
        self.sequence = sequence
        self.blocks = blocks
        self._seen = SeenStates()
        self._contenders: tuple[Contender, ...] = ()

    @property
    def request_id(self) -> str:
        """That of its request."""
        return self.sequence.request_id

    @property
    def num_places(self) -> int:
        """As of what waits."""
        return WaitingContrast(self.sequence).num_places

    @property
    def pending(self) -> int:
        """Tokens that are certain but not yet in the cache, or the one that is to be chosen."""
        return self._unread or 1

    @property
    def is_finished(self) -> bool:
        """Whether the answer has come to its end."""
        return self.sequence.finish_reason is not None

    @property
    def tables(self) -> Items[BlockTable]:
        """One for each group of layers."""
        return self.blocks.tables

    def needs(self, block_size: int, step_tokens: int) -> tuple[int, ...]:
        """Blocks for its pending tokens and the next contenders, and one more."""
        return WaitingContrast(self.sequence).needs(self.blocks, block_size, step_tokens)

    def draft(self, count: int, budget: DraftBudget) -> ContrastStep:
        """The next ``count`` pending tokens, or all contenders, with the runs they force."""
        if self._contenders:
            branches = [self._branch(contender, budget) for contender in self._contenders]
            return ContrastStep(self, tuple(branches))
        trunk = self.sequence.trunk(self.blocks.committed, count)
        return ContrastStep(self, (_Branch(trunk.tokens, bool(trunk.deciding)),))

    def settle(self, step: ContrastStep, output: SegmentOutput) -> Settled:
        """Take one of the contenders if there are any, and look for the next ones.

        What can go wrong comes before the commit: behind it others find the blocks, whose rows
        have still to be moved.
        """
        sequence, contenders = self.sequence, self._contenders
        taken, self._contenders = 0, ()
        if contenders:
            taken = self._best(contenders, output.states[list(step.starts)])
            sequence.take(contenders[taken].choice)
        branch, start = step.branches[taken], step.starts[taken]
        certain = zip(branch.tokens, sequence.tokens[self.blocks.committed :], strict=False)
        kept = [told for told, _ in takewhile(lambda pair: pair[0] == pair[1], certain)]
        is_read = len(kept) == self._unread
        if branch.is_deciding and not self.is_finished and is_read:
            self._consider(output.logits[sum(one.is_deciding for one in step.branches[:taken])])
        copies = self.blocks.commit(range(start, start + len(kept)), kept)
        self._seen.append(output.states[start : start + len(kept)])
        return Settled(copies)

    def stop(self) -> WaitingContrast:
        """Give the blocks back, and forget what is computed again with them."""
        self.blocks.release()
        return WaitingContrast(self.sequence)

    def check(self) -> None:
        """Raise unless it has something to compute, nothing reserved, and a state a token."""
        assert bool(self._unread) != bool(self._contenders), (
            f"{self.request_id!r} has {self._unread} tokens to read and "
            f"{len(self._contenders)} contenders"
        )
        assert len(self._seen) == self.blocks.committed, f"{self.request_id!r} lacks states"
        assert self.blocks.reserved == 0, f"{self.request_id!r} holds rows"

    @property
    def _unread(self) -> int:
        """Tokens that are certain but not yet in the cache."""
        return len(self.sequence.tokens) - self.blocks.committed

    def _branch(self, contender: Contender, budget: DraftBudget) -> _Branch:
        choice = contender.choice
        if choice.matcher is None:
            return _Branch((choice.token,), is_deciding=False)
        try:
            run = choice.matcher.forced_run(self.sequence.forcing)
            if not run:
                return _Branch((choice.token,), is_deciding=not choice.matcher.is_complete)
            fits = len(run) < self.sequence.chooser.remaining(self.sequence.answer_length)
            if fits and budget.pays(len(run), contender.probability):
                is_complete = _advance(choice.matcher, run).is_complete
                budget.spend(len(run), contender.probability)
                return _Branch((choice.token, *run), is_deciding=not is_complete)
        except LimitExceededError:  # if the contender is taken, the answer closes
            return _Branch((choice.token,), is_deciding=True)
        return _Branch((choice.token,), is_deciding=False)

    def _best(self, contenders: Items[Contender], states: NDArray[np.float32]) -> int:
        alpha = self.sequence.chooser.sampling.penalty_alpha
        assert alpha is not None, f"{self.request_id!r} asks for no contrastive search"
        return best_contender(contenders, self._seen.likeness(states), alpha)

    def _consider(self, logits: NDArray[np.float32]) -> None:
        """Look for the contenders behind all tokens, of which ``logits`` are (``[vocab]``)."""
        sequence = self.sequence
        found = find_contenders(
            logits,
            sequence.matcher,
            sequence.answer_length,
            sequence.history(),
            sequence.chooser,
        )
        if isinstance(found, Closing):
            sequence.take(found)
        else:
            self._contenders = found


@dataclass(frozen=True, slots=True)
class _Branch:
    """Tokens one behind the other: what is to be read, or a contender and what it forces."""

    tokens: tuple[TokenId, ...]
    is_deciding: bool
    """Whether something is to be chosen behind the last one."""


@dataclass(frozen=True, slots=True, eq=False)
class ContrastStep:
    """What one step computes for a sequence of contrastive search: branches side by side."""

    running: RunningContrast
    branches: tuple[_Branch, ...]

    @property
    def starts(self) -> tuple[int, ...]:
        """The first node of each branch."""
        return tuple(accumulate((len(one.tokens) for one in self.branches[:-1]), initial=0))

    def without_guesses(self) -> ContrastStep:
        """The contenders without the runs behind them; what is to be read stays as it is."""
        if len(self.branches) == 1:
            return self
        bare = [
            one if len(one.tokens) == 1 else _Branch(one.tokens[:1], is_deciding=False)
            for one in self.branches
        ]
        return ContrastStep(self.running, tuple(bare))

    def demand(self) -> tuple[int, ...]:
        """Blocks for all nodes, by group of layers."""
        count = sum(len(one.tokens) for one in self.branches)
        return demand(self.running.blocks, count, count)

    def reserve(self) -> Iterator[Segment]:
        """Set rows aside for all nodes."""
        blocks = self.running.blocks
        committed = blocks.committed
        tokens = [token for one in self.branches for token in one.tokens]
        ends = [
            start + len(one.tokens) - 1
            for start, one in zip(self.starts, self.branches, strict=True)
        ]
        yield Segment(
            rows=blocks.reserve(len(tokens)),
            committed=committed,
            tokens=tuple(tokens),
            depths=tuple(depth for one in self.branches for depth in range(len(one.tokens))),
            ancestors=None if len(self.branches) == 1 else self._ancestors(len(tokens)),
            deciding=tuple(
                end for end, one in zip(ends, self.branches, strict=True) if one.is_deciding
            ),
            wants_states=True,
        )

    def settle(self, outputs: Items[SegmentOutput]) -> Settled:
        """See ``RunningContrast.settle``."""
        (output,) = outputs
        return self.running.settle(self, output)

    def _ancestors(self, count: int) -> NDArray[np.bool_]:
        """Each node sees those of its branch up to itself, ``[nodes, nodes]``."""
        sees = np.zeros((count, count), np.bool_)
        for start, one in zip(self.starts, self.branches, strict=True):
            size = len(one.tokens)
            sees[start : start + size, start : start + size] = np.tri(size, dtype=np.bool_)
        return sees


def _advance(matcher: Matcher, tokens: tuple[TokenId, ...]) -> Matcher:
    for token in tokens:
        matcher = matcher.advance(token)
    return matcher
