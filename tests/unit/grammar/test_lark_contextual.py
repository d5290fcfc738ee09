"""The contextual reading: what the scanner hides, where Lark agrees, and what is refused how."""

from __future__ import annotations

import random

import pytest
from lark import Lark as Reference
from lark.exceptions import LarkError

from guided.constraint import ConstraintCompiler
from guided.errors import (
    ConstraintError,
    GuidedError,
    InvalidConstraintError,
    LimitExceededError,
    RequestError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided.grammar.lark.contextual import lower_contextual
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.runtime.fuel import limited_work
from guided.spec import Choice, Lark
from guided.spec.composition import Sequence
from tests.kit.grammars import accepted_by, mutated, random_text
from tests.kit.walks import BYTES, accepts, random_walk

_JSON = """
?value: object | array | string | SIGNED_NUMBER | "true" | "false" | "null"
array: "[" [value ("," value)*] "]"
object: "{" [pair ("," pair)*] "}"
pair: string ":" value
string: ESCAPED_STRING
start: value
%import common (ESCAPED_STRING, SIGNED_NUMBER, WS)
%ignore WS
"""
_ARITHMETIC = """
start: sum
sum: product | sum ("+" | "-") product
product: atom | product ("*" | "/") atom
atom: NUMBER | "-" atom | NAME | "(" sum ")" | NAME "(" [sum ("," sum)*] ")"
%import common (NUMBER, WS_INLINE)
%import common.CNAME -> NAME
%ignore WS_INLINE
%ignore /#.*/
"""
_FEATURES: dict[str, tuple[str, list[str], list[str]]] = {
    "the longest match": ('start: A "b"?\nA: /a[a-z]*/', ["a", "ab"], ["b"]),
    "texts by length": (
        'start: ("=" | "==" | "a")+', ["===", "==a=", "="], ["", "= ="]
    ),
    "key words are no names": (
        'start: ("if" NAME | NAME)+\nNAME: /[a-z]+/\n%ignore " "',
        ["if a", "a if b", "ifa", "a if if b"],
        ["if", "a if"],
    ),
    "but where they cannot come": (
        'start: NAME ":" "if"\nNAME: /[a-z]+/', ["if:if", "a:if"], ["a:b", "a:iff"]
    ),
    "priorities": ('start: (A "!" | B "?")+\nA.1: /a/\nB: /a+/', ["a!a!"], ["a?", "aa?", "aa!"]),
    "ordered alternatives": ('start: (A "c")+\nA: /a|ab/', ["ac", "acac"], ["abc"]),
    "lazy patterns": ('start: C "x"\nC: "/*" /(.|\\n)*?/ "*/"', ["/**/x", "/* */x"], ["/**/*/x"]),
    "look-behind": (
        "start: A+\nA: /'(?:.*?)(?<!q)'/", ["'a'", "'q''", "'a''b'", "''"], ["'q'", "'a"]
    ),
    "look-ahead": (
        'start: (OP | /[a-z]/ | "?!")+\nOP: /[+*]|[?](?![a-z])/\n%ignore /-/',
        ["a?+", "?-a", "?", "?!a"],
        ["?a", "a?b"],
    ),
    "look-ahead that is decided late": (
        "start: (A | B | C)+\nA.1: /a+(?=b|_)/\nB: /a+b_?|_(?!_)/\nC: /aa/",
        ["aa", "aa_", "aaaa_"],
        ["a", "aaa"],
    ),
    "look-around that says nothing": (
        r"start: (A | B)+" "\n" r"A: /a(?![^\s\S])(?=[\s\S]|b)/" "\nB: /b/",
        ["ab", "aab"],
        ["a", "ba"],
    ),
    "contexts": (
        'start: "a" WORD | "b" NUMBER\nWORD: /[a-z0-9]+/\nNUMBER: /[0-9]+/',
        ["a1", "b1", "aa"],
        ["b1a", "ba"],
    ),
    "ignored text": (
        'start: "a" "-" "b"\n%ignore /-+>/\n%ignore " "', ["a->- b", "a -b->"], ["a-->b", "a--b"]
    ),
    "flags": (
        'start: ("select"i NAME)+\nNAME: /[a-z]+/i\n%ignore " "',
        ["sElect a", "selecta"],
        ["selec a"],
    ),
    "empty": ("start: A*\nA: /a/", ["", "aa"], ["b"]),
    "characters": ('start: ("é" | /[à-ÿ]+/ "!")+', ["é", "éé!", "ü!é"], ["éé", "ü"]),
    "json": (_JSON, ['{"a": [1, 2.5e3, "x\\""]}', " [ ] ", "-1"], ["1.e", "[1,]", "[1e]"]),
    "arithmetic": (
        _ARITHMETIC, ["1+2", "a*-(b)", "f(1, x)", "1 #+", "1.5"], ["1a", "a b", "1.5.2", ""]
    ),
}  # fmt: skip


def _machine(text: str) -> GrammarMachine:
    return GrammarMachine(network_from_grammar(lower_contextual(text)))


@pytest.mark.parametrize("feature", _FEATURES)
def test_the_texts_are_those_that_lark_takes(feature: str) -> None:
    text, accepted, rejected = _FEATURES[feature]
    machine, rng = _machine(text), random.Random(feature)
    lark = Reference(text, parser="lalr", lexer="contextual")

    def parses(example: str) -> bool:
        try:
            lark.parse(example)
        except LarkError:
            return False
        return True

    for example in accepted:
        assert accepted_by(machine, example), example
        assert parses(example), example
    for example in rejected:
        assert not accepted_by(machine, example), example
        assert not parses(example), example
    texts = [mutated(example, rng) for example in (*accepted, *rejected) for _ in range(10)]
    texts += [mutated(example, rng) for example in texts]
    texts += [random_text(machine, random.Random(seed), 8) for seed in range(10)]
    for example in texts:
        assert accepted_by(machine, example) == parses(example), example
    machine.check()


_ERRORS: dict[str, tuple[str, type[GuidedError], list[str]]] = {
    "conflict": (
        'start: s\ns: "if" s | "if" s "else" s | "x"',
        UnsupportedFeatureError,
        ["not LALR(1)", "Shift/Reduce conflict for terminal ELSE"],
    ),
    "collision": (
        'start: a | b\na: "x"\nb: "x"',
        UnsupportedFeatureError,
        ["not LALR(1)", "Reduce/Reduce collision"],
    ),
    "priority": (
        # Lark's parser takes "q" for an a, and has no "qxy".
        'start: a "x" | b "x" "y"\na.2: "q"\nb: "q"',
        UnsupportedFeatureError,
        ["not LALR(1)", "Reduce/Reduce collision"],
    ),
    "look-ahead": (
        "start: A B\nA: /a(?=b.)/\nB: /b/", UnsupportedFeatureError, ["look-ahead at more than"]
    ),
    "look-behind": (
        "start: A B\nA: /a/\nB: /b?(?<!ab)c/", UnsupportedFeatureError, ["before a terminal"]
    ),
    "look-ahead in look-behind": (
        # Lark's scanner finds no A in "ab".
        "start: A B?\nA: /a(?:(?<=a(?!b))|(?<!a)c)/\nB: /b/",
        UnsupportedFeatureError,
        ["look-around in look-behind"],
    ),
    "empty repeat": (
        "start: A\nA: /(a|b*)*c/", UnsupportedFeatureError, ["a repeat of what may be empty"]
    ),
    "empty terminal": ("start: A\nA: /a*/", InvalidConstraintError, ["A may be empty"]),
    "hidden": ('start: A "b"\nA: /a[a-z]*/', UnsatisfiableError, ["no text"]),
    "optional parts": (
        f"start: {' '.join(f'A{n}?' for n in range(30))}\n"
        + "\n".join(f'A{n}: "{n}"' for n in range(30)),
        LimitExceededError,
        ["more than 3000 alternatives"],
    ),
    "template": (
        f"start: {' | '.join(f't{{A{n}}}' for n in range(40))}\n"
        + "t{x}: "
        + " | ".join(f'x "{n}"' for n in range(100))
        + "\n"
        + "\n".join(f'A{n}: "a{n}"' for n in range(40)),
        LimitExceededError,
        ["more than 3000 alternatives"],
    ),
    "syntax": ("start: (", InvalidConstraintError, ["line 1"]),
    "pattern": ("start: /a(b/", InvalidConstraintError, ["line 1, column 8"]),
    "pattern that nothing uses": (
        'start: "a"\nB: /x*??/ | /y/', InvalidConstraintError, ["cannot be read", "multiple repeat"]
    ),
    "pattern of a rule that nothing uses": (
        'start: "a"\ns: s "+" p | p\np: /a|ab/ | /(?"a"?c/ | "(" s ")"',
        InvalidConstraintError,
        ["unknown extension"],
    ),
    "a grammar of two names": (
        "%import common.INT\n%import .common.WS\nstart: INT WS",
        UnsupportedFeatureError,
        ["with a dot"],
    ),
    "declared": ("start: A\n%declare A", UnsupportedFeatureError, ["line 2, column 10", "'A'"]),
}  # fmt: skip


@pytest.mark.parametrize("name", _ERRORS)
def test_an_error_says_what_and_where(name: str) -> None:
    text, kind, parts = _ERRORS[name]
    with pytest.raises(kind) as caught:
        _machine(text)
    assert type(caught.value) is kind
    for part in parts:
        assert part in str(caught.value)


def test_a_very_long_rule_is_refused_in_time() -> None:
    """Lark looks at everything between any two of its symbols: seconds for 200."""
    with limited_work(3_000_000), pytest.raises(LimitExceededError):
        _machine("start: " + "/x/i" * 1_000)


def test_whether_a_text_is_a_word_is_found_out_in_time() -> None:
    """Python's matcher would go back and forth in it until the end of days."""
    text = 'start: "' + "a" * 60 + '" | X\nX: /(?:a+)+b/'
    with limited_work(1_000_000):
        machine = _machine(text)
    assert accepted_by(machine, "a" * 60)
    assert accepted_by(machine, "aab")


def test_a_grammar_that_is_read_so_can_be_a_part() -> None:
    """And sees nothing beyond it: the scanner cuts off its own text."""
    text = 'start: A ("b" | "c")?\nA: /a[ab]*/'
    free, scanned = Lark(text), Lark(text, reading="contextual")
    assert free.digest() != scanned.digest()
    compiler = ConstraintCompiler(BYTES)
    start = compiler.start(Sequence(["a", scanned, "b", scanned]))
    for accepted in (b"aabba", b"aacbac", b"aabbab"):
        assert accepts(start, accepted), accepted
    for rejected in (b"aab", b"aacba!", b"acba"):
        assert not accepts(start, rejected), rejected
    for seed in range(5):
        random_walk(start, random.Random(seed), 10)
    assert accepts(compiler.start(Lark('start: A "b"\nA: /a[a-z]*/')), b"ab")
    with pytest.raises(UnsatisfiableError):
        compiler.start(Lark('start: A "b"\nA: /a[a-z]*/', reading="contextual"))


def test_nothing_stands_in_it_and_no_other_reading_is_known() -> None:
    compiler = ConstraintCompiler(BYTES)
    for lark in (
        Lark("start: A\n%declare A", holes={"A": Choice(["a"])}, reading="contextual"),
        Lark('start: %json {"type": "null"}', reading="contextual"),
    ):
        with pytest.raises(ConstraintError, match="not supported in the contextual reading"):
            compiler.start(lark)
    with pytest.raises(RequestError, match="reading 'dynamic' is none of 'context_free', 'contex"):
        Lark("start:", reading="dynamic")  # type: ignore[arg-type]
