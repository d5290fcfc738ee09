"""Which blocks hold the keys and values of which beginning of a text.

A tree with one node for every full block of tokens that follows another. Its edges are the tokens
themselves, found by hash and compared by value, so a path stands for exactly one beginning, and
hash collisions cannot mix up two beginnings. A node names a block for each group of layers, or none
if that group's block has given way::

    root ─ "You are a helpful" ─ " assistant. Sum up" ─ " the text below:"
              3 | 11                7 | 12                 8 | none
                         └────── " assistant. Say" ...

See docs/paged-kv.md.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from guided.kv.block_pool import BlockId, blocks_before_window
from guided.kv.recurrence import SequenceState
from guided.spec import TokenId

__all__ = ["GroupContents", "PrefixIndex", "PrefixNode", "RememberedStates"]


class PrefixNode:
    """A beginning of a text that ends with a full block; the root is the empty one."""

    __slots__ = ("blocks", "children", "depth", "parent", "readers", "salt", "state", "tokens")

    def __init__(
        self,
        parent: PrefixNode | None,
        tokens: tuple[TokenId, ...],
        *,
        salt: str,
        num_groups: int,
    ) -> None:
        self.parent = parent
        self.salt = salt
        self.tokens = tokens
        """The tokens of its last block."""
        self.depth: int = 0 if parent is None else parent.depth + 1
        """Blocks from the root on."""
        self.blocks: list[BlockId | None] = [None] * num_groups
        """The block of these tokens, by group."""
        self.children: dict[tuple[TokenId, ...], PrefixNode] = {}
        self.readers = 0
        """How many cursors hold it: sequences that end here and may continue."""
        self.state: SequenceState | None = None
        """The state of recurrent layers after its last block, if it is remembered."""


class RememberedStates:
    """A limited number of states of recurrent layers; the one used longest ago gives way."""

    __slots__ = ("_capacity", "_nodes")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._nodes: OrderedDict[PrefixNode, None] = OrderedDict()
        """The one used longest ago first."""

    def remember(self, node: PrefixNode, state: SequenceState) -> None:
        """Keep a state at a node."""
        node.state = state
        self.use(node)
        while len(self._nodes) > self._capacity:
            oldest, _ = self._nodes.popitem(last=False)
            oldest.state = None

    def use(self, node: PrefixNode) -> None:
        """Mark the state of a node, if it has one, as just used."""
        if node.state is not None:
            self._nodes[node] = None
            self._nodes.move_to_end(node)

    def forget(self, node: PrefixNode) -> None:
        """Drop the state of a node."""
        if node.state is not None:
            node.state = None
            del self._nodes[node]

    def __len__(self) -> int:
        return len(self._nodes)


class GroupContents:
    """The known contents of one group's blocks, which the group's pool looks up."""

    __slots__ = ("_group", "_index", "nodes")

    def __init__(self, index: PrefixIndex, group: int) -> None:
        self._index = index
        self._group = group
        self.nodes: dict[BlockId, PrefixNode] = {}

    def __contains__(self, block: BlockId) -> bool:
        return block in self.nodes

    def blocks(self) -> frozenset[BlockId]:
        """Return all blocks whose contents are known."""
        return frozenset(self.nodes)

    def forget(self, block: BlockId) -> None:
        """Forget a block, which gives way to other contents."""
        node = self.nodes.pop(block)
        node.blocks[self._group] = None
        if self._index.states is not None:
            self._index.states.forget(node)
        self._index.prune(node)


class PrefixIndex:
    """The tree of known beginnings, shared by all groups of layers of a model."""

    __slots__ = ("_block_size", "_roots", "_windows", "groups", "states")

    def __init__(
        self, block_size: int, windows: Sequence[int | None], num_states: int | None = None
    ) -> None:
        """``num_states`` is how many recurrent states to remember; ``None``: the model has none."""
        self.states = None if num_states is None else RememberedStates(num_states)
        """If set, a beginning is reused only if the state after it is here; ``None``: anywhere."""
        self._block_size = block_size
        self._windows = tuple(windows)
        self._roots: dict[str, PrefixNode] = {}
        self.groups = tuple(GroupContents(self, group) for group in range(len(windows)))
        """The contents of the blocks of each group."""

    @property
    def num_nodes(self) -> int:
        """The number of nodes of the tree, including the root of each salt."""
        return sum(1 for _ in self._nodes())

    def acquire_root(self, salt: str) -> PrefixNode:
        """Return the root of a salt, held until ``release``; different salts share nothing.

        The salt names what keys depend on besides the tokens before them, such as an adapter.
        """
        root = self._roots.get(salt)
        if root is None:
            root = PrefixNode(None, (), salt=salt, num_groups=len(self.groups))
            self._roots[salt] = root
        self.acquire(root)
        return root

    def acquire(self, node: PrefixNode) -> None:
        """Hold a node, so that it stays in the tree until ``release``."""
        node.readers += 1

    def release(self, node: PrefixNode) -> None:
        """Release one hold on a node, and remove it if it has no other use."""
        assert node.readers > 0, f"the node of depth {node.depth} is not held"
        node.readers -= 1
        self.prune(node)

    def match(
        self, root: PrefixNode, tokens: Sequence[TokenId]
    ) -> tuple[PrefixNode, tuple[tuple[BlockId, ...], ...]]:
        """Find the longest beginning of which every group has what the next token sees.

        Returns its node and, by group, its last blocks, as far back as the next token sees. At
        least one token is left over, because its logits are needed.
        """
        path = self._path(root, tokens)
        consecutive = [0] * len(self.groups)  # blocks up to here, by group
        best = 0
        for depth, node in enumerate(path, 1):
            for group, block in enumerate(node.blocks):
                consecutive[group] = 0 if block is None else consecutive[group] + 1
            if self.states is not None and node.state is None:
                continue
            if all(
                count >= depth - self._num_before_window(depth, window)
                for count, window in zip(consecutive, self._windows, strict=True)
            ):
                best = depth
        blocks = tuple(
            tuple(
                _block(node, group) for node in path[self._num_before_window(best, window) : best]
            )
            for group, window in enumerate(self._windows)
        )
        return path[best - 1] if best else root, blocks

    def extend(
        self, node: PrefixNode, tokens: tuple[TokenId, ...], blocks: Sequence[BlockId]
    ) -> PrefixNode:
        """Record that ``blocks``, by group, hold these tokens after a node.

        If a group knows another block with the same contents, that one stays.
        """
        assert len(tokens) == self._block_size, f"{len(tokens)} tokens are no full block"
        child = node.children.get(tokens)
        if child is None:
            child = node.children[tokens] = PrefixNode(
                node, tokens, salt=node.salt, num_groups=len(self.groups)
            )
        for group, block in zip(self.groups, blocks, strict=True):
            assert block not in group, f"block {block} holds something else"
        for index, (group, block) in enumerate(zip(self.groups, blocks, strict=True)):
            if child.blocks[index] is None:
                child.blocks[index] = block
                group.nodes[block] = child
        return child

    def prune(self, node: PrefixNode) -> None:
        """Remove nodes without a use, from this one towards the root."""
        while not node.readers and not node.children and not any(_has(b) for b in node.blocks):
            parent = node.parent
            if parent is None:
                del self._roots[node.salt]
                return
            del parent.children[node.tokens]
            node = parent

    def check(self) -> None:
        """Raise unless nodes and blocks name each other, and every node has a use."""
        named: list[dict[BlockId, PrefixNode]] = [{} for _ in self.groups]
        for node in self._nodes():
            used = node.readers or node.children or any(_has(b) for b in node.blocks)
            assert used, f"the node of depth {node.depth} has no use"
            for tokens, child in node.children.items():
                assert child.parent is node and child.tokens == tokens, "a child is misplaced"
                assert child.depth == node.depth + 1, f"depth {child.depth} below {node.depth}"
            for known, block in zip(named, node.blocks, strict=True):
                if block is not None:
                    assert block not in known, f"block {block} has two contents"
                    known[block] = node
        for group, known in zip(self.groups, named, strict=True):
            assert group.nodes == known, "blocks and nodes do not name each other"
        with_state = sum(node.state is not None for node in self._nodes())
        assert with_state == len(self.states or ()), f"{with_state} states that nobody counts"

    def _nodes(self) -> Iterator[PrefixNode]:
        worklist = list(self._roots.values())
        while worklist:
            node = worklist.pop()
            yield node
            worklist += node.children.values()

    def _path(self, root: PrefixNode, tokens: Sequence[TokenId]) -> list[PrefixNode]:
        """Return the nodes along a text, without its last token."""
        size, node = self._block_size, root
        path: list[PrefixNode] = []
        for start in range(0, len(tokens) - size, size):
            child = node.children.get(tuple(tokens[start : start + size]))
            if child is None:
                break
            path.append(child)
            node = child
        return path

    def _num_before_window(self, depth: int, window: int | None) -> int:
        return blocks_before_window(depth * self._block_size, window, self._block_size)


def _block(node: PrefixNode, group: int) -> BlockId:
    block = node.blocks[group]
    assert block is not None, f"group {group} has no block at depth {node.depth}"
    return block


def _has(block: BlockId | None) -> bool:
    return block is not None
