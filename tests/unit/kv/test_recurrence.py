"""States of recurrent layers move with commits, and are remembered with the blocks they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from guided.kv import BlockCache, LayerGroup, SequenceBlocks
from guided.spec import TokenId


@dataclass(frozen=True)
class State:
    """A state that holds the text it has read."""

    text: tuple[int, ...]

    @property
    def length(self) -> int:
        return len(self.text)


@dataclass(frozen=True)
class Computed:
    """The states that a call over some tokens in a row would compute."""

    before: tuple[int, ...]
    tokens: tuple[int, ...]
    cut: int = 0

    @property
    def checkpoint(self) -> State | None:
        return State(self.before + self.tokens[: self.cut]) if self.cut else None

    def after(self, kept: Sequence[int]) -> State:
        return State(self.before + tuple(self.tokens[node] for node in kept))


def make_cache(num_states: int | None = 4, blocks: int = 16) -> BlockCache:
    return BlockCache([LayerGroup(blocks)], 2, num_states=num_states)


def read(
    sequence: SequenceBlocks, *tokens: int, kept: Sequence[int] | None = None, certain: int = -1
) -> None:
    """Compute tokens in a row, and keep all or some."""
    sequence.reserve(len(tokens))
    cut = sequence.checkpoint(len(tokens) if certain < 0 else certain)
    state = sequence.recurrence.state
    before = state.text if isinstance(state, State) else ()
    sequence.recurrence.computed = Computed(before, tokens, cut)
    path = range(len(tokens)) if kept is None else kept
    sequence.commit(path, [TokenId(tokens[node]) for node in path])
    sequence.check()


def open_for(cache: BlockCache, *tokens: int, salt: str = "") -> SequenceBlocks:
    return cache.open([TokenId(token) for token in tokens], salt=salt)


def test_a_state_goes_on_with_what_stays() -> None:
    sequence = make_cache().open()
    read(sequence, 1, 2, 3, 4, kept=[0, 2], certain=0)
    assert sequence.recurrence.state == State((1, 3))


def test_rows_that_are_given_up_leave_it_as_it_was() -> None:
    sequence = make_cache().open()
    read(sequence, 1)
    sequence.reserve(2)
    sequence.recurrence.computed = Computed((1,), (5, 6))
    sequence.commit((), ())
    assert sequence.recurrence.state == State((1,))
    assert sequence.recurrence.computed is None


def test_forks_part() -> None:
    one = make_cache().open()
    read(one, 1, 2, 3)
    other = one.fork()
    read(one, 4)
    read(other, 5)
    assert one.recurrence.state == State((1, 2, 3, 4))
    assert other.recurrence.state == State((1, 2, 3, 5))


def test_a_beginning_is_found_with_its_state() -> None:
    cache = make_cache()
    read(open_for(cache), 1, 2, 3, 4, 5)
    found = open_for(cache, 1, 2, 3, 4, 6)
    assert found.committed == 4
    assert found.recurrence.state == State((1, 2, 3, 4))
    cache.check()


def test_without_a_state_nothing_is_found_though_its_blocks_are_there() -> None:
    cache = make_cache()
    read(open_for(cache), 1, 2, 3, 4, 5, 6)
    assert open_for(cache, 1, 2, 3, 4, 9).committed == 0, "no state was wanted after 4"
    assert open_for(cache, 1, 2, 3, 4, 5, 6, 9).committed == 6


def test_salts_share_no_state() -> None:
    cache = make_cache()
    read(open_for(cache), 1, 2, 3)
    assert open_for(cache, 1, 2, 3, salt="other").committed == 0


@pytest.mark.parametrize(
    ("before", "certain", "after"),
    [
        (0, 1, 0),
        (0, 2, 2),
        (0, 5, 4),
        (1, 1, 1),
        (1, 2, 0),  # one token up to the end of the block is not worth a cut
        (1, 4, 3),
    ],
)
def test_a_state_is_wanted_where_the_last_full_block_ends(
    before: int, certain: int, after: int
) -> None:
    sequence = make_cache().open()
    if before:
        read(sequence, *range(before))
    assert sequence.checkpoint(certain) == after


def test_models_without_states_want_none() -> None:
    assert make_cache(None).open().checkpoint(8) == 0


def test_the_state_that_was_used_longest_ago_gives_way() -> None:
    cache = make_cache(num_states=2)
    for first in (1, 3):
        read(open_for(cache), first, first)
    assert open_for(cache, 1, 1, 9).committed == 2  # used just now
    read(open_for(cache), 5, 5)
    assert open_for(cache, 1, 1, 9).committed == 2
    assert open_for(cache, 3, 3, 9).committed == 0
    cache.check()


def test_a_state_goes_with_its_block() -> None:
    cache = make_cache(blocks=2)
    first = open_for(cache)
    read(first, 1, 2)
    first.release()
    second = open_for(cache)
    read(second, 3, 4, 5, 6)
    cache.check()
    second.release()
    assert open_for(cache, 1, 2, 9).committed == 0
    cache.check()


def test_of_a_growing_answer_the_last_state_alone_is_kept() -> None:
    cache = make_cache(num_states=3)
    prompt, answer = (1, 2, 3, 4), tuple(range(10, 30))
    sequence = open_for(cache, *prompt)
    read(sequence, *prompt)
    for token in answer:
        read(sequence, token)
    assert open_for(cache, *prompt, 9).committed == 4, "the state of the prompt is still there"
    assert open_for(cache, *prompt, *answer, 9).committed == 24
    assert open_for(cache, *prompt, *answer[:10], 9).committed == 4
    cache.check()
