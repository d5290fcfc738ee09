"""Continuations: stacks of calls as numbers, equal ones once."""

from __future__ import annotations

import pytest

from guided.errors import LimitExceededError
from guided.grammar.lark import lower_lark
from guided.grammar.machine.continuations import END, ROOT, TRUNCATED, UNKNOWN, Continuations
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import Network, network_from_grammar


@pytest.fixture
def network() -> Network:
    """States 2 to 5 are those of the rule that is called: 3 is after "(", 5 after the call."""
    return network_from_grammar(lower_lark('start: "(" start ")" | "a"'))


def test_equal_frames_are_one_continuation(network: Network) -> None:
    continuations = Continuations(network, 100)
    inner = continuations.intern({5: ROOT})
    assert continuations.intern({5: ROOT}) == inner
    assert continuations.intern({5: inner}) != inner
    assert len(continuations) == 4


def test_what_is_left_of_a_text_is_added_up_frame_by_frame(network: Network) -> None:
    continuations = Continuations(network, 100)
    one = continuations.intern({5: ROOT})
    two = continuations.intern({5: one})
    assert [continuations.distance[each] for each in (ROOT, one, two)] == [0, 1, 2]
    assert continuations.bytes_left(2, two) == network.distance[2] + 2
    either = continuations.intern({5: two, END: ROOT})
    assert continuations.distance[either] == 0
    assert continuations.nearest_frame(either) == (END, ROOT)


def test_what_returns_to_the_same_state_is_joined(network: Network) -> None:
    continuations = Continuations(network, 100)
    one = continuations.intern({5: ROOT})
    two = continuations.intern({5: one})
    joined = continuations.union(one, two)
    assert joined == continuations.union(two, one)
    assert continuations.frames[joined] == {5: continuations.union(ROOT, one)}
    assert continuations.frames[continuations.union(ROOT, one)] == {END: ROOT, 5: ROOT}


def test_stacks_as_deep_as_a_long_text_are_joined_without_recursion(network: Network) -> None:
    continuations = Continuations(network, 20_000)
    left, right = ROOT, continuations.intern({3: ROOT})
    for _ in range(5_000):
        left, right = continuations.intern({5: left}), continuations.intern({5: right})
    joined = continuations.union(left, right)
    assert continuations.distance[joined] == 5_000


def test_beyond_a_depth_nothing_is_known(network: Network) -> None:
    continuations = Continuations(network, 100)
    one = continuations.intern({5: ROOT})
    two = continuations.intern({5: one})
    assert continuations.truncate(two, 0) == TRUNCATED
    assert continuations.frames[TRUNCATED] == {UNKNOWN: TRUNCATED}
    assert continuations.frames[continuations.truncate(two, 1)] == {5: TRUNCATED}
    assert continuations.truncate(one, 2) == one
    assert continuations.truncate(two, 3) == two


def test_too_many_are_refused(network: Network) -> None:
    continuations = Continuations(network, 3)
    continuations.intern({5: ROOT})
    with pytest.raises(LimitExceededError, match="more than 3 continuations"):
        continuations.intern({3: ROOT})


def test_a_bracket_more_is_a_frame_more(network: Network) -> None:
    """The frames of the innermost rule, as the text goes deeper."""
    machine = GrammarMachine(network)
    state = machine.start
    found = []
    for byte in b"((":
        after = machine.step(state, byte)
        assert after is not None
        state = after
        (continuation,) = machine.stacks.frames[state.stack][:1]
        found.append(machine.continuations.distance[continuation])
    assert machine.shortest_completion(state) == b"a))"
    assert found == sorted(found)
