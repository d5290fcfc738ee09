"""A sequence that has been given room in the cache, and its part of one step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guided.decoding.draft_tree import DraftTree
from guided.decoding.drafting import Drafter, TreeGrowth
from guided.decoding.verify import verify
from guided.engine.sequence import Sequence
from guided.kv.slots import SequenceSlots
from guided.kv.storage import SequenceStorage
from guided.model.batch import Segment

__all__ = ["Draft", "RunningSequence"]


@dataclass(frozen=True, slots=True, eq=False)
class RunningSequence:
    """A sequence with its slots and their memory."""

    sequence: Sequence
    slots: SequenceSlots
    storage: SequenceStorage

    @property
    def pending(self) -> int:
        """Tokens that are certain but not yet in the cache."""
        return self.sequence.pending(self.slots)

    def draft(self, count: int, drafter: Drafter, room: int) -> Draft:
        """The tree for the next ``count`` pending tokens; guesses follow only the last of all."""
        trunk = self.sequence.trunk(self.slots, count)
        tree = trunk
        if room and count == self.pending:
            growth = TreeGrowth(
                trunk,
                self.sequence.forcing,
                room=room,
                end_ids=self.sequence.chooser.end_ids,
            )
            drafter(self.sequence.tokens, growth)
            tree = growth.tree()
        return Draft(running=self, tree=tree)


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """What one step computes for one sequence."""

    running: RunningSequence
    tree: DraftTree

    def reserve(self) -> Segment:
        """Set rows aside for the nodes of the tree, and say what the model has to compute."""
        running, tree = self.running, self.tree
        reservation = running.slots.reserve(len(tree))
        return Segment(
            storage=running.storage,
            committed=reservation.start,
            tokens=tree.tokens,
            depths=tree.depths(),
            ancestors=None if tree.is_chain else tree.ancestors(),
            deciding=tree.deciding,
        )

    def settle(self, logits: NDArray[np.float32]) -> None:
        """Verify the tree against its logits, commit the rows of the path, extend the sequence."""
        running, tree = self.running, self.tree
        rows = dict(zip(tree.deciding, logits, strict=True))
        sequence = running.sequence
        acceptance = verify(
            tree, rows, sequence.chooser, sequence.answer_length, sequence.history()
        )
        running.storage.move(running.slots.commit(acceptance.path))
        sequence.extend(tree, acceptance)
