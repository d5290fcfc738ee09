"""A sequence that has been given room in the cache, and its part of one step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guided.decoding.draft_budget import DraftBudget
from guided.decoding.draft_tree import DraftTree
from guided.decoding.drafting import Drafter, TreeGrowth
from guided.decoding.verify import verify
from guided.engine.sequence import Sequence
from guided.kv.reservation import SlotCopies
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import Segment

__all__ = ["Draft", "RunningSequence"]


@dataclass(frozen=True, slots=True, eq=False)
class RunningSequence:
    """A sequence with its blocks."""

    sequence: Sequence
    blocks: SequenceBlocks
    drafter: Drafter

    @property
    def pending(self) -> int:
        """Tokens that are certain but not yet in the cache."""
        return len(self.sequence.tokens) - self.blocks.committed

    def draft(self, count: int, budget: DraftBudget) -> Draft:
        """The tree for the next ``count`` pending tokens; guesses follow only the last of all."""
        sequence = self.sequence
        trunk = sequence.trunk(self.blocks.committed, count)
        if not budget.room or count < self.pending:
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


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """What one step computes for one sequence."""

    running: RunningSequence
    trunk: DraftTree
    tree: DraftTree

    def without_guesses(self) -> Draft:
        """The certain part alone."""
        return Draft(self.running, self.trunk, self.trunk)

    def reserve(self) -> Segment:
        """Set rows aside for the nodes of the tree, and say what the model has to compute."""
        blocks, tree = self.running.blocks, self.tree
        committed = blocks.committed
        return Segment(
            rows=blocks.reserve(len(tree)),
            committed=committed,
            tokens=tree.tokens,
            depths=tree.depths(),
            ancestors=None if tree.is_chain else tree.ancestors(),
            deciding=tree.deciding,
        )

    def settle(self, logits: NDArray[np.float32]) -> tuple[SlotCopies, ...]:
        """Verify the tree against its logits, commit the rows of the path, extend the sequence.

        Returns the copies to be made in the cache.
        """
        running, tree = self.running, self.tree
        rows = dict(zip(tree.deciding, logits, strict=True))
        sequence = running.sequence
        acceptance = verify(
            tree, rows, sequence.chooser, sequence.answer_length, sequence.history()
        )
        tokens = [tree.tokens[node] for node in acceptance.path]
        copies = running.blocks.commit(acceptance.path, tokens)
        sequence.extend(tree, acceptance)
        running.drafter.learn(tree, acceptance)
        return copies
