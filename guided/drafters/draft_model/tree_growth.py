"""Grows the draft tree of one sequence by a draft model, one level for each of its calls.

::

    call 1    unread tokens of the text, and what others have drafted      logits at the root
    level 1   root ─┬─ a ── (run of a)                                     expanded by widths[0]
                    └─ b
    call 2    a, its run, and b                                            logits after each
    level 2   a ─┬─ c                                                      expanded by widths[1]
                 └─ d ...

Expansion widths for each level are those of SpecInfer (https://arxiv.org/abs/2305.09781). The first
call reads what a cheaper drafter has put into the tree. If the draft model proposes the same
tokens, it continues from there at once, without a call: so look-ups draft for the draft model.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.decoding.drafter import DraftBuilder
from guided.decoding.expansion import Expansion
from guided.drafters.draft_model.read_text import ReadText, as_chain
from guided.model.batch import Segment
from guided.spec import TokenId

__all__ = ["MOST_STAGED", "Spell", "TreeGrowth"]

MOST_STAGED: Final = 16
"""The most drafted tokens of others that are read; they come in the order of what pays best."""

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
        """``unread`` ends with the root; rows are reserved in the text for it and for some nodes.

        ``spell`` returns the tokens as which the draft model reads a node's token.
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
        """The row of each node that was read, the last if it takes several."""
        self._logits: dict[int, NDArray[np.float32]] = {}
        """The logits after a node that was read and has a choice after it."""
        self._requested: list[int] = []
        """The nodes whose logits the call in progress returns."""
        self._frontier = [(builder.root, 1.0)]
        """Nodes to expand next, each with the chance that the answer reaches it."""

    def first_segment(self) -> Segment:
        """Make the segment of the unread tokens, and of what is in the tree already."""
        root, last, scouts = (
            self._builder.root,
            self._builder.last_node,
            self._builder.tree().scouts,
        )
        # Scouts stand for later places, so nothing is drafted from the logits after them.
        drafted = [node for node in range(root + 1, last + 1) if node not in scouts]
        staged = drafted[:MOST_STAGED]
        segment = self._make_segment(as_chain(self._unread), staged)
        assert segment is not None, "the root needs no logits"
        return segment

    def expand_level(self, logits: NDArray[np.float32]) -> None:
        """Expand the tree by one level, with the logits that the latest segment requested."""
        self._logits.update(zip(self._requested, logits, strict=True))
        width = self._widths[self._level]
        self._level += 1
        after_it = len(self._widths) - self._level
        heap = [(-chance, node) for node, chance in self._frontier]
        heapq.heapify(heap)
        self._frontier = []
        # The likeliest first, because their nodes may leave too little for the others to pay.
        while heap:
            loss, node = heapq.heappop(heap)
            if node not in self._logits:  # there was no room to read it
                continue
            found = self._expansion.expand(
                self._builder, node, self._logits[node], -loss, width, after_it
            )
            for continuation, continuation_chance in found:
                # Another drafter was first, and the model has already read on from there.
                if continuation in self._logits:
                    heapq.heappush(heap, (-continuation_chance, continuation))
                else:
                    self._frontier.append((continuation, continuation_chance))

    def next_segment(self) -> Segment | None:
        """Make the segment needed to expand the next level; ``None`` if nothing more pays."""
        builder = self._builder
        self._frontier = [
            (node, chance)
            for node, chance in self._frontier
            if builder.tokens_left(node)
            and not builder.matcher(node).is_complete
            # No token after a node is likelier than the node.
            and builder.pays(1, chance, len(self._widths) - self._level - 1)
        ]
        if self._level == len(self._widths) or not self._frontier:
            return None
        tree = builder.tree()
        wanted: set[int] = set()
        for node, _ in self._frontier:
            at: int | None = node
            # With the run that a proposal forces, or the nodes of others on the way to it.
            while at is not None and at not in self._rows and at not in wanted:
                wanted.add(at)
                at = tree.parents[at]
        return self._make_segment([], sorted(wanted))

    def _make_segment(
        self, trunk: Sequence[tuple[int | None, TokenId]], nodes: Iterable[int]
    ) -> Segment | None:
        """Make the segment that computes the trunk, if unread, and then the nodes that fit.

        ``None`` if nothing is to be chosen after any of them.
        """
        tree, first = self._builder.tree(), self._num_rows
        tokens, requested = list(trunk), [self._builder.root] if trunk else []
        nodes_needing_logits = set(tree.nodes_needing_logits)
        for node in nodes:
            parent, spelled = tree.parents[node], self._spell(tree.tokens[node])
            if parent not in self._rows or len(tokens) + len(spelled) > self._text.room:
                continue
            at = self._rows[parent]
            for token in spelled:
                tokens.append((at, token))
                at = first + len(tokens) - 1
            self._rows[node] = at
            if node in nodes_needing_logits:
                requested.append(node)
        if not requested:
            return None
        self._num_rows += len(tokens)
        self._requested = requested
        return self._text.make_segment(
            tokens, tuple([self._rows[node] - first for node in requested])
        )
