"""A block's data on the states of an automaton, compared with the automaton's texts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from guided.machine.block import STOP, make_block
from guided.regular.byte_dfa import ByteDfa
from guided.regular.dfa import DEAD
from tests.unit.machine.tries import trie_of

_TEXTS = st.binary(min_size=1, max_size=5)


@given(st.dictionaries(_TEXTS, st.integers(0, 2), min_size=1))
def test_a_block_has_the_shortest_paths_to_its_labels(literals: dict[bytes, int]) -> None:
    dfa = trie_of(literals)
    block = make_block(dfa)
    states = {text[:end]: None for text in literals for end in range(len(text) + 1)}
    for prefix in states:
        state = 0
        for byte in prefix:
            state = dfa.step(state, byte)
        rests = [text[len(prefix) :] for text in literals if text.startswith(prefix)]
        assert block.distance[state] == min(map(len, rests))
        following = {rest[0] for rest in rests if rest}
        assert block.only[state] == (min(following) if len(following) == 1 else DEAD)
        assert block.exits[state] == (prefix in literals and not following)
        spelled = bytearray(prefix)
        while block.next_byte[state] != STOP:
            spelled.append(int(block.next_byte[state]))
            label, state = block.nearest_label[state], dfa.step(state, int(block.next_byte[state]))
            assert block.nearest_label[state] == label
        assert literals[bytes(spelled)] == block.nearest_label[state]
        assert len(spelled) == len(prefix) + min(map(len, rests))


def test_a_class_of_several_bytes_is_a_choice() -> None:
    dfa = ByteDfa(
        np.array([1 if byte in b"ab" else 0 for byte in range(256)], dtype=np.uint8),
        np.array([[DEAD, 1], [DEAD, DEAD]], dtype=np.int32),
        np.array([DEAD, 0], dtype=np.int32),
    )
    assert make_block(dfa).only.tolist() == [DEAD, DEAD]
    assert make_block(dfa).next_byte.tolist() == [ord("a"), STOP]
