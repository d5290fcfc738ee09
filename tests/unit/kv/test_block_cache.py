"""Whatever happens to sequences, their tables lead to their own rows, and block counts agree.

The memory here holds for each slot the whole text up to the token written there. So a table that
leads to another sequence's row, to a row of another position or to one overwritten is caught.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from guided.errors import OutOfMemoryError
from guided.kv import BlockCache, LayerGroup, SequenceBlocks, SlotCopies
from guided.kv.reservation import Reservation
from guided.spec import TokenId
from tests.kit.effort import times

Text: TypeAlias = tuple[TokenId, ...]

TOKENS = st.integers(0, 1).map(TokenId)
"""Two tokens, so that texts often begin alike."""
MOST_OPEN = 4
GROUPS = (
    [LayerGroup(8)],
    [LayerGroup(6, window=3)],
    [LayerGroup(9), LayerGroup(5, window=4)],
    [LayerGroup(7, window=1), LayerGroup(6, window=7), LayerGroup(9)],
)


@dataclass(eq=False)
class Modelled:
    """A sequence, and its expected content."""

    blocks: SequenceBlocks
    base: int
    """Added to all its tokens, so that rows show their salt."""
    text: Text
    """Committed tokens."""
    nodes: list[Text] = field(default_factory=list)
    """For each reserved row, the text up to its token."""
    reservations: tuple[Reservation, ...] = ()


class CacheMachine(RuleBasedStateMachine):
    @initialize(
        groups=st.sampled_from(GROUPS), block_size=st.sampled_from([1, 2, 4]), reuse=st.booleans()
    )
    def start(self, groups: list[LayerGroup], block_size: int, reuse: bool) -> None:
        self.groups = groups
        self.block_size = block_size
        self.cache = BlockCache(groups, block_size, reuse_prefixes=reuse)
        self.memory: list[dict[int, Text]] = [{} for _ in groups]
        """By group, the content of each slot."""
        self.opened: list[Modelled] = []
        self.committed: list[Text] = []
        """Every text that some sequence reached."""

    @precondition(lambda self: len(self.opened) < MOST_OPEN)
    @rule(
        seed=st.integers(0, 99),
        tokens=st.lists(TOKENS, max_size=6),
        salt=st.sampled_from(["", "b"]),
    )
    def open(self, seed: int, tokens: list[TokenId], salt: str) -> None:
        """Open a text, most often one like an earlier text."""
        base = 2 * len(salt)
        begun = [text for text in self.committed if text and text[0] // 2 == base // 2]
        before = begun[seed % len(begun)] if begun and seed % 4 else ()
        text = (*before, *(TokenId(base + token) for token in tokens))
        expected = self.longest_known(text)
        blocks = self.cache.open(text, salt=salt)
        assert blocks.committed == expected
        self.opened.append(Modelled(blocks, base, text[:expected]))

    @precondition(lambda self: self.at_rest())
    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Reserve and commit with nothing in between, which makes texts grow."""
        sequence = data.draw(st.sampled_from(self.at_rest()))
        self.reserve_tree(sequence, data)
        if sequence.nodes:
            self.commit_path(sequence, data)

    @precondition(lambda self: self.at_rest())
    @rule(data=st.data())
    def reserve(self, data: st.DataObject) -> None:
        self.reserve_tree(data.draw(st.sampled_from(self.at_rest())), data)

    @precondition(lambda self: any(s.nodes for s in self.opened))
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        busy = [sequence for sequence in self.opened if sequence.nodes]
        self.commit_path(data.draw(st.sampled_from(busy)), data)

    @precondition(lambda self: len(self.opened) < MOST_OPEN)
    @precondition(lambda self: any(sequence.text for sequence in self.at_rest()))
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from([s for s in self.at_rest() if s.text]))
        self.opened.append(Modelled(sequence.blocks.fork(), sequence.base, sequence.text))

    @precondition(lambda self: bool(self.opened))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(self.opened))
        self.opened.remove(sequence)
        sequence.blocks.release()

    @invariant()
    def blocks_add_up(self) -> None:
        self.cache.check()
        if not self.opened:
            assert all(pool.num_held == 0 for pool in self.cache.pools)

    @invariant()
    def tables_lead_to_the_rows_of_their_own_text(self) -> None:
        for sequence in self.opened:
            assert sequence.blocks.committed == len(sequence.text)
            assert sequence.blocks.reserved == len(sequence.nodes)
            rows = [sequence.text[: end + 1] for end in range(len(sequence.text))]
            for number, (group, table) in enumerate(
                zip(self.groups, sequence.blocks.tables, strict=True)
            ):
                if group.window is not None:  # the next token still sees window - 1 of them
                    assert table.start <= max(0, len(rows) - group.window + 1)
                slots = table.slots().tolist()
                assert [self.memory[number][slot] for slot in slots] == rows[table.start :]
            for number, reservation in enumerate(sequence.reservations):
                seen = reservation.seen.tolist()
                held = [self.memory[number][slot] for slot in seen]
                assert held == rows[reservation.start :] + sequence.nodes

    def at_rest(self) -> list[Modelled]:
        return [sequence for sequence in self.opened if not sequence.nodes]

    def reserve_tree(self, sequence: Modelled, data: st.DataObject) -> None:
        nodes = self.draw_tree(sequence, data)
        before = self.counts()
        needed = [table.blocks_needed(len(nodes)) for table in sequence.blocks.tables]
        available = [pool.num_available for pool in self.cache.pools]
        fits = all(n <= a for n, a in zip(needed, available, strict=True))
        assert sequence.blocks.can_reserve(len(nodes)) == fits
        if not fits:
            with pytest.raises(OutOfMemoryError):
                sequence.blocks.reserve(len(nodes))
            assert self.counts() == before
            return
        sequence.reservations = sequence.blocks.reserve(len(nodes))
        sequence.nodes = nodes
        held = self.visible_slots(but=sequence)
        for group, reservation in enumerate(sequence.reservations):
            self.copy(group, reservation.copies)
            assert held[group].isdisjoint(reservation.slots.tolist()), "a shared slot is written"
            for slot, text in zip(reservation.slots.tolist(), nodes, strict=True):
                self.memory[group][slot] = text

    def commit_path(self, sequence: Modelled, data: st.DataObject) -> None:
        tip = data.draw(st.sampled_from([*sequence.nodes[::-1], sequence.text]))
        new = tip[len(sequence.text) :]
        path = [sequence.nodes.index(tip[: len(tip) - len(new) + n + 1]) for n in range(len(new))]
        for group, copies in enumerate(sequence.blocks.commit(path, new)):
            self.copy(group, copies)
        sequence.text, sequence.nodes, sequence.reservations = tip, [], ()
        self.committed.append(tip)

    def draw_tree(self, sequence: Modelled, data: st.DataObject) -> list[Text]:
        """Texts of the nodes of a draft tree, parents first, no two alike."""
        nodes: list[Text] = []
        edges = st.lists(
            st.tuples(st.sampled_from([1, 1, 1, 2, 3, 9]), TOKENS), min_size=2, max_size=9
        )
        for back, token in data.draw(edges):
            before = nodes[-back] if back <= len(nodes) else sequence.text
            child = (*before, TokenId(sequence.base + token))
            if child not in nodes:
                nodes.append(child)
        return nodes

    def copy(self, group: int, copies: SlotCopies) -> None:
        memory = self.memory[group]
        read = [memory[slot] for slot in copies.sources.tolist()]
        memory.update(zip(copies.targets.tolist(), read, strict=True))

    def visible_slots(self, *, but: Modelled) -> list[set[int]]:
        """By group, the slots that other sequences read."""
        return [
            {
                slot
                for other in self.opened
                if other is not but
                for slot in (
                    other.reservations[group].seen.tolist()
                    if other.reservations
                    else other.blocks.tables[group].slots().tolist()
                )
            }
            for group in range(len(self.groups))
        ]

    def counts(self) -> list[tuple[int, int, int]]:
        return [(p.num_free, p.num_cached, p.num_held) for p in self.cache.pools]

    def longest_known(self, text: Text) -> int:
        """The longest reusable prefix, by trying every length on the contents of memory."""
        size = self.block_size
        index = self.cache.index
        if index is None:
            return 0
        held = [
            {tuple(memory[block * size + row] for row in range(size)) for block in known.nodes}
            for memory, known in zip(self.memory, index.groups, strict=True)
        ]
        for length in range((len(text) - 1) // size * size, 0, -size):
            if all(
                tuple(text[: position + row + 1] for row in range(size)) in blocks
                for group, blocks in zip(self.groups, held, strict=True)
                for position in range(0, length, size)
                # A block is needed if the token at position ``length`` sees one of its rows.
                if group.window is None or position + size - 1 > length - group.window
            ):
                return length
        return 0


CacheMachine.TestCase.settings = settings(
    max_examples=times(80), stateful_step_count=40, deadline=None
)
TestBlockCache = CacheMachine.TestCase


def text(length: int) -> list[TokenId]:
    return [TokenId(number) for number in range(length)]


def compute(blocks: SequenceBlocks, tokens: list[TokenId]) -> None:
    """Reserve and commit tokens that a model call would compute."""
    blocks.reserve(len(tokens))
    blocks.commit(range(len(tokens)), tokens)


def test_a_second_sequence_computes_only_what_is_new() -> None:
    cache = BlockCache([LayerGroup(16)], block_size=4)
    first = cache.open(text(11))
    compute(first, text(11))
    second = cache.open(text(11))
    assert second.committed == 8
    assert second.tables[0].blocks == first.tables[0].blocks[:2]
    assert cache.pools[0].num_held == 3


def test_the_last_token_is_always_left_to_compute() -> None:
    cache = BlockCache([LayerGroup(16)], block_size=4)
    compute(cache.open(), text(8))
    assert cache.open(text(8)).committed == 4
    assert cache.open(text(9)).committed == 8


def test_salts_share_nothing() -> None:
    cache = BlockCache([LayerGroup(16)], block_size=4)
    compute(cache.open(salt="adapter"), text(8))
    assert cache.open(text(9)).committed == 0
    assert cache.open(text(9), salt="adapter").committed == 8


def test_nothing_is_reused_where_that_is_off() -> None:
    cache = BlockCache([LayerGroup(4)], block_size=4, reuse_prefixes=False)
    first = cache.open(text(9))
    compute(first, text(9))
    assert cache.open(text(9)).committed == 0
    first.release()
    assert cache.pools[0].num_free == 4


def test_the_released_come_back_until_their_place_is_needed() -> None:
    cache = BlockCache([LayerGroup(4)], block_size=4)
    first = cache.open(text(12))
    compute(first, text(12))
    first.release()
    assert (cache.pools[0].num_free, cache.pools[0].num_cached) == (1, 3)
    other = cache.open()
    compute(other, [TokenId(9)] * 8)  # takes the free block, and the end of the first sequence
    assert cache.open(text(12)).committed == 8
    cache.check()


def test_a_window_is_reused_only_where_its_last_blocks_are_still_there() -> None:
    cache = BlockCache([LayerGroup(16), LayerGroup(3, window=4)], block_size=2)
    first = cache.open()
    for token in text(12):
        compute(first, [token])
    # The window's pool has three blocks: those of the tokens 8 and on, and one already left.
    first.release()
    assert cache.open(text(5)).committed == 0
    again = cache.open(text(14))
    assert again.committed == 12
    full, windowed = again.tables
    assert (len(full.blocks), full.start) == (6, 0)
    assert (len(windowed.blocks), windowed.start) == (2, 8)
    cache.check()


def test_groups_reserve_together_or_not_at_all() -> None:
    cache = BlockCache([LayerGroup(8), LayerGroup(2)], block_size=4)
    sequence = cache.open()
    with pytest.raises(OutOfMemoryError) as caught:
        sequence.reserve(9)
    assert str(caught.value) == ("blocks of 4 slots: 3 needed, but only 2 free and 0 cached of 2")
    assert [pool.num_held for pool in cache.pools] == [0, 0]
    assert sequence.reserved == 0
    sequence.reserve(8)


def test_a_long_text_needs_no_more_blocks_than_its_window() -> None:
    cache = BlockCache([LayerGroup(4, window=6)], block_size=2)
    assert cache.max_tokens(step_tokens=1) is None
    sequence = cache.open()
    for number in range(100):
        compute(sequence, [TokenId(number)])
    assert sequence.committed == 100
    cache.check()


@pytest.mark.parametrize("block_size", [1, 2, 3, 4])
@pytest.mark.parametrize("window", [1, 2, 5, 6])
@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_most_tokens_are_what_a_sequence_alone_gets_to(
    block_size: int, window: int, step: int
) -> None:
    for num_blocks in range(1, 16):
        cache = BlockCache([LayerGroup(num_blocks, window)], block_size, reuse_prefixes=False)
        most = cache.max_tokens(step)
        sequence = cache.open()
        goal = 60 if most is None else most
        while sequence.committed < goal:
            compute(sequence, text(min(step, goal - sequence.committed)))


def test_releasing_twice_is_a_fault() -> None:
    sequence = BlockCache([LayerGroup(4)], block_size=4).open()
    sequence.release()
    with pytest.raises(AssertionError, match="released before"):
        sequence.release()


def test_a_reference_that_no_table_has_is_found() -> None:
    cache = BlockCache([LayerGroup(4)], block_size=4)
    sequence = cache.open()
    compute(sequence, text(5))
    cache.check()
    cache.pools[0].hold(sequence.tables[0].blocks[0])
    with pytest.raises(AssertionError, match="not those of the tables"):
        cache.check()
