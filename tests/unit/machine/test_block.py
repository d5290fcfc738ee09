"""A block's data on the states of an automaton, compared with the automaton's texts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from guided.machine.block import STOP, block_of
from guided.regular.byte_dfa import ByteDfa
from guided.regular.dfa import DEAD
from tests.unit.machine.tries import trie_of

_TEXTS = st.binary(min_size=1, max_size=5)


@given(st.dictionaries(_TEXTS, st.integers(0, 2), min_size=1))
def test_a_block_knows_the_ways_through_it(literals: dict[bytes, int]) -> None:
    dfa = trie_of(literals)
    block = block_of(dfa)
    states = {text[:end]: None for text in literals for end in range(len(text) + 1)}
    for begun in states:
        state = 0
        for byte in begun:
            state = dfa.step(state, byte)
        rests = [text[len(begun) :] for text in literals if text.startswith(begun)]
        assert block.left[state] == min(map(len, rests))
        following = {rest[0] for rest in rests if rest}
        assert block.only[state] == (min(following) if len(following) == 1 else DEAD)
        assert block.exits[state] == (begun in literals and not following)
        spelled = bytearray(begun)
        while block.way[state] != STOP:
            spelled.append(int(block.way[state]))
            aim, state = block.aim[state], dfa.step(state, int(block.way[state]))
            assert block.aim[state] == aim
        assert literals[bytes(spelled)] == block.aim[state]
        assert len(spelled) == len(begun) + min(map(len, rests))


def test_a_class_of_several_bytes_is_a_choice() -> None:
    dfa = ByteDfa(
        np.array([1 if byte in b"ab" else 0 for byte in range(256)], dtype=np.uint8),
        np.array([[DEAD, 1], [DEAD, DEAD]], dtype=np.int32),
        np.array([DEAD, 0], dtype=np.int32),
    )
    assert block_of(dfa).only.tolist() == [DEAD, DEAD]
    assert block_of(dfa).way.tolist() == [ord("a"), STOP]
