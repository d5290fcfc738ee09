"""The place of one sequence in the prefix index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from guided.kv.block_pool import BlockId
from guided.kv.prefix_index import PrefixIndex, PrefixNode
from guided.kv.recurrence import SequenceState
from guided.spec import TokenId

__all__ = ["PrefixCursor"]


class PrefixCursor:
    """The node of a sequence's last full block, and its tokens after that block.

    The cursor holds its node in the index, even if the node's blocks are evicted.
    """

    __slots__ = ("_block_size", "_index", "_node", "_replaceable", "_tail")

    def __init__(self, index: PrefixIndex, block_size: int, salt: str) -> None:
        self._index = index
        self._block_size = block_size
        self._node = index.acquire_root(salt)
        self._tail: list[TokenId] = []
        self._replaceable: PrefixNode | None = None
        """The node of the latest state kept with ``replacing``; the next such one replaces it."""

    def move_to_longest_prefix(self, tokens: Sequence[TokenId]) -> tuple[tuple[BlockId, ...], ...]:
        """Move from the root to the longest known beginning; return its blocks, by group."""
        assert self._node.depth == 0 and not self._tail, "only an empty sequence looks for a prefix"
        node, blocks = self._index.match(self._node, tokens)
        self._move_to(node)
        if self._index.states is not None:
            self._index.states.use(node)
        return blocks

    @property
    def keeps_states(self) -> bool:
        """Whether states of recurrent layers are remembered."""
        return self._index.states is not None

    @property
    def state(self) -> SequenceState | None:
        """The state of recurrent layers after the last full block, if it is remembered."""
        return self._node.state

    def remember(self, state: SequenceState, *, replacing: bool) -> None:
        """Keep a state after one of the full blocks of the sequence.

        If ``replacing``, the last state kept so is given up: otherwise a growing answer would drive
        out all others.
        """
        node = self._node
        while node.depth * self._block_size > state.length and node.parent is not None:
            node = node.parent
        assert node.depth * self._block_size == state.length, "a state inside of a block"
        states = self._index.states
        if states is None or any(block is None for block in node.blocks):
            return
        states.remember(node, state)
        if replacing:
            if self._replaceable is not None and self._replaceable is not node:
                states.forget(self._replaceable)
            self._replaceable = node

    @property
    def depth(self) -> int:
        """Full blocks of the sequence."""
        return self._node.depth

    @property
    def num_tokens(self) -> int:
        """Tokens of the sequence."""
        return self._node.depth * self._block_size + len(self._tail)

    def extend(
        self, tokens: Sequence[TokenId], blocks_at: Callable[[int], tuple[BlockId, ...]]
    ) -> None:
        """Move past committed tokens, and enter each block that they fill into the index.

        ``blocks_at`` maps the index of a full block to its blocks, by group of layers.
        """
        self._tail += tokens
        while len(self._tail) >= self._block_size:
            full = tuple(self._tail[: self._block_size])
            self._move_to(self._index.extend(self._node, full, blocks_at(self._node.depth)))
            del self._tail[: self._block_size]

    def fork(self) -> PrefixCursor:
        """Return another cursor at the same place."""
        twin = PrefixCursor(self._index, self._block_size, self._node.salt)
        twin._move_to(self._node)
        twin._tail = self._tail.copy()
        return twin

    def close(self) -> None:
        """Leave the index; the cursor must not be used any more."""
        self._index.release(self._node)

    def path(self) -> list[PrefixNode]:
        """Return the nodes of the full blocks, first to last."""
        nodes = []
        node = self._node
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def _move_to(self, node: PrefixNode) -> None:
        self._index.acquire(node)
        self._index.release(self._node)
        self._node = node
