"""What followed the same tokens in earlier texts, and how often: a trie of their suffixes.

Every suffix of every text is a path from the root, cut after some tokens. A node counts how often
its tokens occurred in a row, its children how often each token followed::

    texts     a b c d     a b c e               b ─2─ c ─2─┬─ d ─1
                                                           └─ e ─1

What has been seen once is a leaf that points into its text, so a text that resembles no other costs
about one node for each of its tokens. A leaf grows by a node when the same is seen once more. To
forget a text its suffixes are counted down again, so that nothing of it is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from guided.spec import TokenId

__all__ = ["MAX_CONTEXT", "Context", "Contexts", "SuffixTrie"]

MAX_CONTEXT: Final = 8
"""The most tokens that are compared."""
_DEPTH: Final = MAX_CONTEXT + 1
_NODE_BYTES: Final = 136
"""Approximate bytes of a node, including its place in the table of its parent."""
_TABLE_BYTES: Final = 230
"""Bytes of a table of children."""
_TOKEN_BYTES: Final = 40
_TEXT_BYTES: Final = 200

_Text: TypeAlias = tuple[TokenId, ...]


class _Node:
    """Tokens that occurred in a row in some text."""

    __slots__ = ("children", "count", "index", "text")

    def __init__(self, text: _Text, index: int) -> None:
        self.count = 1
        self.children: dict[TokenId, _Node] | None = None
        """By the token that follows; ``None`` in a leaf."""
        self.text = text
        """In a leaf, the only text where it was seen; empty where a path is cut."""
        self.index = index
        """In a leaf, where it continues in that text."""


class Context:
    """The last tokens of a text, found in the trie."""

    __slots__ = ("_node", "_offset", "length")

    def __init__(self, length: int, node: _Node, offset: int) -> None:
        self.length = length
        """How many tokens match."""
        self._node = node
        # How many tokens of a leaf's text were passed, which have no nodes of their own.
        self._offset = offset

    @property
    def count(self) -> int:
        """How often these tokens were seen."""
        return self._node.count

    @property
    def num_followers(self) -> int:
        """How many different tokens followed."""
        children = self._node.children
        return 1 if children is None else len(children)

    def followers(self) -> list[tuple[TokenId, int]]:
        """Return the tokens that followed, each with its count, the most frequent first."""
        node = self._node
        if node.children is None:
            at = node.index + self._offset
            return [(node.text[at], 1)] if at < len(node.text) else []
        counted = [(token, child.count) for token, child in node.children.items()]
        # Ties by id, so that the order does not depend on what was forgotten.
        counted.sort(key=_most_frequent)
        return counted

    def after(self, token: TokenId) -> Context | None:
        """Return the context with one more token; ``None`` if that never followed."""
        node = self._node
        if node.children is None:
            at = node.index + self._offset
            if at < len(node.text) and node.text[at] == token:
                return Context(self.length + 1, node, self._offset + 1)
            return None
        child = node.children.get(token)
        return None if child is None else Context(self.length + 1, child, 0)


def _most_frequent(follower: tuple[TokenId, int]) -> tuple[int, int]:
    return -follower[1], follower[0]


Contexts: TypeAlias = list[Context]
"""The contexts at the end of a text: the longest first, the last is that of no tokens."""


class SuffixTrie:
    """Texts; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._root = _Node((), 0)
        self._root.children = {}
        self._texts: deque[_Text] = deque()
        self._num_nodes = 0
        self._num_tables = 0
        """Nodes that have a table of children."""
        self._num_tokens = 0

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def nbytes(self) -> int:
        """The approximate bytes that it takes."""
        nodes = self._num_nodes * _NODE_BYTES + self._num_tables * _TABLE_BYTES
        return nodes + self._num_tokens * _TOKEN_BYTES + len(self._texts) * _TEXT_BYTES

    def add(self, tokens: Sequence[TokenId]) -> None:
        """Remember a text."""
        text = tuple(tokens)
        self._texts.append(text)
        self._num_tokens += len(text)
        for start in range(len(text)):
            self._count_up(text, start)

    def forget_oldest(self) -> None:
        """Forget the text that was added first."""
        text = self._texts.popleft()
        self._num_tokens -= len(text)
        for start in range(len(text)):
            self._count_down(text, start)

    def contexts(self, tokens: Sequence[TokenId]) -> Contexts:
        """Return the contexts at the end of some tokens."""
        return self.follow([], tokens[-MAX_CONTEXT:])

    def follow(self, contexts: Contexts, tokens: Iterable[TokenId]) -> Contexts:
        """Return the contexts after some more tokens."""
        empty = Context(0, self._root, 0)
        for token in tokens:
            longer = [context.after(token) for context in contexts or [empty]]
            contexts = [context for context in longer if context is not None]
            contexts.append(empty)
        return contexts or [empty]

    def check(self) -> None:
        """Raise unless the nodes are as many as counted, and children no more than their parent."""
        assert self._root.children is not None
        found, tables, worklist = 0, 0, list(self._root.children.values())
        while worklist:
            node = worklist.pop()
            found += 1
            assert node.count > 0, "a node that nothing passes"
            if node.children is None:
                assert node.count == 1 or not node.text, "a leaf that was seen twice"
                continue
            tables += 1
            assert not node.text, "a node with children holds on to a text"
            counts = [child.count for child in node.children.values()]
            assert sum(counts) <= node.count, f"{counts} followed {node.count} times"
            worklist += node.children.values()
        counted = self._num_nodes, self._num_tables
        assert (found, tables) == counted, f"{found} nodes, {tables} tables, counted as {counted}"

    def _count_up(self, text: _Text, start: int) -> None:
        """Count the suffix of ``text`` from ``start`` on in every node that it passes.

        A suffix seen once ends in a leaf that refers to its text; the second visit makes the leaf a
        node with children.
        """
        node, end = self._root, min(len(text), start + _DEPTH)
        for index in range(start, end):
            children = node.children
            assert children is not None, "a way leads through a leaf"
            child = children.get(text[index])
            is_cut = index + 1 == start + _DEPTH
            if child is None:
                children[text[index]] = _Node(() if is_cut else text, index + 1)
                self._num_nodes += 1
                return
            child.count += 1
            # Seen twice, it may continue in two ways: from here on those are counted.
            if child.children is None and not is_cut:
                self._expand_leaf(child, is_cut=index + 2 == start + _DEPTH)
            node = child

    def _expand_leaf(self, leaf: _Node, *, is_cut: bool) -> None:
        """Give the leaf's continuation in its text a node; ``is_cut`` ends its path there."""
        text, index = leaf.text, leaf.index
        leaf.children = {}
        leaf.text = ()
        self._num_tables += 1
        if index < len(text):
            leaf.children[text[index]] = _Node(() if is_cut else text, index + 1)
            self._num_nodes += 1

    def _count_down(self, text: _Text, start: int) -> None:
        """Undo ``_count_up`` for the same suffix; removes nodes that no suffix passes any more."""
        node, end = self._root, min(len(text), start + _DEPTH)
        for index in range(start, end):
            children = node.children
            assert children is not None, "a way leads through a leaf"
            child = children[text[index]]
            child.count -= 1
            if not child.count:
                # Only this suffix came here, so the rest is a single path, and is dropped as well.
                del children[text[index]]
                self._drop(child)
                return
            node = child

    def _drop(self, node: _Node) -> None:
        """Uncount the nodes of a path without branches."""
        while True:
            self._num_nodes -= 1
            if node.children is None:
                return
            self._num_tables -= 1
            if not node.children:
                return
            node = next(iter(node.children.values()))
