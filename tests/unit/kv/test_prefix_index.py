"""The index finds the longest prefix, and only one that is equal token by token."""

from __future__ import annotations

import pytest

from guided.kv.block_pool import BlockId
from guided.kv.prefix_index import PrefixIndex, PrefixNode
from guided.spec import TokenId


class Colliding(int):
    """A token whose hash is that of every other."""

    def __hash__(self) -> int:
        return 0


def tokens(*numbers: int) -> tuple[TokenId, ...]:
    return tuple(TokenId(number) for number in numbers)


def blocks(*numbers: int) -> tuple[BlockId, ...]:
    return tuple(BlockId(number) for number in numbers)


def grow(index: PrefixIndex, node: PrefixNode, text: tuple[TokenId, ...], first: int) -> PrefixNode:
    """Make pairs of tokens known, in blocks from ``first`` on in every group."""
    for place in range(0, len(text), 2):
        block = BlockId(first + place // 2)
        node = index.extend(node, text[place : place + 2], [block] * len(index.groups))
    return node


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ((), ()),
        ((1, 2), ()),
        ((1, 2, 3), (5,)),
        ((1, 2, 3, 4), (5,)),
        ((1, 2, 3, 4, 9), (5, 6)),
        ((1, 2, 3, 4, 5, 6, 7, 8), (5, 6, 7)),
        ((1, 2, 9, 4, 5, 6, 7), (5,)),
        ((3, 4, 5, 6, 7), ()),
        ((1, 2, 7, 7, 9), (5, 8)),
    ],
)
def test_the_longest_beginning_is_found(text: tuple[int, ...], found: tuple[int, ...]) -> None:
    index = PrefixIndex(2, [None])
    root = index.acquire_root("")
    grow(index, root, tokens(1, 2, 3, 4, 5, 6), first=5)
    grow(index, root, tokens(1, 2), first=9)  # known already: the first block stays
    index.extend(index.match(root, tokens(1, 2, 0))[0], tokens(7, 7), blocks(8))
    assert index.match(root, tokens(*text))[1] == (found,)
    index.check()


def test_tokens_with_equal_hashes_are_told_apart() -> None:
    index = PrefixIndex(2, [None])
    root = index.acquire_root("")

    def colliding(*numbers: int) -> tuple[TokenId, ...]:
        return tuple(TokenId(Colliding(number)) for number in numbers)

    grow(index, root, colliding(1, 2, 3, 4), first=0)
    grow(index, root, colliding(2, 1, 3, 4), first=2)
    assert index.match(root, colliding(2, 1, 3, 4, 0))[1] == ((2, 3),)
    assert index.match(root, colliding(1, 2, 3, 4, 0))[1] == ((0, 1),)
    assert index.match(root, colliding(3, 4, 1, 2, 0))[1] == ((),)


def test_a_block_that_gave_way_ends_the_beginning() -> None:
    index = PrefixIndex(2, [None])
    root = index.acquire_root("")
    grow(index, root, tokens(1, 2, 3, 4, 5, 6), first=0)
    index.groups[0].forget(BlockId(1))
    index.check()
    assert index.match(root, tokens(1, 2, 3, 4, 5, 6, 7))[1] == (blocks(0),)


def test_a_window_needs_only_its_last_blocks_and_the_full_group_all() -> None:
    index = PrefixIndex(2, [None, 3])
    root = index.acquire_root("")
    grow(index, root, tokens(1, 2, 3, 4, 5, 6), first=0)
    index.groups[1].forget(BlockId(0))
    text = tokens(1, 2, 3, 4, 5, 6, 7)
    # A token at position 6 sees 4 and 5 of the window, one at position 2 sees 0 and 1.
    assert index.match(root, text)[1] == (blocks(0, 1, 2), blocks(2))
    assert index.match(root, text[:3])[1] == ((), ())
    index.groups[1].forget(BlockId(2))
    assert index.match(root, text)[1] == (blocks(0, 1), blocks(1))
    index.groups[0].forget(BlockId(0))
    assert index.match(root, text)[1] == ((), ())


def test_nodes_without_a_use_are_taken_out() -> None:
    index = PrefixIndex(2, [None])
    root = index.acquire_root("salt")
    tip = grow(index, root, tokens(1, 2, 3, 4), first=0)
    index.acquire(tip)
    index.release(root)
    for block in blocks(0, 1):
        index.groups[0].forget(block)
        index.check()
    # A sequence is at the tip, so it can continue, and its text is found again.
    index.extend(tip, tokens(5, 6), blocks(3))
    index.release(tip)
    index.check()
    index.groups[0].forget(BlockId(3))
    index.check()
    assert index.num_nodes == 0
