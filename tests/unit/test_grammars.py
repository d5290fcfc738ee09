"""Every grammar of the library, held against its examples and against Lark."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.extra.lark import from_lark
from lark import Lark
from lark.exceptions import LarkError

from guided.frontends.lark import lower_lark
from guided.grammars import grammar_names, read_grammar
from guided.network import network_from_grammar
from guided.recognizer.grammar_machine import GrammarMachine
from tests.kit.grammars import accepted_by, mutated, random_text

_MUTANTS = 6


@pytest.fixture(scope="module", params=grammar_names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def machine(name: str) -> GrammarMachine:
    return GrammarMachine(network_from_grammar(lower_lark(read_grammar(name).text)))


@pytest.fixture(scope="module")
def lark(name: str) -> Lark:
    return Lark(
        read_grammar(name).text, parser="earley", lexer="dynamic_complete", ambiguity="resolve"
    )


def _parses(lark: Lark, text: str) -> bool:
    try:
        lark.parse(text)
    except LarkError:
        return False
    return True


def test_examples_are_accepted_and_rejected_as_they_say(name: str, machine: GrammarMachine) -> None:
    grammar = read_grammar(name)
    assert grammar.accepted
    assert grammar.rejected
    for text in grammar.accepted:
        assert accepted_by(machine, text), text
    for text in grammar.rejected:
        assert not accepted_by(machine, text), text


def test_lark_agrees_on_examples_and_mutants(
    name: str, machine: GrammarMachine, lark: Lark
) -> None:
    grammar = read_grammar(name)
    rng = random.Random(0)
    for example in (*grammar.accepted, *grammar.rejected):
        for text in (example, *(mutated(example, rng) for _ in range(_MUTANTS))):
            assert accepted_by(machine, text) == _parses(lark, text), text


@pytest.mark.parametrize("name", ["json", "semver"])
def test_what_the_rules_generate_is_accepted_at_every_prefix(name: str) -> None:
    """Hypothesis writes by the rules and patterns alone, whatever a scanner would make of it."""
    text = read_grammar(name).text
    machine = GrammarMachine(network_from_grammar(lower_lark(text)))
    texts = from_lark(Lark(text))

    @settings(
        max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(texts)
    def check(text: str) -> None:
        state = machine.start
        for byte in text.encode():
            reached = machine.step(state, byte)
            assert reached is not None, text
            state = reached
        assert machine.is_accepting(state), text

    check()


def test_lark_accepts_what_a_walk_writes(machine: GrammarMachine, lark: Lark) -> None:
    for seed in range(25):
        text = random_text(machine, random.Random(seed), steps=30)
        assert _parses(lark, text), text
