"""Special tokens as parts of constraints: by their ids, never by their texts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

import pytest

from guided.constraint import ConstraintCompiler, Matcher
from guided.constraint.report import check_structure
from guided.errors import (
    ConstraintError,
    InvalidConstraintError,
    TokenRejectedError,
    UnsatisfiableError,
)
from guided.masks.mask import tokens_of
from guided.masks.vocabulary import Vocabulary
from guided.spec import Ebnf, Forcing, JsonSchema, Lark, Regex, Structure, TokenId
from guided.spec.composition import AnyOf, Repeat, Sequence, Text
from guided.spec.special_token import SpecialToken
from guided.spec.tagged import FreeText, Until
from tests.kit.tiny_vocabulary import tiny_vocabulary
from tests.kit.tokenizers import real_tokenizer, real_vocabulary

_PIECES = (b"ab", b"<a", b"<a>", b"a>", b"><", b"b<a", b"x\xff", b"\xff<a>\xff", b"<n>a")
_VOCABULARY = tiny_vocabulary(_PIECES, special=("<a>", "<ab>", "[C]"), named=("<n>",))
_COMPILER = ConstraintCompiler(_VOCABULARY)
_NAMED = _VOCABULARY.named

Symbols = tuple[str, ...]
"""The parts of an answer: characters, and names of special tokens after a ``$``."""


def read(tokens: Iterable[TokenId], constraint: Structure) -> Matcher | None:
    """The position after tokens; ``None`` if mask and step do not allow one of them."""
    matcher = _COMPILER.start(constraint)
    for token in tokens:
        allowed = token in tokens_of(matcher.mask())
        try:
            matcher = matcher.advance(token)
        except TokenRejectedError:
            assert not allowed
            return None
        assert allowed
    return matcher


def tokens_from(*parts: str | SpecialToken) -> list[TokenId]:
    """The tokens of texts, one for each byte, and of special tokens."""
    tokens: list[TokenId] = []
    for part in parts:
        if isinstance(part, SpecialToken):
            tokens.append(_NAMED[part.name])
        else:
            tokens += [_VOCABULARY.byte_ids[byte] for byte in part.encode()]
    return tokens


A, AB, C, N = map(SpecialToken, ("<a>", "<ab>", "[C]", "<n>"))


@pytest.mark.parametrize(
    ("constraint", "parts", "fits"),
    [
        (A, [A], True),
        (A, ["<a>"], False),
        (Text("<a>"), [A], False),
        (Text("<a>"), ["<a>"], True),
        (A, [AB], False),
        (Sequence(["x", A, "y"]), ["x", A, "y"], True),
        (Sequence(["x", A, "y"]), ["x<a>y"], False),
        (Sequence(["x", A, "y"]), ["xy"], False),
        (AnyOf([A, "<a>"]), [A], True),
        (AnyOf([A, "<a>"]), ["<a>"], True),
        (Repeat(AnyOf([A, C]), 2, 3), [A, C, A], True),
        (Repeat(AnyOf([A, C]), 2, 3), [A], False),
        (Sequence([FreeText(), A, FreeText()]), ["<a>x", A, "\u00ff<a>"], True),
        (Sequence([FreeText(), A, FreeText()]), ["<a>x", A, A], False),
        (Sequence([Until("<a>"), A]), ["b<a>", A], True),
        (Sequence([Regex("[^x]*"), A]), ["<a>", A], True),
        # A token that is text and has a name: only by its name, where a constraint uses that.
        (N, [N], True),
        (N, ["<n>"], False),
        (Text("<n>"), [N], True),
        (Text("<n>"), ["<n>"], True),
        (Sequence(["<n>", N]), ["<n>", N], True),
        (Sequence(["<n>", N]), [N, N], False),
        (Sequence([FreeText(), N, FreeText()]), ["<n>", N, "<n>"], True),
        (Sequence([FreeText(), N, FreeText()]), [N, N], False),
        # In a grammar; ignored text may come before it, and look-around does not see it as text.
        (Lark('start: "x" <a> "y" | <ab>\n%ignore " "'), ["x  ", A, " y "], True),
        (Lark('start: "x" <a> "y" | <ab>\n%ignore " "'), ["x<a>y"], False),
        (Lark("start: (<a> | <ab>)+"), [A, AB, A], True),
        (Lark('start: t{<a>} "x"\nt{of}: of of'), [A, A, "x"], True),
        (Lark("start: /x(?!y)/ <a>"), ["x", A], True),
        (Lark("start: /x/ <a> /(?<!x)y/"), ["x", A, "y"], True),
        # Look-behind sees the text after a special token, and none before it.
        (Lark('start: <a> "x" /(?<=x)y/'), [A, "xy"], True),
        (Lark('start: "x" <a> /(?<=x)y/ | "z"'), ["x", A, "y"], False),
        (Lark('start: <a> "x" /(?<!x)y/ | "z"'), [A, "xy"], False),
        (Lark('start: <a> "x" <ab> "x" /(?<=xx)y/ | "z"'), [A, "x", AB, "xy"], False),
        (Lark('start: <a> "x" <ab> "xx" /(?<=xx)y/ | "z"'), [A, "x", AB, "xxy"], True),
        (Lark('start: (<a> /\\w+/ /\\bif\\b/?)+ "."'), [A, "xif."], True),
        (Lark('start: <a> "x" /\\bif/ | "z"'), [A, "xif"], False),
        (Lark('start: <a> "x" (" " /\\bif\\b/)* <ab> /\\bif/'), [A, "x if if", AB, "if"], True),
        (Lark("start: C\n%declare C", holes={"C": C}), [C], True),
        (Lark('start: <a> %json {"const": 1}'), [A, "1"], True),
        # As llama.cpp writes them.
        (Ebnf('root ::= <a> .* <ab> "x" | <n>'), [A, "<a>", AB, "x"], True),
        (Ebnf('root ::= <a> .* <ab> "x" | <n>'), [A, "<a>", A, AB, "x"], False),
        (Ebnf('root ::= <a> .* <ab> "x" | <n>'), [N], True),
        (Ebnf('root ::= <a> .* <ab> "x" | <n>'), ["<n>"], False),
        (Sequence(["<a>", Ebnf("root ::= (<a> | <ab>)+")]), ["<a>", AB, A], True),
    ],
)
def test_a_special_token_is_one_by_its_id(
    constraint: Structure, parts: list[str | SpecialToken], fits: bool
) -> None:
    matcher = read(tokens_from(*parts), constraint)
    assert (matcher is not None and matcher.is_accepting) == fits


@pytest.mark.parametrize(
    ("constraint", "run"),
    [
        (Text("<n>"), [N]),
        # Of each part one token alone is allowed.
        (Sequence(["<n>", N]), ["<", "n", ">", N]),
        (Sequence([N, "<n>"]), [N]),
        (Sequence(["b<n>", N]), ["b"]),
    ],
)
def test_no_token_is_forced_as_text_that_the_constraint_names(
    constraint: Structure, run: list[str | SpecialToken]
) -> None:
    """Though the tokenizer would spell the text as that token."""
    matcher = _COMPILER.start(constraint)
    forced = matcher.forced_run(Forcing.CANONICAL)
    assert list(forced) == tokens_from(*run)
    assert read(forced, constraint) is not None


def test_a_byte_that_only_a_named_token_spells_is_missing_beside_its_name() -> None:
    with_all = tiny_vocabulary(named=("\x07",))
    tokens = [*with_all.token_bytes]
    bell = with_all.named["\x07"]
    tokens[tokens.index(b"\x07")] = None
    vocabulary = Vocabulary(tuple(tokens), with_all.end_ids, with_all.spell, named={"\x07": bell})
    compiler = ConstraintCompiler(vocabulary)
    free = compiler.start(Regex("[^a]b"))
    assert bell in tokens_of(free.mask())
    named = compiler.start(Sequence([SpecialToken("\x07"), Regex("[^a]b")])).advance(bell)
    assert bell not in tokens_of(named.mask())
    assert len(named.shortest_completion()) == 2
    with pytest.raises(UnsatisfiableError):
        compiler.start(Sequence([SpecialToken("\x07"), Text("\x07")]))


_AB = JsonSchema('{"const": {"b": 0}}')
_AC = JsonSchema('{"enum": [[], [0]]}')
_INTEGER = JsonSchema('{"enum": [1, 10]}')
_FINITE: dict[str, tuple[Structure, list[str]]] = {
    "sequence": (
        Sequence(["b", A, AnyOf(["<a>", AB, C])]),
        ["b$<a> <a>", "b$<a> $<ab> ", "b$<a> $[C] "],
    ),
    "either": (
        AnyOf([Sequence([A, "a"]), "<a>a", Sequence(["<a", AB])]),
        ["$<a> a", "<a>a", "<a$<ab> "],
    ),
    "named": (
        AnyOf([Sequence([N, "a"]), "<n>a", Sequence(["<n", N])]),
        ["$<n> a", "<n>a", "<n$<n> "],
    ),
    # Beside the text of a hole, and with several parses.
    "hole": (
        AnyOf([_AB, Sequence([A, "x"]), Sequence([_AC, A])]),
        ['{"b":0}', "$<a> x", "[]$<a> ", "[0]$<a> "],
    ),
    "parses": (
        Sequence([AnyOf([_INTEGER, Sequence([_INTEGER, A])]), C]),
        ["1$[C] ", "10$[C] ", "1$<a> $[C] ", "10$<a> $[C] "],
    ),
    "repeat": (
        Repeat(AnyOf([A, "ab"]), 1, 3),
        [
            "".join(each)
            for count in (1, 2, 3)
            for each in itertools.product(("$<a> ", "ab"), repeat=count)
        ],
    ),
}


def symbols(document: str) -> Symbols:
    """``b$<a> c`` is ``b``, the token ``<a>``, ``c``."""
    found: list[str] = []
    first, *rest = document.split("$")
    found += first
    for piece in rest:
        name, _, text = piece.partition(" ")
        found += [f"${name}", *text]
    return tuple(found)


@pytest.mark.parametrize("name", _FINITE)
def test_masks_are_those_of_trying_every_token(name: str) -> None:
    """Compared with the enumerated documents: a token fits if some document continues with it."""
    constraint, written = _FINITE[name]
    documents = {symbols(each) for each in written}
    by_token = {token: f"${name}" for name, token in _NAMED.items()}
    rng = random.Random(3)
    for _ in range(12):
        so_far: Symbols = ()
        matcher = _COMPILER.start(constraint)
        while True:
            fitting = {}
            for token, text in enumerate(_VOCABULARY.token_bytes):
                if name == "named" and by_token.get(TokenId(token)) == "$<n>":
                    text = None
                more = (by_token.get(TokenId(token), ""),) if text is None else _characters(text)
                longer = (*so_far, *more)
                if more and any(each[: len(longer)] == longer for each in documents):
                    fitting[token] = longer
            ends = {0} if so_far in documents else set()
            assert set(tokens_of(matcher.mask()).tolist()) == fitting.keys() | ends
            assert matcher.is_accepting == bool(ends)
            end = matcher.shortest_completion()
            assert end or ends
            if not fitting:
                break
            token = rng.choice(sorted(fitting))
            so_far = fitting[token]
            matcher = matcher.advance(TokenId(token))


def _characters(text: bytes) -> Symbols:
    try:
        return tuple(text.decode())
    except UnicodeDecodeError:
        return ("\ufffd",)


_CALL = JsonSchema(
    '{"type": "object", "properties": {"city": {"const": "Oslo"}}, "required": ["city"]'
    ', "additionalProperties": false}'
)


@pytest.mark.parametrize(
    ("tokenizer", "constraint", "text"),
    [
        (
            "gptoss",
            Lark(
                'start: <|channel|> "analysis" <|message|> "Hm." <|end|> <|start|> "assistant"'
                ' <|channel|> "commentary to=functions.weather " <|constrain|> "json" <|message|>'
                ' %json {"const": {"city": "Oslo"}}'
            ),
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
            'to=functions.weather <|constrain|>json<|message|>{"city":"Oslo"}',
        ),
        (
            "qwen3",
            Sequence([SpecialToken("<think>"), "\n\n", SpecialToken("</think>"), "\n\n", _CALL]),
            '<think>\n\n</think>\n\n{"city":"Oslo"}',
        ),
        (
            "qwen3",
            Sequence(["Hi ", SpecialToken("<|vision_start|>"), " there"]),
            "Hi <|vision_start|> there",
        ),
        (
            "deepseek_v3",
            Sequence(
                [SpecialToken("<｜tool▁calls▁begin｜>"), "function", SpecialToken("<｜tool▁sep｜>")]
            ),
            "<｜tool▁calls▁begin｜>function<｜tool▁sep｜>",
        ),
    ],
)
def test_forced_runs_go_through_special_tokens_as_the_tokenizer_writes_them(
    tokenizer: str, constraint: Structure, text: str
) -> None:
    tokens = real_tokenizer(tokenizer).encode(text, add_special_tokens=False)
    matcher = ConstraintCompiler(real_vocabulary(tokenizer)).start(constraint)
    assert list(matcher.forced_run(Forcing.CANONICAL)) == tokens
    assert list(matcher.likely_run()) == tokens
    for token in tokens:
        matcher = matcher.advance(TokenId(token))
    assert matcher.is_complete


def test_a_choice_of_special_tokens_ends_the_run_before_it() -> None:
    matcher = _COMPILER.start(Sequence(["ab", AnyOf([A, AB]), C, "x"]))
    run = matcher.forced_run(Forcing.CANONICAL)
    assert _VOCABULARY.decode(run) == b"ab"
    for token in run:
        matcher = matcher.advance(token)
    assert set(tokens_of(matcher.mask()).tolist()) == {_NAMED["<a>"], _NAMED["<ab>"]}
    assert matcher.forced_run(Forcing.CANONICAL) == ()
    after = matcher.advance(_NAMED["<ab>"])
    assert after.forced_run(Forcing.CANONICAL) == tuple(tokens_from(C, "x"))


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (
            SpecialToken("<|python_tag|>"),
            "the model's tokenizer has no special token '<|python_tag|>'; name one that it has,"
            " such as '<a>', '<ab>', '<n>', or write a text",
        ),
        (
            Sequence(["x", SpecialToken("<abc>")]),
            "the model's tokenizer has no special token '<abc>'; name one that it has, such as"
            " '<ab>', '<a>', or write a text",
        ),
        (
            SpecialToken("<end>"),
            "the special token '<end>' ends answers of this model, so none can contain it; leave"
            " it out: an answer ends where its constraint does",
        ),
        (
            Lark("start: X\nX: <a>"),
            "line 2, column 4: the special token <a> stands in a terminal, which is text; use"
            " it in rules\n\nX: <a>\n   ^",
        ),
        (
            Lark('start: "x"\n%ignore <a>'),
            "line 2, column 9: the special token <a> stands in a terminal, which is text; use"
            " it in rules\n\n%ignore <a>\n        ^",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(constraint: Structure, message: str) -> None:
    with pytest.raises(ConstraintError) as refused:
        _COMPILER.start(constraint)
    assert str(refused.value) == message


@pytest.mark.parametrize("name", ["", "x" * 257, "\udcff"])
def test_a_name_that_no_token_has_is_refused_at_once(name: str) -> None:
    with pytest.raises(InvalidConstraintError):
        SpecialToken(name)


def test_a_report_has_special_tokens_by_their_names() -> None:
    for constraint, shortest in (
        (SpecialToken("<a>"), "<a>"),
        (Sequence(["é", SpecialToken("[C]"), "b"]), "é[C]b"),
    ):
        assert check_structure(constraint).report.shortest_answer == shortest
