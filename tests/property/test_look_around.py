"""Look-around at the edges of terminals, compared with Python's matcher on the whole text."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping

import pytest

from guided.constraint import ConstraintCompiler
from guided.errors import UnsatisfiableError
from guided.grammar.context_free import (
    Alternation,
    Body,
    Call,
    Concatenation,
    ContextFreeGrammar,
    Repetition,
    Terminal,
)
from guided.grammar.lark import lower_lark
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.masks.mask import tokens_of
from guided.regular.patterns.python import parse_python_regex
from guided.regular.patterns.terminal_edges import split_edges
from guided.spec import Lark
from tests.kit.effort import first_seed, times
from tests.kit.grammars import accepted_by, all_texts, random_grammar, spelled
from tests.kit.walks import END, PIECES, random_walk, tried

_PATTERNS = (
    *("a", "b", "ab", "aa", "a|b", "[ab]b?"),
    *("a(?!b)", "b(?=a)", "a(?!ba)", "b(?=ab|b)", "a+(?!b)", "(?:a|b(?!a))+", "b(?!a)a?"),
    *("(?<!a)b", "(?<=b)a", "(?<!ba)a", "(?<!a)a(?!a)", "b?(?<!b)a", "(?:(?<!a)b|a)*b(?=a)"),
    *(r"a\bb?", r"\bab", r"b\b", r"(?!ab)[ab]+(?!b)", "a(?!(?!b))", "a(?=(?:ba)*$)"),
    *("a(?!b)(?:(?<=b)|b)", "(?:b|(?!a))(?<!b)a", "(?=b)(?:aa|(?!b))"),
)
"""Look-around is only at the edges of these patterns, so it sees the whole text."""


def _spans(pattern: str, text: str) -> set[tuple[int, int]]:
    """The spans that a pattern matches, with everything around the match in sight."""
    return {
        (first, last)
        for last in range(len(text) + 1)
        for first in range(last + 1)
        if re.compile(rf"(?:{pattern})(?=.{{{len(text) - last}}}\Z)", re.S).match(text, first)
    }


def _parses(rules: Mapping[str, Body], patterns: Mapping[str, str], text: str) -> bool:
    """Whether a text is one of the first rule: least fixed point over the spans of the rules."""
    found: dict[str, set[tuple[int, int]]] = {name: set() for name in rules}
    nothing = {(at, at) for at in range(len(text) + 1)}
    known = {written: _spans(pattern, text) for written, pattern in patterns.items()}

    def of(body: Body) -> set[tuple[int, int]]:
        match body:
            case Call(rule):
                return found[rule]
            case Terminal(regular):
                return known[spelled(regular)]
            case Concatenation(parts):
                spans = nothing
                for part in parts:
                    spans = joined(spans, of(part))
                return spans
            case Alternation(options):
                return set().union(*map(of, options))
            case Repetition(item, low, high):
                one, spans, now = of(item), set[tuple[int, int]](), nothing
                for count in range(len(text) + low + 1 if high is None else high + 1):
                    spans |= now if count >= low else set()
                    now = joined(now, one)
                return spans
            case _:
                raise AssertionError(f"no random grammar has {body}")

    def joined(left: set[tuple[int, int]], right: set[tuple[int, int]]) -> set[tuple[int, int]]:
        return {(a, d) for a, b in left for c, d in right if b == c}

    grew = True
    while grew:
        grew = False
        for name, body in rules.items():
            spans = of(body)
            if spans != found[name]:
                found[name], grew = set(spans), True
    return (0, len(text)) in found[next(iter(rules))]


def _terminals(pattern: str) -> tuple[Terminal, ...]:
    if pattern.endswith("$)"):
        pieces = split_edges(parse_python_regex(pattern, anchored=True))
    else:
        pieces = split_edges(parse_python_regex(pattern))
    return tuple(Terminal(text, before, after) for before, text, after in pieces)


def _dressed(body: Body, patterns: Mapping[str, str]) -> Body:
    """The body with patterns in place of its literals."""
    match body:
        case Terminal(regular):
            return Alternation(_terminals(patterns[spelled(regular)]))
        case Concatenation(parts):
            return Concatenation(tuple(_dressed(part, patterns) for part in parts))
        case Alternation(options):
            return Alternation(tuple(_dressed(option, patterns) for option in options))
        case Repetition(item, low, high):
            return Repetition(_dressed(item, patterns), low, high)
    return body


def test_terminals_stand_where_python_matches_them() -> None:
    """Over random grammars with all kinds of recursion and of look-around at the edges."""
    compared = accepted = 0
    first = first_seed()
    for seed in range(first, first + times(30)):
        rng = random.Random(seed)
        rules = random_grammar(rng)
        written = ["".join(t) for n in (1, 2) for t in itertools.product("ab", repeat=n)]
        patterns = {text: rng.choice(_PATTERNS) for text in written}
        dressed = {name: _dressed(body, patterns) for name, body in rules.items()}
        try:
            network = network_from_grammar(ContextFreeGrammar(dressed, next(iter(rules))))
        except UnsatisfiableError:
            texts: set[str] = set()
        else:
            network.check()
            machine = GrammarMachine(network)
            texts = {text for text in all_texts(5) if accepted_by(machine, text)}
            for text in texts:
                state = machine.start
                for byte in text.encode():
                    behind = machine.step(state, byte)
                    assert behind is not None
                    state = behind
                    ended = machine.advance(state, machine.shortest_completion(state))
                    assert ended is not None
                    assert machine.is_accepting(ended)
        expected = {text for text in all_texts(5) if _parses(rules, patterns, text)}
        assert texts == expected, (seed, patterns)
        compared += 1
        accepted += len(texts)
    assert compared > 10
    assert accepted > 100


@pytest.mark.parametrize(
    ("grammar", "accepted", "rejected"),
    [
        # Ignored text belongs to the following terminal.
        ('start: A B\nA: /a(?! )/\nB: "b"\n%ignore " "', ["ab", " ab "], ["a b"]),
        ('start: A B?\nA: /a(?=.)/\nB: "b"\n%ignore " "', ["ab", "a b", "a "], ["a"]),
        # Ignored text looks beyond its edges, too.
        (
            "start: A+\nA: /a/\nIGNORED: /-(?!a)/\n%ignore IGNORED",
            ["a--", "a"],
            ["a-a", "--a", "-"],
        ),
        ("start: A+\nA: /[aé]/\nB: /(?<!é)-/\n%ignore B", ["a-a", "a-é"], ["é-a"]),
        # Words that stand alone.
        (
            'start: (IF | NAME)+\nIF: /\\bif\\b/\nNAME: /\\b(?!if\\b)[a-z]+\\b/\n%ignore " "',
            ["if", "if x", "iff x", "x if"],
            ["", "1"],
        ),
        # Characters of several bytes.
        ('start: "é" A\nA: /(?<=é)a(?!\\w)/ | "b" ', ["éa", "éb"], ["a"]),
        ('start: A "é" | A "ê"\nA: /a(?!é)/', ["aê"], ["aé"]),
        # Unbounded look-ahead.
        ('start: A* "." | A* ";"\nA: /[ab](?!.*;)|b/', ["aa.", "bb;", "ab.", "."], ["ab;", "ba;"]),
        # If an optional part is left out, the look-ahead is at the edge.
        ('start: A "b" | A "c"\nA: /a(?!b)c?/', ["ac", "acb", "acc"], ["ab"]),
        # An optional part that may be empty only where its own look-around holds.
        ("start: T\nT: /a(?!c)(?:(?<=b)|d)/", ["ad"], ["a", "ac"]),
        ("start: T | /c/\nT: /(?=b)(?:aa|(?![bc]))/", ["c"], ["b", "aa", ""]),
    ],
)
def test_what_terminals_see(grammar: str, accepted: list[str], rejected: list[str]) -> None:
    machine = GrammarMachine(network_from_grammar(lower_lark(grammar)))
    for text in accepted:
        assert accepted_by(machine, text), text
    for text in rejected:
        assert not accepted_by(machine, text), text


@pytest.mark.parametrize(
    "lark",
    [
        Lark(
            "start: (A | B)+\nA: /[ab]+(?!1)/\nB: /\\b[a-c0-9]+\\b/ | /(?<!a) /\n%ignore /\\n(?=.)/"
        ),
        Lark('start: e\ne: e "," e | "(" e ")" | N\nN: /\\b[a-z]+\\b(?!\\()/ | /1(?=,|2)/ | "2"'),
        Lark.named("json"),
        Lark('start: ("=" | "==" | NAME | "in" NAME)+\nNAME: /[a-zé]+/\n%ignore " "'),
    ],
)
def test_masks_hold_what_can_be_gone_on_from(lark: Lark) -> None:
    """A mask equals the result of trying every token."""
    start = ConstraintCompiler(PIECES).start(lark)
    for seed in range(times(4)):
        for matcher in random_walk(start, random.Random(seed), 20).matchers:
            expected: set[int] = set(tried(matcher, range(1, len(PIECES))))
            if matcher.is_accepting:
                expected.add(END)
            assert set(tokens_of(matcher.mask()).tolist()) == expected
