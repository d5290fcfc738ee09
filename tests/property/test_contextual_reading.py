"""The contextual reading, held against Lark's LALR parser with its contextual scanner."""

from __future__ import annotations

import random

import pytest
from lark import Lark
from lark.exceptions import LarkError

from guided.errors import UnsatisfiableError, UnsupportedFeatureError
from guided.grammar.lark.contextual import lower_contextual
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from tests.kit.effort import first_seed, times
from tests.kit.grammars import accepted_by, all_texts, random_text

_TERMINALS = (
    *('"a"', '"b"', '"ab"', '"ba"', '"aab"', '"_"', '"a_"', '"AB"i', '"a"i'),
    *("/a+/", "/[ab]+/", "/[ab]{2}/", "/a|ab/", "/ab|a/", "/a+?b/", "/a??b?/ /a/", "/a+?/", "/_+/"),
    *("/[ab]b(?<!ab)/", "/(ab|a)(b|_)/", "/a*b/", "/a(b_)*/", "/(a|b)+?_/", "/[A-Za-z]+/", "/b_?/"),
    *("/a(?!b)/", "/a+(?=b)/", "/[ab]+(?!_)/", "/a(?=b)b?/", "/(?!a)[ab]+/", r"/a\b/", r"/b*?\b/"),
    *("/(?:a(?=_)|b)+/", "/(?:ab?(?!_))+b?/", "/a(?=[ab])(?!a)/", "/(?=a)[ab]*?b|a(?!.)/"),
    *("/(?:a|b|ab)+_/", "/a(?:b_|b)?/", "/(?i:A)b{1,2}?/", '"a".."b"'),
)


def _grammar(rng: random.Random) -> str:
    """Rules over terminals that overlap, some of both with priorities, and maybe ignored text."""
    names = "ABCDE"[: rng.randint(2, 5)]
    rules = "pqr"[: rng.randint(1, 3)]
    symbols = [*names, *names, *rules]
    lines = ["start: p"]
    for rule in rules:
        options = [
            " ".join(
                rng.choice(symbols) + rng.choice(["", "", "", "", "?", "*", "+"])
                for _ in range(rng.choice([1, 2, 2, 3]))
            )
            for _ in range(rng.choice([1, 2, 2, 3]))
        ]
        priority = rng.choice(["", "", ".1", ".2"])
        lines.append(f"{rule}{priority}: {' | '.join(options)}")
    for name in names:
        priority = rng.choice(["", "", "", ".1", ".-1"])
        lines.append(f"{name}{priority}: {rng.choice(_TERMINALS)}")
    if rng.random() < 0.4:
        lines.append(f"%ignore {rng.choice(['/_/', '/_+/', 'A', '/_a/'])}")
    return "\n".join(lines)


def _parses(lark: Lark, text: str) -> bool:
    try:
        lark.parse(text)
    except LarkError:
        return False
    return True


def _machine(text: str) -> GrammarMachine:
    network = network_from_grammar(lower_contextual(text))
    network.check()
    return GrammarMachine(network)


_TEXTS = all_texts(5, ignoring=True)


def test_random_grammars_have_the_texts_that_lark_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    # With it Lark looks for terminals that overlap, and fails over some patterns.
    monkeypatch.setattr("lark.lexer.has_interegular", False)
    compared = accepted = 0
    for seed in range(first_seed(), first_seed() + times(150)):
        text = _grammar(random.Random(seed))
        try:
            lark = Lark(text, parser="lalr", lexer="contextual")
        except LarkError:
            continue
        try:
            machine = _machine(text)
        except UnsupportedFeatureError as error:
            if "not LALR(1)" not in error.message:
                raise
            continue
        except UnsatisfiableError:
            assert not any(_parses(lark, each) for each in _TEXTS), text
            continue
        compared += 1
        for each in _TEXTS:
            parses = _parses(lark, each)
            assert accepted_by(machine, each) == parses, (text, each)
            accepted += parses
        for number in range(2):
            written = random_text(machine, random.Random(number), 6)
            assert _parses(lark, written), (text, written)
    assert compared > 10
    assert accepted > 100
