"""Inputs of custom tools: texts of a grammar in a string of JSON, or up to the first end."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from itertools import product

import pytest

from guided.constraint import ConstraintCompiler
from guided.constraint.machine import machine_of
from guided.errors import (
    InvalidConstraintError,
    LimitExceededError,
    RequestError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided.machine.recognizer import Recognizer
from guided.masks.mask import tokens_of
from guided.spec import JsonSchema, Lark, Regex, RegexDialect, Structure, TokenId
from guided.spec.composition import AnyOf, Sequence, Text
from guided.spec.input_text import BareText, EscapedText
from tests.kit.effort import first_seed, times
from tests.kit.patterns import LETTERS, random_pattern
from tests.kit.tiny_vocabulary import JSON_PIECES, tiny_vocabulary

END = "\n</p>\n"
PIECES = (
    *JSON_PIECES,
    b"\n</p>\n",
    b"</p>",
    b"\n</p",
    b"a\n</p>\nb",
    b"\\",
    b'\\"',
    b"\\u00",
    b"))",
)
VOCABULARY = tiny_vocabulary(PIECES, special=[])


def is_balanced(text: str) -> bool:
    """Whether every bracket is closed; between them stand line breaks and quotes."""
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0 or character not in '()\n"':
            return False
    return depth == 0


def matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


GRAMMARS: dict[str, tuple[Lark | Regex, Callable[[str], bool]]] = {
    "any": (Regex(r"(?s:.*)"), lambda _: True),
    "lines": (Lark('start: ("+" /[^\\n]*/ "\\n")*'), matches(r"(?:\+[^\n]*\n)*")),
    "lines of any kind": (Lark('start: (/[^\\n]*/ "\\n")*'), matches(r"(?:[^\n]*\n)*")),
    "controls": (Regex('[\x00-\x20"\\\\]{1,4}'), matches('[\x00-\x20"\\\\]{1,4}')),
    "all but some": (Regex('[^"\n\x1f]{0,3}'), matches('[^"\n\x1f]{0,3}')),
    "quotes": (Lark('start: "\\"" /[ab\\\\]/+ "\\""'), matches(r'"[ab\\]+"')),
    "listed": (Regex('a|\n|é|\\\\n|"b"'), matches('a|\n|é|\\\\n|"b"')),
    "balanced": (Lark('start: (/[\\n"]/ | "(" start ")")*'), is_balanced),
    "ignored": (
        Lark('start: "a" "b"\n%ignore /[ \\n]/'),
        matches(r"[ \n]*a[ \n]*b[ \n]*"),
    ),
    "words": (Lark(r"start: (/\w+\b/ | /\W/)+"), matches(r"(?:\w+\b|\W)+")),
    # "\n" is written with an n.
    "behind": (Lark("start: /[\\s\\S]*/ /(?<!n)b/"), matches(r"[\s\S]*(?<!n)b")),
    "not behind a break": (Lark("start: /[\\s\\S]*/ /(?<!\\n)b/"), matches(r"[\s\S]*(?<!\n)b")),
    "ahead": (Lark('start: /a(?!")/ /[\\s\\S]*/'), matches(r'a(?!")[\s\S]*')),
    "inner": (
        Regex(r"(?:(?<=\n)n|(?<!n)\n|a(?=\\)|\\)*"),
        matches(r"(?:(?<=\n)n|(?<!n)\n|a(?=\\)|\\)*"),
    ),
    "anchored": (Regex(r"^a?\n$"), matches(r"a?\n")),
    # These are automata already when they are escaped.
    "common": (
        Lark('start: A\nA: /[^x]{1,3}/ & ~/(?s:.*)\\n"/'),
        matches(r'(?!(?s:.*)\n"\Z)[^x]{1,3}'),
    ),
    "lazy": (Lark('start: t "b"?\nt[lazy]: /[^x]*[\\n"]/'), matches(r'[^x\n"]*[\n"]b?')),
    "ends": (Lark('start: ("a" | "\\n</p>" | "\\n")*'), matches(r"(?:a|\n</p>|\n)*")),
}


def some_texts(rng: random.Random) -> list[str]:
    """Texts of a few characters, of beginnings of the end, and of pieces close to the grammars."""
    pieces = [*'abn()"\\+ \n\t\x00\x1fé€😀', "</p>", "\n</p", "\n</p>", END, "\\n", "+a\n", "ab"]
    texts = ["".join(rng.choices(pieces, k=rng.randrange(6))) for _ in range(400)]
    return [*texts, *pieces, "", "+\n</p>\n", '"a\\"', "a\n</p>\n", "\n</p>\n</p>\n"]


def accepts(machine: Recognizer, text: str) -> bool:
    state = machine.advance(machine.start, text.encode())
    return state is not None and machine.is_accepting(state)


def escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_string_of_json_has_the_texts_of_the_grammar(name: str) -> None:
    grammar, has = GRAMMARS[name]
    machine = machine_of(Sequence(['"', EscapedText(grammar, "f"), '"']))
    texts = some_texts(random.Random(name))
    assert {has(text) for text in texts} == {True, False} or name == "any"
    for text in texts:
        assert accepts(machine, f'"{escaped(text)}"') == has(text), text
    assert not accepts(machine, '"\n"')


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_bare_text_is_one_of_the_grammar_up_to_the_first_end(name: str) -> None:
    grammar, has = GRAMMARS[name]
    machine = machine_of(Sequence(["<", BareText(grammar, "f", end=END), "|"]))
    for text in some_texts(random.Random(name)):
        is_first = (text + END).index(END) == len(text)
        assert accepts(machine, f"<{text}{END}|") == (is_first and has(text)), text


@pytest.mark.parametrize("end", ["a", "aa", "aba", "aab"])
def test_an_end_that_overlaps_itself_is_the_first_one(end: str) -> None:
    machine = machine_of(BareText(Regex("[ab]*"), "f", end=end))
    for length in range(6):
        for text in map("".join, product("ab", repeat=length)):
            assert accepts(machine, text + end) == ((text + end).index(end) == length), text


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_bare_text_has_nothing_in_it_that_it_must_not_have(name: str) -> None:
    grammar, has = GRAMMARS[name]
    machine = machine_of(Sequence(["<", BareText(grammar, "f", without="\n<"), "|"]))
    for text in some_texts(random.Random(name)):
        assert accepts(machine, f"<{text}|") == ("\n<" not in text and has(text)), text


def test_each_character_has_one_spelling() -> None:
    machine = machine_of(EscapedText(Regex(r"(?s:.)"), "f"))
    for code in (*range(0x100), 0x7FF, 0x2028, 0xFFFF, 0x1F600):
        assert accepts(machine, escaped(chr(code)))
    for text in (r"\u0061", r"\/", r"\u000A", r"\u000a", r"\u001F", r"\ud83d\ude00", "\x1f", '"'):
        assert not accepts(machine, text)


@pytest.mark.parametrize("is_escaped", [True, False])
def test_grammars_beside_each_other_are_kept_apart(is_escaped: bool) -> None:
    def inner(grammar: Lark | Regex, field: str) -> Structure:
        return EscapedText(grammar, field) if is_escaped else BareText(grammar, field, end=END)

    one = Sequence(["1", inner(Lark(r"start: /a(?!\n)/ /[ab\n]*/"), "f")])
    two = Sequence(["2", inner(Lark(r"start: /[ab\n]*/ /(?<!\n)b/"), "g")])
    other = Sequence(["3", Lark(r"start: /a/ /(?<=a)\n/")])
    machine = machine_of(AnyOf([one, two, other]))
    for text in ("a", "ab\n", "a\n", "\nb", "b", "ab", "ba\nb"):
        written = escaped(text) if is_escaped else text + END
        assert accepts(machine, f"1{written}") == bool(re.fullmatch(r"a(?!\n)[ab\n]*", text))
        assert accepts(machine, f"2{written}") == bool(re.fullmatch(r"[ab\n]*(?<!\n)b", text))
        assert accepts(machine, f"3{text}") == (text == "a\n")


@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize("kind", ["escaped", "bare"])
def test_what_the_masks_allow_is_a_text_of_the_grammar(name: str, kind: str) -> None:
    grammar, has = GRAMMARS[name]
    text = EscapedText(grammar, "f") if kind == "escaped" else BareText(grammar, "f", end=END)
    begin, end = ('{"input":"', '"}') if kind == "escaped" else ("<p>\n", "|")
    compiler = ConstraintCompiler(VOCABULARY)
    for seed in range(12):
        rng = random.Random(f"{name}{kind}{seed}")
        matcher, tokens = compiler.start(Sequence([begin, text, end])), list[TokenId]()
        while not matcher.is_complete and len(tokens) < 40:
            allowed = [TokenId(int(token)) for token in tokens_of(matcher.mask()) if token]
            # A random byte is seldom the first one of a character beyond ASCII that is completed.
            plain = [one for one in allowed if VOCABULARY.decode([one]).isascii()]
            tokens.append(rng.choice(plain or allowed))
            matcher = matcher.advance(tokens[-1])
        tokens += matcher.shortest_completion()
        written = VOCABULARY.decode(tokens).decode()
        if kind == "escaped":
            assert has(json.loads(written)["input"])
            continue
        said, _, rest = written.removeprefix(begin).partition(END)
        assert rest == end
        assert has(said)


@pytest.mark.parametrize("dialect", RegexDialect)
def test_random_patterns_have_the_same_texts_in_every_form(dialect: RegexDialect) -> None:
    num_held, start = 0, first_seed()
    for seed in range(start, start + times(30)):
        rng = random.Random(seed)
        written, end = random_pattern(rng, dialect), rng.choice(["\n", "ab", "aba", "K", "@\n@"])
        pattern = Regex(written.pattern, dialect)
        try:
            plain = machine_of(pattern)
            held = machine_of(EscapedText(pattern, "f"))
            up_to_end = machine_of(AnyOf([Text("|"), BareText(pattern, "f", end=end)]))
            without = machine_of(AnyOf([Text("|"), BareText(pattern, "f", without=end)]))
        except (InvalidConstraintError, UnsupportedFeatureError, UnsatisfiableError):
            continue
        few = ["".join(rng.choices(LETTERS + '"\\n', k=rng.randrange(4))) for _ in range(20)]
        # The other forms of the text "|" are let stand by themselves.
        for text in {*few, *written.texts, *(text + end for text in written.texts)} - {"|"}:
            has = accepts(plain, text)
            assert accepts(held, escaped(text)) == has, (written.pattern, text)
            is_first = (text + end).index(end) == len(text)
            assert accepts(up_to_end, text + end) == (has and is_first), (written.pattern, text)
            assert accepts(without, text) == (has and end not in text), (written.pattern, text)
            num_held += has
    assert num_held > 20


# Refusals

REFUSED: list[tuple[Lark | Regex, type[RequestError], str]] = [
    (Lark("start: b"), InvalidConstraintError, "in f: line 1, column 8"),
    (Lark('start: "a"\n\nstart: "b'), InvalidConstraintError, "in f: line 3, column 8"),
    (Lark("begin: /a/"), InvalidConstraintError, "in f: "),
    (Lark('start: "a" %json {}'), UnsupportedFeatureError, "in f: line 1, column 12: a schema"),
    (
        Lark('start: "a" X\n%declare X', holes={"X": JsonSchema("{}")}),
        UnsupportedFeatureError,
        "in f: a hole in the input of a tool",
    ),
    (Lark("start: <|x|>"), UnsupportedFeatureError, "in f: the special token '<|x|>'"),
    (Regex("a(b"), InvalidConstraintError, "in f: "),
    (Regex(r"(a)\1"), UnsupportedFeatureError, "in f: "),
    (Regex(f"a{{1,{10**9}}}"), LimitExceededError, ""),
]


@pytest.mark.parametrize(("grammar", "kind", "told"), REFUSED)
def test_a_refusal_names_the_field_of_the_input(
    grammar: Lark | Regex, kind: type[RequestError], told: str
) -> None:
    for text in (EscapedText(grammar, "f"), BareText(grammar, "f", end=END)):
        with pytest.raises(kind) as caught:
            machine_of(Sequence(["<", text]))
        assert caught.value.message.startswith(told)
        if told:
            assert caught.value.field == "f"


def test_a_grammar_all_of_whose_texts_have_the_end_in_them_is_unsatisfiable() -> None:
    spelled = Lark(r'start: "a" /\n<[\/]p>/ "\n" "b"')
    for grammar in (Regex(r"a\n</p>\nb"), spelled):
        assert accepts(machine_of(EscapedText(grammar, "f")), r"a\n</p>\nb")
        with pytest.raises(UnsatisfiableError):
            machine_of(BareText(grammar, "f", end=END))
