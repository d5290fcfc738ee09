"""EBNF of llama.cpp and xgrammar: how it is read, and the messages of refusals."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.constraint.machine import machine_of
from guided.errors import (
    GuidedError,
    InvalidConstraintError,
    LimitExceededError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided.grammar.ebnf import lower_ebnf
from guided.grammar.ebnf.parser import MAX_BOUND, MAX_GRAMMAR_LENGTH
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.grammar.token_parser import MAX_DEPTH
from guided.machine.recognizer import Recognizer
from guided.spec import Ebnf
from guided.spec.composition import Sequence, Text
from tests.kit.grammars import accepted_by, language, mutated, random_grammar, random_text
from tests.kit.written_ebnf import written

JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,2})? ws

# at most one line break between two tokens
ws ::= | " " | "\n" [ \t]{0,20}
"""
ARITHMETIC = r"""
root  ::= (sum "=" ws number "\n")+
sum   ::= sum [-+] ws product | product   # left recursion
product ::= product [*/] ws factor | factor
factor ::= number | name | "(" ws sum ")" ws
number ::= [0-9]+ ws
name  ::= [a-z] [a-z0-9_]* ws
ws    ::= [ \t]*
"""
LIST = 'root ::= ("- " item)+\nitem ::= [^\\n]+ "\\n"'
MOVES = r"""
root   ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")*
move   ::= (pawn | piece | castle) [+#]?
piece  ::= [NBKQR] [a-h]? [1-8]? "x"? square
pawn   ::= ([a-h] "x")? square ("=" [NBQR])?
castle ::= "O-O" "-O"?
square ::= [a-h] [1-8]
"""

_FEATURES: dict[str, tuple[str, Iterable[str], Iterable[str]]] = {
    "json": (
        JSON, ["{}", '{"a": [1, -2.5e3, "\\u00e9é", null], "b":{ }}'], ["", "[]", '{"a": 01}']
    ),
    "arithmetic": (ARITHMETIC, ["1 + x*(2-3)=4\n"], ["1=1", "1+=2\n", "(1=1\n"]),
    "list": (LIST, ["- é b\n- c\n"], ["", "- \n", "- a"]),
    "moves": (MOVES, ["1. e4 e5\n2. Nf3 Nc6\n", "1. exd5 O-O-O+\n"], ["1. e9 e5\n", "1. e4\n"]),
    "sequence": ('root ::= "a" "b"', ["ab"], ["", "a", "abb"]),
    "alternatives": ('root ::= "a" | "b" "c" | ""', ["", "a", "bc"], ["b", "ac"]),
    "an empty alternative": ('root ::= "a" |', ["", "a"], ["aa"]),
    "no text": ("root ::=", [""], ["a"]),
    "an empty group": ("root ::= ()", [""], ["a"]),
    "groups": ('root ::= "a" ("b" | ("c")) "d"', ["abd", "acd"], ["ad", "abcd"]),
    "signs": ('root ::= "a"? "b"* "c"+', ["c", "abbcc"], ["aac", "ab"]),
    "bounds": ('root ::= "a"{2} "b"{1,} "c"{ 0 , 2 }', ["aab", "aabbcc"], ["ab", "aabccc"]),
    "bounds with zeros": ('root ::= "a"{00000002} "b"{0,00000001}', ["aa", "aab"], ["a", "aabb"]),
    "repeats of repeats": ('root ::= ("a"{2}){3} "b"?+', ["aaaaaa", "aaaaaabb"], ["aa"]),
    "a space before a sign": ('root ::= "a" + "b"', ["aab"], ["b"]),
    "any character": ("root ::= . .", ["ab", "\né", "😀."], ["a", "abc"]),
    "classes": ("root ::= [a-cx] [^a-c] [é-ü]", ["adé", "x\nü"], ["dda", "aaé", "add"]),
    "dashes": ("root ::= [-a] [a-] [a-c-e] [+--]", ["---,", "aaa-"], ["bbb,", "aad,", "aaa."]),
    "escapes": (
        r'root ::= "\x41\u00e9\U0001F600\n\r\t\\\"\[\]\/\-" [\]\[\^\-\x30-\x32] [^\\]',
        ['Aé😀\n\r\t\\"[]/-]a', 'Aé😀\n\r\t\\"[]/-1"', 'Aé😀\n\r\t\\"[]/-^-'],
        ['Aé😀\n\r\t\\"[]/-3a', 'Aé😀\n\r\t\\"[]/-0\\'],
    ),
    "two digits": (r'root ::= "\x41b"', ["Ab"], ["\u041b"]),
    "comments": ('root ::= # one "x"\n "a" # two\n#three\n| "#"', ["a", "#"], ["ax", "x"]),
    "a comment at the end": ('root ::= "a" # "b"', ["a"], ["ab"]),
    "an escaped caret": (r"root ::= [\^a] [a^]", ["^a", "a^"], ["b^", "ab"]),
    "line breaks": ('root ::=\n"a"\n| "b"\nc\n\n\nc ::= "c"\n', ["a", "bc"], ["b", "ac"]),
    "carriage returns": ('root ::= "a" |\r\n  b\r\nb ::= "b"\r\n', ["a", "b"], ["ab"]),
    "a line break in a literal": ('root ::= "a\nb"', ["a\nb"], ["ab"]),
    "names": ('root ::= a-b A_1 1\na-b ::= "x"\nA_1 ::= "y"\n1 ::= "z"', ["xyz"], ["xy"]),
    "left recursion": ('root ::= root "+" "1" | "1"', ["1", "1+1+1"], ["", "+1", "1+"]),
    "hidden left recursion": ('root ::= n root "a" | "b"\nn ::= "c" | ""', ["b", "cbaa"], ["ca"]),
    "ambiguity": ('root ::= root root | "a"', ["a", "aaaa"], [""]),
    "captures": ('root[capture] ::= a\na [capture="x"] ::= "b"', ["b"], ["", "a"]),
    "look-ahead": ('root ::= a "b"\na ::= "x"+ (= "b")', ["xb", "xxb"], ["x", "b"]),
}  # fmt: skip


def _machine(text: str, root: str = "root") -> GrammarMachine:
    return GrammarMachine(network_from_grammar(lower_ebnf(text, root)))


@pytest.mark.parametrize("feature", _FEATURES)
def test_a_feature_means_what_its_users_know(feature: str) -> None:
    text, accepted, rejected = _FEATURES[feature]
    machine = _machine(text)
    for example in accepted:
        assert accepted_by(machine, example), example
    for example in rejected:
        assert not accepted_by(machine, example), example
    machine.check()


def test_a_grammar_may_start_with_another_rule() -> None:
    machine = _machine('root ::= "a" item\nitem ::= "b"', "item")
    assert accepted_by(machine, "b")
    assert not accepted_by(machine, "ab")


_ERRORS: dict[str, tuple[str, type[GuidedError], list[str]]] = {
    "no rules": ("# nothing\n", InvalidConstraintError, ["no rule 'root'"]),
    "no root": ('a ::= "x"\nb ::= a', InvalidConstraintError, ["'root'", "start with one of a, b"]),
    "no name": ('::= "a"', InvalidConstraintError, ["line 1, column 1", "NAME ::="]),
    "no definition": ('root\n', InvalidConstraintError, ["line 2, column 1", "NAME ::="]),
    "one colon": ('root := "a"', InvalidConstraintError, ["line 1, column 6", "::=", "\n     ^"]),
    "unknown rule": (
        'root ::= "a" |\n  other "b"', InvalidConstraintError, ["line 2, column 3", "'other'"]
    ),
    "unknown in a rule that is not used": (
        'root ::= "a"\nb ::= other', InvalidConstraintError, ["line 2, column 7", "'other'"]
    ),
    "twice": ('root ::= "a"\nroot ::= "b"', InvalidConstraintError, ["line 2, column 1", "twice"]),
    "open group": ('root ::= ("a"\nb ::= "b"', InvalidConstraintError, ["line 1, column 10"]),
    "closed group": ('root ::= "a")', InvalidConstraintError, ["line 1, column 13", "NAME ::="]),
    "open literal": ('root ::= "a', InvalidConstraintError, ["line 1, column 10", "closing"]),
    "open class": ("root ::= [a", InvalidConstraintError, ["line 1, column 10", "closing"]),
    "single quotes": ("root ::= 'a'", InvalidConstraintError, ["column 10", "means nothing"]),
    "nothing to repeat": ('root ::= "a" | *', InvalidConstraintError, ["line 1, column 16", "*"]),
    "open bounds": ('root ::= "a"{2', InvalidConstraintError, ["line 1, column 13", "bounds"]),
    "no lower bound": ('root ::= "a"{,2}', InvalidConstraintError, ["line 1, column 13", "bounds"]),
    "turned bounds": ('root ::= "a"{3,2}', InvalidConstraintError, ["line 1, column 13", "3"]),
    "turned range": ("root ::= [z-a]", InvalidConstraintError, ["line 1, column 11", "range"]),
    "empty class": ("root ::= []", InvalidConstraintError, ["line 1, column 10", "no characters"]),
    "full class": ("root ::= [^]", InvalidConstraintError, ["line 1, column 10", "no characters"]),
    "unknown escape": (r'root ::= "a\g"', InvalidConstraintError, ["line 1, column 12", r"\g"]),
    "short escape": (r'root ::= "\u12"', InvalidConstraintError, ["line 1, column 11", "4 hex"]),
    "large escape": (r'root ::= "\U00110000"', InvalidConstraintError, ["line 1, column 11"]),
    "surrogate": (r'root ::= "\uD83D\uDE00"', InvalidConstraintError, ["column 11", "half"]),
    "look-ahead inside": (
        'root ::= (= "b") "a"', InvalidConstraintError, ["line 1, column 10", "end of its rule"]
    ),
    "open look-ahead": (
        'root ::= "a" (= "b"\nn ::= "c"', InvalidConstraintError, ["column 14", "not closed"]
    ),
    "kind of characters": (r"root ::= [\d]", UnsupportedFeatureError, ["column 11", "[0-9]"]),
    "dotted name": ('root ::= a.b', UnsupportedFeatureError, ["line 1, column 10", "dot"]),
    "token by its number": (
        "root ::= <[7]> .*", UnsupportedFeatureError,
        ["line 1, column 10: <[7]> is a token by its number, which is not supported",
         "write its name in the model's tokenizer, such as <|python_tag|>"],
    ),
    "not a token": (
        "root ::= !</think>*", UnsupportedFeatureError,
        ["line 1, column 10: any token but one is not supported", "write .* for any text"],
    ),
    "free text with tags": (
        'root ::= TagDispatch(("<a>", b))\nb ::= "b"', UnsupportedFeatureError,
        ["line 1, column 10: TagDispatch, free text", "use guided.Tagged"],
    ),
    "free text with tokens": (
        'root ::= TokenTagDispatch((7, b))\nb ::= "b"', UnsupportedFeatureError,
        ["line 1, column 10: TokenTagDispatch", "write (.* <name> rule)* .*"],
    ),
    "numbers of tokens": (
        'root ::= Token (7)', UnsupportedFeatureError, ["column 10: Token, a", "<|python_tag|>"]
    ),
    "any but some": (
        'root ::= ExcludeToken(7)', UnsupportedFeatureError, ["column 10: ExcludeToken", "write .*"]
    ),
    "pattern": (
        'root ::= "a" Regex("b")', UnsupportedFeatureError, ["column 14: Regex", "guided.Lark"]
    ),
    "pieces": (
        'root ::= Substring("b")', UnsupportedFeatureError, ["column 10: Substring", "Choice"]
    ),
    "bound in tokens": (
        'root ::= a\na[capture, max_tokens=3] ::= "b"', UnsupportedFeatureError,
        ["line 2, column 2: the attribute 'max_tokens' of a rule", "the request's max_tokens"],
    ),
    "shortest texts": (
        'root[lazy] ::= "b"+', UnsupportedFeatureError, ["'lazy'", "guided.Lark"]
    ),
    "unknown attribute": (
        'root[other=1] ::= "b"+', UnsupportedFeatureError, ["'other'", "leave it out"]
    ),
    "a grammar of Lark": (
        '%llguidance {}\nstart: "a"', UnsupportedFeatureError,
        ["line 1, column 1: %llguidance begins a grammar in Lark's format", "guided.Lark"],
    ),
    "no way out": ('root ::= "a" root', UnsatisfiableError, ["no text"]),
    "depth": ("root ::= " + "(" * 5_000, LimitExceededError, [f"deeper than {MAX_DEPTH}"]),
    "repeats of one of two": (
        'root ::= ("a"' + "*" * 99 + ' | "b")**', LimitExceededError, [f"than {MAX_DEPTH}"]
    ),
    "repeats of groups": (
        "root ::= " + "(" * 10 + '"a"' + (")" + "*" * 90) * 10, LimitExceededError,
        [f"than {MAX_DEPTH}", "column 125"],
    ),
    "stacked repeats": ('root ::= "a"' + "*" * 5_000, LimitExceededError, [f"than {MAX_DEPTH}"]),
    "large bound": ('root ::= "a"{1' + "0" * 6_000 + "}", LimitExceededError, [f"{MAX_BOUND}"]),
    "length": ("#" * (MAX_GRAMMAR_LENGTH + 1), LimitExceededError, [f"{MAX_GRAMMAR_LENGTH}"]),
}  # fmt: skip


@pytest.mark.parametrize("name", _ERRORS)
def test_an_error_says_what_and_where(name: str) -> None:
    text, kind, parts = _ERRORS[name]
    with pytest.raises(kind) as caught:
        _machine(text)
    assert type(caught.value) is kind
    for part in parts:
        assert part in str(caught.value)


def test_groups_and_repeats_nest_to_their_limits_from_a_deep_stack() -> None:
    nested = '"a"'
    for _ in range(MAX_DEPTH):
        nested = f'("b" | "c" {nested} "d")*'

    def built(frames: int) -> Recognizer:
        if frames:
            return built(frames - 1)
        return machine_of(Sequence((Ebnf(f"root ::= {nested}"), Text("x"))))

    machine = built(400)
    assert machine.advance(machine.start, b"bcbdx") is not None
    assert _machine("root ::= " + '("a")* ' * 300) is not None


def test_random_grammars_have_the_texts_that_are_counted_out() -> None:
    """Written in EBNF with blanks, comments, groups and escapes wherever these are allowed."""
    texts = ["".join(text) for size in range(6) for text in itertools.product("ab", repeat=size)]
    compared = 0
    for seed in range(120):
        rng = random.Random(seed)
        rules = random_grammar(rng)
        expected = language(rules, 5)
        text = written(rules, rng)
        try:
            machine = _machine(text, next(iter(rules)))
        except UnsatisfiableError:
            assert not expected, text
            continue
        compared += 1
        assert {each for each in texts if accepted_by(machine, each)} == expected, text
    assert compared > 60


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12), st.data())
def test_any_text_can_be_written_as_a_literal_and_as_classes(
    text: str, data: st.DataObject
) -> None:
    spell = data.draw(st.sampled_from([_hexadecimal, _with_backslash]))
    spelled = "".join(map(spell, text))
    classes = " ".join(f"[{spell(sign)}]" for sign in text)
    machine = _machine(f'root ::= "{spelled}" {classes}')
    assert accepted_by(machine, text + text)
    assert not accepted_by(machine, text + text[:-1])
    assert machine.shortest_completion(machine.start) == (text + text).encode()


def _hexadecimal(sign: str) -> str:
    return f"\\U{ord(sign):08X}"


def _with_backslash(sign: str) -> str:
    return f"\\{sign}" if sign in '"\\[]^-' else sign


def test_the_json_of_its_texts_is_read_by_json() -> None:
    machine = _machine(JSON)
    for seed in range(25):
        text = random_text(machine, random.Random(seed), steps=30)
        assert isinstance(json.loads(text), dict), text


def test_moves_agree_with_a_pattern() -> None:
    """A grammar without recursion is a regular expression."""
    square, machine = "[a-h][1-8]", _machine(MOVES)
    move = rf"(([a-h]x)?{square}(=[NBQR])?|[NBKQR][a-h]?[1-8]?x?{square}|O-O(-O)?)[+#]?"
    pattern = re.compile(rf"1\. {move} {move}\n([1-9][0-9]?\. {move} {move}\n)*")
    rng = random.Random(0)
    agreed = 0
    for seed in range(30):
        text = random_text(machine, random.Random(seed), steps=20)
        assert pattern.fullmatch(text), text
        for _ in range(6):
            other = mutated(text, rng)
            agreed += (matches := pattern.fullmatch(other) is not None)
            assert accepted_by(machine, other) == matches, other
    assert agreed
