"""A sequence on its way through the engine: waiting, with room in the cache, and in one step."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.decoding.draft_budget import DraftBudget
from guided.decoding.draft_tree import DraftTree
from guided.decoding.drafting import Drafter, OpenDrafter
from guided.decoding.tree_growth import TreeGrowth
from guided.decoding.verify import Acceptance, verify
from guided.engine.room import demand
from guided.engine.sequence import Sequence
from guided.engine.work import Settled
from guided.kv.block_table import BlockTable
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import Segment, SegmentOutput
from guided.spec import TokenId

__all__ = ["Draft", "RunningSequence", "WaitingSequence"]

_BLOCKS_OF_A_TWIN: Final = 2
"""A copy of the last block of the prompt, and the block behind it."""


@dataclass(frozen=True, slots=True, eq=False)
class WaitingSequence:
    """A sequence without room in the cache."""

    sequence: Sequence

    @property
    def request_id(self) -> str:
        """That of its request."""
        return self.sequence.request_id

    @property
    def num_places(self) -> int:
        """Places of a batch that it takes, together with its twins."""
        return 1 + len(self.sequence.twins)

    @property
    def tokens(self) -> Items[TokenId]:
        """All tokens so far."""
        return self.sequence.tokens

    def needs(self, blocks: SequenceBlocks, block_size: int, step_tokens: int) -> tuple[int, ...]:
        """Blocks for its pending tokens, and one more, so that nobody has to give way at once."""
        count = len(self.tokens) - blocks.committed + block_size
        of_twins = _BLOCKS_OF_A_TWIN * len(self.sequence.twins)
        return tuple(need + of_twins for need in demand(blocks, count, step_tokens))

    def run(self, blocks: SequenceBlocks, open_drafter: OpenDrafter) -> RunningSequence:
        """Start with the blocks that were opened for ``tokens``."""
        sequence = self.sequence
        sequence.admitted(blocks.committed)
        return RunningSequence(sequence, blocks, _drafter_of(sequence, open_drafter), open_drafter)


@dataclass(frozen=True, slots=True, eq=False)
class RunningSequence:
    """A sequence with its blocks."""

    sequence: Sequence
    blocks: SequenceBlocks
    drafter: Drafter
    open_drafter: OpenDrafter
    """For its twins."""

    @property
    def request_id(self) -> str:
        """That of its request."""
        return self.sequence.request_id

    @property
    def num_places(self) -> int:
        """Places of a batch that it takes, together with its twins."""
        return 1 + len(self.sequence.twins)

    @property
    def pending(self) -> int:
        """Tokens that are certain but not yet in the cache."""
        return len(self.sequence.tokens) - self.blocks.committed

    @property
    def is_finished(self) -> bool:
        """Whether the answer has come to its end."""
        return self.sequence.finish_reason is not None

    @property
    def tables(self) -> Items[BlockTable]:
        """One for each group of layers."""
        return self.blocks.tables

    def needs(self, block_size: int, step_tokens: int) -> tuple[int, ...]:
        """Blocks for its pending tokens, and one more."""
        return WaitingSequence(self.sequence).needs(self.blocks, block_size, step_tokens)

    def draft(self, count: int, budget: DraftBudget) -> Draft:
        """The tree for the next ``count`` pending tokens; guesses follow only the last of all.

        While there are twins there are no guesses, as each of them goes another way.
        """
        sequence = self.sequence
        trunk = sequence.trunk(self.blocks.committed, count)
        if not budget.room or count < self.pending or sequence.twins:
            return Draft(self, trunk, trunk)
        growth = TreeGrowth(
            trunk,
            sequence.forcing,
            budget=budget,
            longest=sequence.chooser.remaining(sequence.answer_length),
            end_ids=sequence.chooser.end_ids,
        )
        self.drafter.draft(sequence.tokens, growth)
        return Draft(self, trunk, growth.tree())

    def fork(self) -> tuple[RunningSequence, ...]:
        """The twins, which share all blocks; the sequence is on its own then."""
        twins, self.sequence.twins = self.sequence.twins, ()
        forks = []
        for twin in twins:
            twin.forked(self.blocks.committed)
            drafter = _drafter_of(twin, self.open_drafter)
            forks.append(RunningSequence(twin, self.blocks.fork(), drafter, self.open_drafter))
        return tuple(forks)

    def stop(self) -> WaitingSequence:
        """Give the blocks back; it keeps its tokens, its place in the constraint and its seed."""
        self.blocks.release()
        return WaitingSequence(self.sequence)

    def check(self) -> None:
        """Raise unless something is pending and nothing reserved."""
        assert self.pending > 0, f"{self.request_id!r} has nothing pending"
        assert self.blocks.reserved == 0, f"{self.request_id!r} holds rows"


class Draft:
    """What one step computes for one sequence."""

    __slots__ = ("_trunk", "running", "tree")

    def __init__(self, running: RunningSequence, trunk: DraftTree, tree: DraftTree) -> None:
        self.running = running
        self.tree = tree
        self._trunk = trunk

    def without_guesses(self) -> Draft:
        """The certain part alone."""
        return Draft(self.running, self._trunk, self._trunk)

    def demand(self) -> tuple[int, ...]:
        """Blocks for the nodes of the tree, by group of layers."""
        return demand(self.running.blocks, len(self.tree), len(self.tree))

    def reserve(self) -> Iterator[Segment]:
        """Set rows aside for the nodes of the tree, and say what the model has to compute."""
        blocks, tree = self.running.blocks, self.tree
        committed = blocks.committed
        rows = blocks.reserve(len(tree))
        self.running.sequence.copied(len(rows[0].copies))
        yield Segment(
            rows=rows,
            committed=committed,
            tokens=tree.tokens,
            depths=tree.depths(),
            ancestors=None if tree.is_chain else tree.ancestors(),
            deciding=tree.deciding,
        )

    def settle(self, outputs: Items[SegmentOutput]) -> Settled:
        """Verify the tree against its logits, extend the sequence, commit the rows of the path.

        Twins go on from the end of the prompt, each with its own choice. What can go wrong comes
        before the commit: behind it others find the blocks, whose rows have still to be moved.
        """
        running, tree, twins = self.running, self.tree, self._twins()
        (output,) = outputs
        rows = {node: output.logits[row] for row, node in enumerate(tree.deciding)}
        acceptance = self._verify(running.sequence, rows)
        choices = [self._verify(twin, rows) for twin in twins]
        running.sequence.extend(tree, acceptance)
        for twin, choice in zip(twins, choices, strict=True):
            twin.extend(tree, choice)
            _drafter_of(twin, running.open_drafter)
        running.drafter.learn(tree, acceptance)
        tokens = [tree.tokens[node] for node in acceptance.path]
        copies = running.blocks.commit(acceptance.path, tokens)
        return Settled(copies, running.fork() if twins else ())

    def _twins(self) -> tuple[Sequence, ...]:
        """Those that part from the sequence here, where the prompt ends."""
        twins = self.running.sequence.twins
        return twins if twins and self.tree.deciding else ()

    def _verify(self, sequence: Sequence, rows: dict[int, NDArray[np.float32]]) -> Acceptance:
        return verify(self.tree, rows, sequence.chooser, sequence.answer_length, sequence.history())


def _drafter_of(sequence: Sequence, open_drafter: OpenDrafter) -> Drafter:
    """Who starts over keeps what its drafter has learnt."""
    sequence.drafter = sequence.drafter or open_drafter(sequence.forcing)
    return sequence.drafter
