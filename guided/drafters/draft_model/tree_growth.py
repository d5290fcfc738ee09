"""Growing the draft tree of one sequence by a draft model, a level for each of its calls.

::

    call 1    unread tokens of the text, and what others have drafted      logits at the root
    level 1   root ─┬─ a ── (run of a)                                     expanded by widths[0]
                    └─ b
    call 2    a, its run, and b                                            logits after each
    level 2   a ─┬─ c                                                      expanded by widths[1]
                 └─ d ...

Expansion widths for each level are those of SpecInfer (https://arxiv.org/abs/2305.09781). What a
cheaper drafter has put into the tree is read in the first call. Where the draft model proposes the
same tokens, it goes on from there at once, without a call: so look-ups draft for the draft model.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.decoding.drafter import DraftBuilder
from guided.decoding.expansion import Expansion
from guided.drafters.draft_model.read_text import ReadText, in_a_row
from guided.model.batch import Segment
from guided.spec import TokenId

__all__ = ["MOST_STAGED", "Spell", "TreeGrowth"]

MOST_STAGED: Final = 16
"""Drafted tokens of others that are read; they are in the order of what pays, the best first."""

Spell: TypeAlias = Callable[[TokenId], Sequence[TokenId]]


class TreeGrowth:
    """The tree of one sequence in one step, and which of its nodes the draft model has read."""

    def __init__(
        self,
        builder: DraftBuilder,
        expansion: Expansion,
        text: ReadText,
        unread: Sequence[TokenId],
        widths: Sequence[int],
        spell: Spell,
    ) -> None:
        """``unread`` end with the root; rows are reserved in the text for them and for some nodes.

        ``spell`` gives the tokens by which the draft model reads one of a node.
        """
        self._builder = builder
        self._expansion = expansion
        self._text = text
        self._unread = unread
        self._widths = widths
        self._spell = spell
        self._level = 0
        self._num_rows = 0
        self._rows = {builder.root: len(unread) - 1}
        """The row of each node that was read, the last where it takes several."""
        self._logits: dict[int, NDArray[np.float32]] = {}
        """What follows a node, where it was read and something is to be chosen there."""
        self._asked: list[int] = []
        """The nodes whose logits the call in progress gives."""
        self._likely = [(builder.root, 1.0)]
        """Nodes to expand next, each with the chance that the answer reaches it."""

    def first_segment(self) -> Segment:
        """The unread tokens, and what is in the tree already."""
        root, tip, scouts = self._builder.root, self._builder.tip, self._builder.tree().scouts
        # Scouts stand for places further on, so nothing is drafted from what follows them.
        drafted = [node for node in range(root + 1, tip + 1) if node not in scouts]
        staged = drafted[:MOST_STAGED]
        segment = self._read(in_a_row(self._unread), staged)
        assert segment is not None, "what follows the root is not asked"
        return segment

    def take(self, logits: NDArray[np.float32]) -> None:
        """Note what the model said to a segment, and expand the tree by one level."""
        self._logits.update(zip(self._asked, logits, strict=True))
        width = self._widths[self._level]
        self._level += 1
        after_it = len(self._widths) - self._level
        heap = [(-chance, node) for node, chance in self._likely]
        heapq.heapify(heap)
        self._likely = []
        # The likeliest first, as what they add may leave too little for the others to pay.
        while heap:
            loss, node = heapq.heappop(heap)
            if node not in self._logits:  # there was no room to read it
                continue
            found = self._expansion.expand(
                self._builder, node, self._logits[node], -loss, width, after_it
            )
            for tip, chance in found:
                # Another drafter was first, and the model has read on from there already.
                if tip in self._logits:
                    heapq.heappush(heap, (-chance, tip))
                else:
                    self._likely.append((tip, chance))

    def next_segment(self) -> Segment | None:
        """What has to be read to expand the next level; ``None`` where nothing more pays."""
        builder = self._builder
        self._likely = [
            (node, chance)
            for node, chance in self._likely
            if builder.left(node)
            and not builder.matcher(node).is_complete
            # No token after a node is likelier than the node.
            and builder.pays(1, chance, len(self._widths) - self._level - 1)
        ]
        if self._level == len(self._widths) or not self._likely:
            return None
        tree = builder.tree()
        wanted: set[int] = set()
        for node, _ in self._likely:
            at: int | None = node
            # With the run that a proposal brings along, or what others drafted on the way to it.
            while at is not None and at not in self._rows and at not in wanted:
                wanted.add(at)
                at = tree.parents[at]
        return self._read([], sorted(wanted))

    def _read(
        self, trunk: Sequence[tuple[int | None, TokenId]], nodes: Iterable[int]
    ) -> Segment | None:
        """The segment that computes the trunk, where it is unread, and then what nodes fit.

        ``None`` where something is to be chosen after none of them.
        """
        tree, first = self._builder.tree(), self._num_rows
        tokens, asked = list(trunk), [self._builder.root] if trunk else []
        deciding = set(tree.deciding)
        for node in nodes:
            parent, spelled = tree.parents[node], self._spell(tree.tokens[node])
            if parent not in self._rows or len(tokens) + len(spelled) > self._text.room:
                continue
            at = self._rows[parent]
            for token in spelled:
                tokens.append((at, token))
                at = first + len(tokens) - 1
            self._rows[node] = at
            if node in deciding:
                asked.append(node)
        if not asked:
            return None
        self._num_rows += len(tokens)
        self._asked = asked
        return self._text.read(tokens, tuple([self._rows[node] - first for node in asked]))
