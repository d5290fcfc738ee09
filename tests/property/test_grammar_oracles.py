"""Grammars held against Lark's Earley parser, patterns against Python's matcher and interegular."""

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

from guided.errors import GuidedError, UnsatisfiableError
from guided.frontends.lark import lower_lark
from guided.frontends.regex import lower_regex
from guided.grammar.context_free import Body, Call, Choice, Sequence, Terminal, Times
from guided.network import network_from_grammar
from guided.recognizer.grammar_machine import GrammarMachine
from guided.spec import Regex
from tests.kit.effort import first_seed, times
from tests.kit.grammars import (
    accepted_by,
    all_texts,
    mutated,
    random_grammar,
    random_text,
    spelled,
)


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
        end = machine.shortest_end(state)
        ended = machine.advance(state, end)
        assert ended is not None, (text, end)
        assert machine.is_accepting(ended), (text, end)
    return machine.is_accepting(state)


# --- what comes with Lark -------------------------------------------------------------------------

_SHIPPED = files("lark").joinpath("grammars")
_COMMON = re.findall(r"(?m)^([A-Z][A-Z_]*):", _SHIPPED.joinpath("common.lark").read_text())
"""Without those for parts of strings: Earley takes no terminal that may be empty."""


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
        for line in rng.sample(lines, min(len(lines), times(6))):
            for example in (f"{line}\n", f"{mutated(line, rng)}\n"):
                assert accepted_by(machine, example) == _parses(lark, example), example


# --- small grammars -------------------------------------------------------------------------------


def _written(body: Body) -> str:
    match body:
        case Terminal(regular):
            return f'"{spelled(regular)}"'
        case Call(rule):
            return rule
        case Sequence(parts):
            return f"({' '.join(map(_written, parts))})"
        case Choice(options):
            return f"({' | '.join(map(_written, options))})"
        case Times(item, low, None):
            return f"({' '.join([_written(item)] * low)} ({_written(item)})*)"
        case Times(item, low, high):
            return f"({_written(item)}) ~ {low}..{high}"
        case _:
            raise AssertionError(f"a random grammar has no {body}")


def test_random_grammars_have_the_texts_that_lark_parses() -> None:
    """Left-recursive, nullable, ambiguous ones; what Lark cannot read at all is passed over."""
    compared = 0
    for seed in range(first_seed(), first_seed() + times(60)):
        rules = random_grammar(random.Random(seed))
        first = next(iter(rules))
        text = "\n".join([f"start: {first}", *(f"{n}: {_written(b)}" for n, b in rules.items())])
        if _has_cycle(rules):
            continue
        try:
            machine = _machine(text)
            lark = Lark(text, parser="earley", lexer="dynamic", ambiguity="resolve")
        except (LarkError, GuidedError):
            continue
        compared += 1
        for example in all_texts(4):
            if example:
                assert accepted_by(machine, example) == _parses(lark, example), (text, example)
    assert compared > 10


def _has_cycle(rules: dict[str, Body]) -> bool:
    """Whether a text may be read in endlessly many ways: Lark's parser then does not end."""
    nullable: set[str] = set()
    while more := {n for n, b in rules.items() if n not in nullable and _is_empty(b, nullable)}:
        nullable |= more
    alone = {name: _alone(body, nullable) for name, body in rules.items()}
    for _ in rules:
        alone = {
            name: callees.union(*(alone.get(callee, {callee}) for callee in callees))
            for name, callees in alone.items()
        }
    return any(name in callees or "*" in callees for name, callees in alone.items())


def _is_empty(body: Body, nullable: set[str]) -> bool:
    match body:
        case Call(rule):
            return rule in nullable
        case Sequence(parts):
            return all(_is_empty(part, nullable) for part in parts)
        case Choice(options):
            return any(_is_empty(option, nullable) for option in options)
        case Times(item, low):
            return low == 0 or _is_empty(item, nullable)
    return False


def _alone(body: Body, nullable: set[str]) -> set[str]:
    """The rules that may be all there is of a body; ``*`` for an empty text repeated."""
    match body:
        case Call(rule):
            return {rule}
        case Sequence(parts):
            found = set[str]()
            for at, part in enumerate(parts):
                if all(_is_empty(each, nullable) for each in parts[:at] + parts[at + 1 :]):
                    found |= _alone(part, nullable)
            return found
        case Choice(options):
            return set().union(*(_alone(option, nullable) for option in options))
        case Times(item):
            return _alone(item, nullable) | ({"*"} if _is_empty(item, nullable) else set())
    return set()


# --- patterns -------------------------------------------------------------------------------------

_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", "é", "(?:ab|b)", r"\."])
_COUNTS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{,2}", "{1,}", "{1,3}"])
_TERMS = st.builds("{}{}".format, _ATOMS, _COUNTS)


def _patterns(most: int) -> st.SearchStrategy[str]:
    """Patterns of at most so many parts that may stand inside of one another."""
    return st.recursive(
        st.lists(_TERMS, min_size=1, max_size=4).map("".join),
        lambda inner: st.one_of(
            st.builds("(?:{}|{}){}".format, inner, inner, _COUNTS),
            st.builds("(?={}){}".format, inner, inner),
            st.builds("(?!{}){}".format, inner, inner),
        ),
        max_leaves=most,
    )


_PATTERNS = _patterns(4)
_TEXTS = st.lists(st.text("abé1._\n", max_size=6), min_size=8, max_size=8)


@settings(deadline=None, max_examples=times(30))
@given(_PATTERNS, _TEXTS)
def test_a_pattern_accepts_what_python_matches(pattern: str, texts: list[str]) -> None:
    try:
        machine = GrammarMachine(network_from_grammar(lower_regex(Regex(pattern))))
    except UnsatisfiableError:
        assert not any(re.fullmatch(pattern, text) for text in texts)
        return
    written = [random_text(machine, random.Random(seed), 4) for seed in range(2)]
    for text in (*texts, *written):
        assert accepted_by(machine, text) == bool(re.fullmatch(pattern, text)), text
    assert _accepted_at_every_prefix(machine, written[0])


# Classes are those of ASCII there, and look-around is not exact. What is repeated inside of what is
# repeated can take it minutes.
_PLAIN = _patterns(2).filter(lambda pattern: not re.search(r"\(\?[=!]|\\[dw]", pattern))


@settings(deadline=None, max_examples=times(40))
@given(_PLAIN)
def test_a_pattern_has_the_language_that_interegular_finds(pattern: str) -> None:
    machine = GrammarMachine(network_from_grammar(lower_regex(Regex(pattern))))
    fsm = interegular.parse_pattern(pattern).to_fsm()
    for text in all_texts(4):
        assert accepted_by(machine, text) == fsm.accepts(text), text
    for seed in range(3):
        assert fsm.accepts(random_text(machine, random.Random(seed), 4))
