"""Random small grammars, compared with their enumerated languages."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from guided.errors import LimitExceededError, UnsatisfiableError
from guided.grammar.lark import lower_lark
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.runtime.work_budget import limited_work
from tests.kit.grammars import all_texts, language, machine_of, random_grammar

_LONGEST = 6
_GRAMMARS = 250


@pytest.mark.parametrize("ignoring", [False, True])
def test_a_machine_recognises_the_language_of_its_grammar(ignoring: bool) -> None:
    """All short texts, and no dead ends: every open state has an end, which is a shortest one."""
    longest = _LONGEST - 2 * ignoring
    refused = 0
    for seed in range(_GRAMMARS):
        rules = random_grammar(random.Random(seed))
        texts = language(rules, longest, ignoring=ignoring)
        try:
            machine = machine_of(rules, ignoring=ignoring)
        except UnsatisfiableError:
            assert not texts, seed
            refused += 1
            continue
        for text in all_texts(longest, ignoring=ignoring):
            state = machine.advance(machine.start, text.encode())
            accepted = state is not None and machine.is_accepting(state)
            assert accepted == (text in texts), (seed, text)
            if state is None:
                assert not any(other.startswith(text) for other in texts), (seed, text)
                continue
            end = machine.shortest_completion(state)
            assert len(end) == machine.bytes_left(state), (seed, text)
            ended = machine.advance(state, end)
            assert ended is not None, (seed, text, end)
            assert machine.is_accepting(ended), (seed, text, end)
            ends = [len(other) for other in texts if other.startswith(text)]
            assert not ends or len(text) + len(end) == min(ends), (seed, text, end)
        machine.check()
    assert refused < _GRAMMARS / 2


_SHARED = """
start: x | y
x: "(" x ")" | /[a-z]+/
y: "(" y "]" | /[a-z][a-z0-9]*/
"""


def test_a_limit_that_is_met_leaves_a_machine_as_good_as_it_was() -> None:
    network = network_from_grammar(lower_lark(_SHARED))
    texts = [b"a", b"(a)", b"(a1]", b"((ab]]"]
    others = [b"(a1)", b"a1)", b"(a", b"((a])"]
    met = 0
    for work in range(0, 1_000, 10):
        machine = GrammarMachine(network)
        with suppress(LimitExceededError), limited_work(work):
            for text in texts:
                machine.advance(machine.start, text)
            met -= 1
        met += 1
        for text in texts + others:
            state = machine.advance(machine.start, text)
            accepted = state is not None and machine.is_accepting(state)
            assert accepted == (text in texts), (work, text)
    assert met > 10
