"""Lark's own grammars compared with its Earley parser, patterns compared with interegular."""

from __future__ import annotations

import random
import re
from importlib.resources import files

import interegular
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import LarkError

from guided.grammar.lark import lower_lark
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.grammar.one_terminal import lower_regex
from guided.spec import Regex
from tests.kit.effort import first_seed, times
from tests.kit.grammars import accepted_by, all_texts, mutated, random_text


def _machine(text: str) -> GrammarMachine:
    return GrammarMachine(network_from_grammar(lower_lark(text)))


def _parses(lark: Lark, text: str) -> bool:
    try:
        lark.parse(text)
    except LarkError:
        return False
    return True


def _accepted_at_every_prefix(machine: GrammarMachine, text: str) -> bool:
    state = machine.start
    for byte in text.encode():
        behind = machine.step(state, byte)
        if behind is None:
            return False
        state = behind
        end = machine.shortest_completion(state)
        ended = machine.advance(state, end)
        assert ended is not None, (text, end)
        assert machine.is_accepting(ended), (text, end)
    return machine.is_accepting(state)


# --- Lark's own grammars -------------------------------------------------------------------------

_SHIPPED = files("lark").joinpath("grammars")
_COMMON = re.findall(r"(?m)^([A-Z][A-Z_]*):", _SHIPPED.joinpath("common.lark").read_text())
"""Without those for parts of strings: Earley accepts no terminal that may be empty."""


def test_there_is_something_to_compare() -> None:
    assert len(_COMMON) > 15


@pytest.mark.parametrize("name", _COMMON)
def test_common_terminals_are_what_they_are_to_lark(name: str) -> None:
    text = f"start: {name}\n%import common.{name}"
    machine, rng = _machine(text), random.Random(name)
    lark = Lark(text, parser="earley", lexer="dynamic_complete")
    for seed in range(times(8)):
        written = random_text(machine, random.Random(first_seed() + seed), 6)
        assert _parses(lark, written), written
        assert _accepted_at_every_prefix(machine, written), written
        for _ in range(3):
            mutant = mutated(written, rng)
            assert accepted_by(machine, mutant) == _parses(lark, mutant), mutant


def test_larks_own_grammar_reads_what_lark_reads() -> None:
    """Line by line, as Earley takes long: mutants of the grammars that come with Lark."""
    text = _SHIPPED.joinpath("lark.lark").read_text()
    machine, rng = _machine(text), random.Random(first_seed())
    lark = Lark(text, parser="earley", lexer="dynamic_complete")
    for name in ("common", "lark", "unicode"):
        shipped = _SHIPPED.joinpath(f"{name}.lark").read_text()
        if name != "unicode":
            assert _accepted_at_every_prefix(machine, shipped), name
        lines = [line for line in shipped.splitlines() if 3 < len(line) < 50]
        for line in rng.sample(lines, min(len(lines), times(3))):
            for example in (f"{line}\n", f"{mutated(line, rng)}\n"):
                assert accepted_by(machine, example) == _parses(lark, example), example


# --- patterns -------------------------------------------------------------------------------------

_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "é", "(?:ab|b)", r"\."])
_COUNTS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{,2}", "{1,}", "{1,3}"])
_TERMS = st.builds("{}{}".format, _ATOMS, _COUNTS)


def _runs(longest: int) -> st.SearchStrategy[str]:
    return st.lists(_TERMS, min_size=1, max_size=longest).map("".join)


# Without classes, which are ASCII there, and without look-around, which is not exact. A repeat
# inside of a repeat can take it minutes, so groups are short.
_PLAIN = _runs(4) | st.builds("(?:{}|{}){}".format, _runs(2), _runs(2), _COUNTS)


@settings(deadline=None, max_examples=times(40))
@given(_PLAIN)
def test_a_pattern_has_the_language_that_interegular_finds(pattern: str) -> None:
    machine = GrammarMachine(network_from_grammar(lower_regex(Regex(pattern))))
    fsm = interegular.parse_pattern(pattern).to_fsm()
    for text in all_texts(4):
        assert accepted_by(machine, text) == fsm.accepts(text), text
    for seed in range(3):
        assert fsm.accepts(random_text(machine, random.Random(seed), 4))
