"""Lark's format: what each feature means, where Lark itself agrees, and the refusals."""

from __future__ import annotations

import itertools
import random

import pytest
from lark import Lark as Reference
from lark.exceptions import LarkError

from guided.errors import (
    GuidedError,
    InvalidConstraintError,
    LimitExceededError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided.grammar.lark import lower_lark
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.runtime.work_budget import limited_work
from tests.kit.grammars import accepted_by, mutated, random_text


def _machine(text: str, **imports: str) -> GrammarMachine:
    return GrammarMachine(network_from_grammar(lower_lark(text, imports=imports)))


_FEATURES = {
    "left recursion": ('start: start "+" "1" | "1"', ["1", "1+1+1"], ["", "+1", "1+"]),
    "right recursion": ('start: "1" "," start | "1"', ["1", "1,1,1"], ["1,", ",1"]),
    "indirect left recursion": (
        'start: a "x" | "1"\na: b "y"\nb: start "z" | "2"',
        ["1", "2yx", "1zyx", "2yxzyx"],
        ["1yx", "2y", "x"],
    ),
    "hidden left recursion": (
        'start: n start "a" | "b"\nn: "c" |', ["b", "cba", "cbaa"], ["ca", "a"]
    ),
    "cycles": ('start: a | "x"\na: start | start a |', ["", "x", "xx"], ["y"]),
    "center recursion": ('start: "(" start ")" |', ["", "(())"], ["(", "())"]),
    "ambiguity": ('start: start start | "a"', ["a", "aaaa"], ["", "b"]),
    "optional and repeats": ('start: "a"? "b"* "c"+ ["d"]', ["c", "abbccd"], ["ab", "cdd", "aac"]),
    "counted repeats": ('start: "a" ~ 2..3 "b" ~ 2', ["aabb", "aaabb"], ["abb", "aab", "aaaabb"]),
    "marks and aliases": (
        '?start: _x -> one | y\n_x: "a"\n!y.2: "b"', ["a", "b"], ["ab", ""]
    ),
    "templates": (
        'start: list{"a"} ";" list{b}\nlist{x}: x ("," x)*\nb: "b"',
        ["a;b", "a,a;b,b"],
        ["a,b;b", "a;"],
    ),
    "nested templates": ('start: p{q{"a"}}\np{x}: "(" x ")"\nq{x}: x x', ["(aa)"], ["(a)", "aa"]),
    "terminals of terminals": (
        'start: NAME\nNAME: LETTER (LETTER | DIGIT)*\nLETTER: "a".."c"\nDIGIT: /[0-9]/',
        ["a", "a0c"],
        ["0", "d", ""],
    ),
    "priorities say nothing": ('start: (A | B) "!"\nA.5: "a"\nB.1: /a+/', ["a!", "aa!"], ["!"]),
    "flags": ('start: "sel"i /x+y/i /./s', ["SELxXy\n", "selxya"], ["sel", "selxy"]),
    "verbose patterns": ("start: /a # one\n b/x", ["ab"], ["a b"]),
    "ignored text": (
        'start: "a" "b"\n%ignore " "\n%ignore /#[^\\n]*\\n/',
        ["ab", " a  b ", "a#x\nb"],
        ["a#b", "a_b"],
    ),
    "imports": (
        "start: ESCAPED_STRING SIGNED_NUMBER N\n%import common.ESCAPED_STRING\n"
        "%import common (SIGNED_NUMBER, WS)\n%import common.INT -> N\n%ignore WS",
        ['"a\\"" -1.5 2', '"" 1 1'],
        ['"a"b" 1 2', '"a 1 2'],
    ),
    "lazy patterns": ('start: C "x"\nC: "/*" /(.|\\n)*?/ "*/"', ["/**/x", "/*\n*/x"], ["/**/*/x"]),
    "look-ahead at an edge": (
        "start: (OP | LETTER)+\nOP: /[+*]|[?](?![a-z])/\nLETTER: /[a-z]/\n%ignore /-/",
        ["a?+b", "a?-b", "a?"],
        ["a?b", "?a"],
    ),
    "look-behind at an edge": (
        "start: (A | B)+\nA: /(?<!b)a/\nB: /b|(?<=a)c/", ["ab", "abb", "ac"], ["ba", "c", "bc"]
    ),
    "word boundaries": (
        'start: (IF | NAME | "(" | ")")+\nIF: /\\bif\\b/\nNAME: /[a-hj-z]/\n%ignore " "',
        ["if", "if x", "(if)x", "x if"],
        ["ifx", "xif", "ifif"],
    ),
    "overriding": (
        "start: INT\n%import common.INT\n%override INT: /[a-f]+/",
        ["ab"],
        ["1"],
    ),
    "extending": ("start: INT\n%import common.INT\n%extend INT: /[a-f]+/", ["ab", "12"], ["g"]),
    "empty alternatives": ('start: a a\na: "x" | ', ["", "x", "xx"], ["xxx"]),
    "unicode": ('start: "é" /[α-ω]+/ "😀"..."😂"'.replace("...", ".."), ["éαβ😁"], ["eα😁", "é😁"]),
}  # fmt: skip


@pytest.mark.parametrize("feature", _FEATURES)
def test_a_feature_means_what_it_means_to_lark(feature: str) -> None:
    text, accepted, rejected = _FEATURES[feature]
    machine = _machine(text)
    for example in accepted:
        assert accepted_by(machine, example), example
    for example in rejected:
        assert not accepted_by(machine, example), example
    machine.check()


# Lark's Earley parser loops on cycles, and reads no text without a token.
_COMPARED = sorted(set(_FEATURES) - {"cycles"})


@pytest.mark.parametrize("feature", _COMPARED)
def test_lark_agrees_on_examples_and_what_is_near_them(feature: str) -> None:
    text, accepted, rejected = _FEATURES[feature]
    machine, rng = _machine(text), random.Random(feature)
    lark = Reference(text, parser="earley", lexer="dynamic_complete", ambiguity="resolve")
    texts = [mutated(example, rng) for example in (*accepted, *rejected) for _ in range(8)]
    texts += [random_text(machine, random.Random(seed), 6) for seed in range(8)]
    for example in texts:
        try:
            lark.parse(example)
            parses = True
        except LarkError:
            parses = False
        assert accepted_by(machine, example) == parses, example


def test_a_choice_of_terminals_never_hides_a_text() -> None:
    """Lark's scanner takes the longest A, and refuses the rest."""
    text = 'start: A "b"\nA: /a[a-z]*/'
    assert accepted_by(_machine(text), "ab")
    with pytest.raises(LarkError):
        Reference(text, parser="earley", lexer="dynamic").parse("ab")


def test_lookarounds_say_what_a_scanner_would_cut_off() -> None:
    """The example of docs/grammars.md, compared with Lark's LALR parser over short texts."""
    text = (
        "start: (IF NAME | NAME)+\nIF: /if(?![a-z])/\n"
        'NAME: /(?!if(?![a-z]))[a-z]+(?![a-z])/\n%ignore " "'
    )
    machine, lark = _machine(text), Reference(text, parser="lalr", lexer="contextual")
    agreed = 0
    for length in range(7):
        for example in map("".join, itertools.product("ifa ", repeat=length)):
            try:
                lark.parse(example)
                parses = True
            except LarkError:
                parses = False
            assert accepted_by(machine, example) == parses, example
            agreed += parses
    assert agreed > 100
    for example, tokens in (("ifa", ["NAME"]), ("if a", ["IF", "NAME"])):
        assert [token.type for token in lark.parse(example).scan_values(bool)] == tokens


def test_given_grammars_are_imported_by_name() -> None:
    machine = _machine(
        "%import mine.thing\n%import mine (WORD)\nstart: thing WORD",
        mine='thing: "<" part ">"\npart: WORD\nWORD: /[a-z]/',
    )
    assert accepted_by(machine, "<a>b")
    assert not accepted_by(machine, "a")


_ERRORS: dict[str, tuple[str, type[GuidedError], list[str]]] = {
    "no colon": ("start\n", InvalidConstraintError, ["line 1", "column 6", "missing colon"]),
    "bad character": ('start: "a" @', InvalidConstraintError, ["line 1", "column 12", "^"]),
    "unknown statement": (
        'start: "a"\n%frob "b"',
        InvalidConstraintError,
        ["line 2, column 1", "there is no %frob, only %import, %ignore", "^"],
    ),
    "colon in brackets": ("//\nS:(L:", InvalidConstraintError, ["line 2", "column 5", "^"]),
    "unknown rule": (
        'start: "a"\n     | other', InvalidConstraintError, ["line 2, column 8", "'other'", "^"]
    ),
    "unknown terminal": ("start: OTHER", InvalidConstraintError, ["line 1, column 8", "OTHER"]),
    "twice": ('start: "a"\nstart: "b"', InvalidConstraintError, ["more than once"]),
    "no start": ('begin: "a"', InvalidConstraintError, ["'start'", "begin"]),
    "rule in a terminal": ('start: A\nA: start', InvalidConstraintError, ["start", "A"]),
    "recursive terminal": (
        'start: A\nA: "x" B\nB: A', InvalidConstraintError, ["line 3, column 4", "made of itself"]
    ),
    "bounds": ('start: "a" ~ 3..2', InvalidConstraintError, ["line 1, column 14", "3..2"]),
    "range": ('start: "b".."a"', InvalidConstraintError, ["line 1, column 8", "no range"]),
    "range with an escape": (
        'start: "a".."\\u{"', InvalidConstraintError, ["line 1, column 8", "an escape that stands"]
    ),
    "pattern": ("start: /a(b/", InvalidConstraintError, ["line 1, column 8", "character 1"]),
    "import": ("%import nowhere.A\nstart: A", InvalidConstraintError, ["nowhere"]),
    "import of what is not there": (
        "%import common.INT\n%import common.INTT -> X\nstart: INT X",
        InvalidConstraintError,
        ["line 2, column 1", "'common' does not define 'INTT'", "^", "it defines INT"],
    ),
    "import of what is not there, in a terminal": (
        "start: A\n%import common (INT, NOTHING)\nA: INT NOTHING",
        InvalidConstraintError,
        ["line 2, column 1", "'common' does not define 'NOTHING'"],
    ),
    "import of what is not there, ignored": (
        'start: "a"\n%import common.WSS\n%ignore WSS',
        InvalidConstraintError,
        ["line 2, column 1", "'common' does not define 'WSS'", "it defines WS"],
    ),
    "import by another name": (
        "%import common.INT -> A\n%import common.INT -> B\nstart: A",
        InvalidConstraintError,
        ["line 3, column 8", "'A' is not defined"],
    ),
    "arguments": ('start: a{"x"}\na{x, y}: x y', InvalidConstraintError, ["argument"]),
    "back reference": (
        "start: /(a)\\1/",
        UnsupportedFeatureError,
        ["line 1, column 8", "back reference", "^", "without it"],
    ),
    "anchor": ("start: /^a/", UnsupportedFeatureError, ["line 1, column 8", "anchor"]),
    "edge": (
        'start: IF "x"\nIF: /if(?=\\b)/', UnsupportedFeatureError, ["line 2, column 1", "edge", "^"]
    ),
    "edges that fit nothing": ('start: IF "x"\nIF: /if\\b/', UnsatisfiableError, ["no text"]),
    "declared": (
        'start: "a" _DENT\n%declare _DENT', UnsupportedFeatureError, ["line 2, column 10", "_DENT"]
    ),
    "locale": ("start: /a/l", UnsupportedFeatureError, ["line 1, column 8", "locale"]),
    "no text": ('start: "a" start', UnsatisfiableError, ["no text"]),
    "depth": ("start: " + "(" * 200 + '"a"' + ")" * 200, LimitExceededError, ["nests deeper"]),
    "depth of terminals": (
        "start: LONG\nLONG: T0\n" + "".join(f"T{n}: T{n + 1}\n" for n in range(200)) + 'T200: "a"',
        LimitExceededError,
        ["the terminal 'LONG' has more than 150 parts inside of one another"],
    ),
    "size of what is ignored": (
        'start: "a"\n%ignore T1 | T1\nT15: "b"\n'
        + "".join(f"T{n}: T{n + 1} T{n + 1}\n" for n in range(1, 15)),
        LimitExceededError,
        ["what %ignore names has more than 100000 parts when it is written out"],
    ),
    "look-around that sees back beyond an edge": (
        'start: /a(?=x(?<=ax))/ "x"',
        UnsupportedFeatureError,
        ["line 1, column 8", "look-around in look-around at the edge of a terminal"],
    ),
    "a long number": ('start: "a"~12345678901', LimitExceededError, ["than 9 digits"]),
    "a long priority": ('start.-1234567890: "a"', LimitExceededError, ["than 9 digits"]),
    "a number of nine digits": ('start.-123456789: "a" start', UnsatisfiableError, ["no text"]),
}  # fmt: skip


@pytest.mark.parametrize("name", _ERRORS)
def test_an_error_says_what_and_where(name: str) -> None:
    text, kind, parts = _ERRORS[name]
    with pytest.raises(kind) as caught:
        network_from_grammar(lower_lark(text))
    assert type(caught.value) is kind
    for part in parts:
        assert part in str(caught.value)


def test_blanks_before_a_wrong_sign_are_passed_over_once() -> None:
    """Tried again from every blank, they would take minutes."""
    with pytest.raises(InvalidConstraintError, match=r"column 200000: '\$' means nothing here"):
        lower_lark(" " * 199_999 + "$")


def test_a_grammar_without_rules_has_none_to_start_with() -> None:
    with pytest.raises(InvalidConstraintError, match=r"no rule 'start'.*define it$"):
        lower_lark("// nothing")


def test_nothing_beside_the_text_is_read(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even what a relative import would find in the working directory."""
    folder = str(tmp_path)
    with open(f"{folder}/near.lark", "w", encoding="utf-8") as file:  # noqa: PTH123 - as users would
        file.write('A: "a"\n')
    monkeypatch.chdir(folder)
    for text in ("%import .near.A\nstart: A", "%import near.A\nstart: A"):
        with pytest.raises(InvalidConstraintError):
            lower_lark(text)


def test_a_start_that_is_missing_is_told_with_the_rules_there_are() -> None:
    with pytest.raises(InvalidConstraintError) as caught:
        lower_lark('a: b\nb: "x"')
    assert caught.value.hint == "define it, or start with one of a, b"


def test_full_names_of_imports_are_work_by_their_length() -> None:
    """Each name of an imported grammar has its prefix: here they would be 100 MB."""
    prefix = "p" * 50_000
    names = [f"r{number}" for number in range(2_000)]
    imported = f"x: {' '.join(names)}\n" + "\n".join(f'{name}: "a"' for name in names)
    with limited_work(3_000_000), pytest.raises(LimitExceededError, match="units of work"):
        lower_lark(f"%import {prefix}.x\nstart: x", imports={prefix: imported})
    lower_lark("%import p.x\nstart: x", imports={"p": imported})
