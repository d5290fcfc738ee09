"""Sets of states: found again by their items, and explored along bytes."""

from __future__ import annotations

import numpy as np
import pytest

from guided.grammar.lark import lower_lark
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.machine.set_kernels import Explored
from guided.grammar.machine.state_sets import Item, StateSets
from guided.grammar.network import Network, network_from_grammar
from guided.grammar.network.first_and_follow import follow_sets
from guided.machine.table_kernels import NOWHERE, TO_AMBIGUOUS, TO_SET, TO_STATE
from guided.regular.dfa import DEAD


def _network(text: str) -> Network:
    network = network_from_grammar(lower_lark(text))
    network.check()
    return network


def _sets(network: Network) -> StateSets:
    has_calls = np.array([bool(edges) for edges in network.calls], dtype=np.bool_)
    return StateSets(network, has_calls, follow_sets(network))


def _leads(found: Explored, byte: int) -> tuple[int, int]:
    """The kind of move of a byte from the first set, and its target."""
    group = found.byte_classes[0][byte]
    _, how, target, *_ = found.edges[found.edges[:, 0] == found.first_set][group].tolist()
    return how, target


@pytest.fixture
def network() -> Network:
    """Two rules that begin with the same letter, and end in different ones."""
    return _network('start: a | b | "!"\na: /[xy]{3,}/ "." start "1"\nb: /[xz]{3,}/ "," start "2"')


def _start_items(network: Network) -> tuple[Item, ...]:
    """Two states, in two slots: the one after an x, and the next one."""
    start = network.starts[-1]
    first = network.step(start, ord("x"))
    assert first != DEAD
    return (Item(first, 0), Item(first + 1, 1))


def test_items_are_those_that_the_set_was_made_of(network: Network) -> None:
    sets = _sets(network)
    items = _start_items(network)
    found = sets.explore(items, is_private=False)
    assert sets.items(found.first_set) == items
    assert found.becomes_row[0], "the first set is to be a row"
    assert len(sets) == found.first_set + len(found.becomes_row)


def test_each_set_is_found_once_on_the_way(network: Network) -> None:
    sets = _sets(network)
    found = sets.explore(_start_items(network), is_private=False)
    rows = [
        number
        for number, becomes_row in enumerate(found.becomes_row, found.first_set)
        if becomes_row
    ]
    items = [sets.items(number) for number in rows]
    assert len(set(items)) == len(items)
    assert all(list(each) == sorted(each) for each in items)


def test_bytes_lead_to_states_to_sets_and_nowhere() -> None:
    """Two slots of one rule read alike; a byte that one of the states reads leads to a state."""
    network = _network('start: "(" start ")" | "ab" | "cd"')
    sets = _sets(network)
    start = network.starts[-1]
    after_a, after_c = network.step(start, ord("a")), network.step(start, ord("c"))
    found = sets.explore((Item(after_a, 0), Item(after_c, 1)), is_private=False)
    end = network.step(after_a, ord("b"))
    assert _leads(found, ord("b")) == (TO_STATE, end)
    assert _leads(found, ord("d")) == (TO_STATE, end)
    assert _leads(found, ord("e"))[0] == NOWHERE
    rule = network.rule_of(end)
    assert sorted(found.pairs.tolist()) == [[rule, 0], [rule, 1]]
    same = sets.explore((Item(after_a, 0), Item(after_a, 1)), is_private=False)
    how, target = _leads(same, ord("b"))
    assert how == TO_SET
    assert sets.items(target) == (Item(end, 0), Item(end, 1))


def test_a_byte_that_may_follow_a_rule_that_ends_is_left_to_the_stack() -> None:
    network = _network('start: "(" start "a" ")" | /a+/ | "b"')
    sets = _sets(network)
    start = network.starts[-1]
    after_a, after_b = network.step(start, ord("a")), network.step(start, ord("b"))
    items = tuple(sorted((Item(after_a, 0), Item(after_b, 1))))
    found = sets.explore(items, is_private=False)
    assert _leads(found, ord("a")) == (TO_AMBIGUOUS, ord("a"))
    assert found.ambiguous.tolist() == [[found.first_set, ord("a")]]
    assert found.ending_slots[0].any()


def test_what_was_removed_is_not_found_again(network: Network) -> None:
    sets = _sets(network)
    items = _start_items(network)
    found = sets.explore(items, is_private=False)
    assert sets.find_row(items) == DEAD, "it has no row yet"
    sets.rows[found.first_set] = 7
    assert sets.find_row(items) == 7
    sets.truncate(0)
    assert len(sets) == 0
    assert sets.find_row(items) == DEAD


def test_room_for_sets_grows_as_it_is_needed() -> None:
    """More sets than there is room for at first, each of them kept as it was."""
    network = _network('start: /[ab]{1,40}/ "." start | /[ac]{1,40}/ "," start | "!"')
    machine = GrammarMachine(network)
    for text in (b"a" * 39 + b"b.!", b"a" * 39 + b"c,!", b"abc"):
        state = machine.advance(machine.start, text)
        assert (state is None) == (text == b"abc")
    sets, start = _sets(network), network.starts[0]
    states = range(start, start + 30)
    made = {}
    for low in states:
        for high in range(low + 1, states[-1]):
            items = (Item(low, 0), Item(high, 1))
            made[sets.explore(items, is_private=True).first_set] = items
    assert len(sets) > 256
    assert all(sets.items(number) == items for number, items in made.items())
