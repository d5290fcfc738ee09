"""Forced runs on real tokenizers: every token of a run is the tokenizer's own choice."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, pre_tokenizers
from tokenizers import Regex as Pattern

from guided.constraint import ConstraintCompiler, Matcher
from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.masks.piece_speller import PieceSpeller
from guided.masks.vocabulary import Vocabulary
from guided.spec import Forcing, JsonSchema, Regex, TokenId
from tests.kit.built_tokenizers import BUILT, built_vocabulary, loaded
from tests.kit.schemas import compact
from tests.kit.tokenizers import TOKENIZERS, real_tokenizer, real_vocabulary

_NAMES = ["id", "user_name", "lastName", "e-mail", "$ref", "x-y-z", "2fa", "städte", "名前", "a b"]
_CHOICES = ["red", "read", "IN_PROGRESS", "v1.2.3", "", "Zürich", "北京", "don't", "N/A", '"']
_TEXTS = [
    *("", "ok", "Ada Lovelace", "  lead", "12345", 'it\'s 5" wide', "a\nb", "C:\\dir", "http://a.b/?c=d"),
    *("naïve – dash", "😀 ok", '{}[]":,', "]", "}", ": ", ", x", '"q"'),
]  # fmt: skip

_Drawn = tuple[Any, Callable[[], Any]]
"""A schema, and a function that draws a value that satisfies it."""


def vocabulary_of(name: str) -> Vocabulary:
    return built_vocabulary(name) if name in BUILT else real_vocabulary(name)


@cache
def compiler_of(name: str) -> ConstraintCompiler:
    return ConstraintCompiler(vocabulary_of(name))


def _scalar(rng: random.Random) -> _Drawn:
    chosen = rng.sample(_CHOICES, rng.randint(1, 4))
    return rng.choice(
        [
            ({"type": "string"}, lambda: rng.choice(_TEXTS)),
            ({"enum": chosen}, lambda: rng.choice(chosen)),
            ({"type": "integer"}, lambda: rng.choice([0, 7, -3, 1999])),
            ({"type": "boolean"}, lambda: rng.random() < 0.5),
            ({"type": ["number", "null"]}, lambda: rng.choice([None, 19.99, -2])),
            ({"type": "string", "pattern": "^INV-[0-9]{2}$"}, lambda: f"INV-{rng.randint(10, 99)}"),
        ]
    )


def _value(rng: random.Random, depth: int) -> _Drawn:
    kind = rng.choice(["scalar", "scalar", "list", "object"]) if depth else "scalar"
    if kind == "scalar":
        return _scalar(rng)
    if kind == "list":
        items, draw = _value(rng, depth - 1)
        return {"type": "array", "items": items}, lambda: [draw() for _ in range(rng.randint(0, 3))]
    return _object(rng, depth - 1)


def _object(rng: random.Random, depth: int) -> _Drawn:
    parts = {name: _value(rng, depth) for name in rng.sample(_NAMES, rng.randint(1, 4))}
    required = [name for name in parts if rng.random() < 0.7]
    schema = {
        "type": "object",
        "properties": {name: part[0] for name, part in parts.items()},
        "required": required,
        "additionalProperties": rng.random() < 0.3,
    }
    return schema, lambda: {
        name: draw() for name, (_, draw) in parts.items() if name in required or rng.random() < 0.5
    }


def _forced(start: Matcher, tokens: list[TokenId]) -> int:
    """Follow the answer, check every run against it, and count the forced tokens."""
    matcher, position, forced = start, 0, 0
    while position < len(tokens):
        run = matcher.forced_run(Forcing.CANONICAL)
        assert list(run) == tokens[position : position + len(run)]
        for token in run or tokens[position : position + 1]:
            matcher = matcher.advance(token)
            position += 1
        forced += len(run)
    assert matcher.is_accepting
    return forced


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_forced_token_is_the_tokenizers_own(name: str) -> None:
    """Over random schemas, and documents full of empty strings and quotes, which get joined."""
    compiler = compiler_of(name)
    rng = random.Random(7)
    total = forced = 0
    for _ in range(25):
        schema, draw = _object(rng, 2)
        start = compiler.start(JsonSchema(json.dumps(schema, ensure_ascii=False)))
        for _ in range(3):
            text = compact(draw()).decode()
            tokens = real_tokenizer(name).encode(text, add_special_tokens=False)
            if name == "llama2":  # puts a dummy space before every text; answers have none
                tokens = list(real_vocabulary(name).spell(text))
            forced += _forced(start, [TokenId(token) for token in tokens])
            total += len(tokens)
    assert forced > 0.2 * total


@pytest.mark.parametrize(
    ("name", "pattern", "run", "others"),
    [
        # Blanks are split according to the text after them.
        ("llama3", "Age:  [0-9]+", ["Age", ":", " ", " "], []),
        ("qwen3", "Age:  [0-9]+", ["Age", ":", " ", " "], []),
        ("smollm2", "Age:  [0-9]+", ["Age", ":", "  "], []),
        ("llama3", "a\n  [0-9]", ["a", "\n", " ", " "], []),
        ("llama3", "\t\t[0-9]", ["\t", "\t"], []),
        ("llama3", "a  (?:[0-9]|\n)", ["a"], ["a  1", "a  \n"]),
        ("llama3", "a  (?:b|c)", ["a", " "], ["a  b"]),
        ("llama3", "12(?:34|5)", [], ["1234", "125"]),
        # Tokens that begin inside of a character that is not certain.
        ("smollm2", "^x [一-龥]+$", ["x"], ["x 一", "x 龥"]),
        ("smollm2", "^Mood: [😀-😂]$", ["M", "ood", ":"], ["Mood: 😀"]),
        # An added token found in the text ends the piece before it.
        ("qwen3", "a  (?:<tool_call>|b)", ["a"], ["a  <tool_call>", "a  b"]),
        ("qwen3", "x<tool_cal(?:l>|k)", ["x"], ["x<tool_call>", "x<tool_calk"]),
        ("gemma3", "x\n(?:\n|y)", ["x"], ["x\n\n", "x\ny"]),
        ("llama2", "a▁(?:b|c)", ["a", *"▁".encode()], ["a▁b"]),
        # The choice between two equally good spellings depends on the text before them.
        ("built unigram", "x\\.\\.\\.", ["x"], ["x..."]),
        # Where spaces are written as a letter first, added tokens with the letter are found.
        ("built with fallback, added spaces", "in the", ["i", "n t", "h", "e"], ["in the"]),
        ("built with fallback, added spaces", "it   xe", ["it", "   x", "e"], ["it   xe"]),
        # A step splits by spaces before a letter is written for them.
        (
            "built with fallback, split spaces",
            "the name",
            ["th", "e ", "n", "am", "e"],
            ["the name"],
        ),
        # Whole words are tokens that no merges lead to, whether or not they have a space.
        ("built with fallback, whole words", "foo foo", ["foo", " foo"], ["foo foo"]),
        ("built with fallback, whole texts", "foo foo", ["foo foo"], ["foo foo"]),
        ("built with fallback, whole texts", "foo(?: foo)?", [], ["foo", "foo foo"]),
    ],
)
def test_a_run_is_what_all_answers_have_in_common(
    name: str, pattern: str, run: list[str | int], others: list[str]
) -> None:
    vocabulary = vocabulary_of(name)
    matcher = compiler_of(name).start(Regex(pattern))
    forced = matcher.forced_run(Forcing.CANONICAL)
    wanted = [bytes([part]) if isinstance(part, int) else part.encode() for part in run]
    assert [vocabulary.token_bytes[token] for token in forced] == wanted
    for text in others:
        assert tuple(vocabulary.spell(text)[: len(forced)]) == forced
    # The listed texts have not one more token in common.
    assert len(others) < 2 or len({vocabulary.spell(text)[len(forced)] for text in others}) > 1


@pytest.mark.parametrize(
    ("name", "run"),
    [
        # The word before the space has begun; or all of the text is one piece.
        ("built with fallback, whole words", ["f", "o", "o", " foo"]),
        ("built with fallback, whole texts", ["f", "o", "o", " ", "f", "o", "o"]),
    ],
)
def test_whole_pieces_are_looked_up_only_where_pieces_begin(name: str, run: list[str]) -> None:
    vocabulary = vocabulary_of(name)
    tokens = [TokenId(token) for token in vocabulary.spell("1foo foo")]
    forced = (
        compiler_of(name)
        .start(Regex("[12]foo foo"))
        .advance(tokens[0])
        .forced_run(Forcing.CANONICAL)
    )
    assert [vocabulary.token_bytes[token] for token in forced] == [part.encode() for part in run]
    assert [*forced] == tokens[1:]


@pytest.mark.parametrize("name", ["built unigram", "built whole unigram", "built with fallback"])
@pytest.mark.parametrize("text", ["a</s>b", "<unk>", "x<0x41>", "</s", "▁<s>", "<0x0A></s><unk>"])
def test_forced_text_that_looks_like_a_special_token_is_text(name: str, text: str) -> None:
    vocabulary = vocabulary_of(name)
    start = compiler_of(name).start(JsonSchema(json.dumps({"const": text})))
    tokens = [TokenId(token) for token in vocabulary.spell(compact(text).decode())]
    assert vocabulary.decode(tokens) == compact(text)
    assert _forced(start, tokens) > 0


@pytest.mark.parametrize(
    ("longer", "shorter"),
    [
        (AddedToken("a [x]b", special=True), "[x]"),
        (AddedToken("[x]b", rstrip=True, normalized=False), "[x]"),
        (AddedToken("<tool_call>b", lstrip=True), "<tool_call>"),
        (AddedToken("name", lstrip=True), "am"),  # which the model has as well
    ],
)
def test_added_tokens_are_found_in_longer_ones_that_are_not_used(
    longer: AddedToken, shorter: str
) -> None:
    tokenizer = BUILT["built like GPT-4"]()
    tokenizer.add_tokens([longer, AddedToken("am"), AddedToken("[last]")])
    vocabulary = vocabulary_from_tokenizer(loaded(tokenizer))
    text = json.dumps("a [x]b <tool_call>bc name [last]")
    tokens = [TokenId(token) for token in vocabulary.spell(text)]
    assert tokenizer.token_to_id(shorter) in tokens
    assert tokenizer.token_to_id("[last]") in tokens
    start = ConstraintCompiler(vocabulary).start(JsonSchema(f'{{"const": {text}}}'))
    assert _forced(start, tokens) == len(tokens)


def _with_unknown_split() -> Tokenizer:
    tokenizer = BUILT["built without splits"]()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Pattern("[.]+"), "merged_with_next"), tokenizer.pre_tokenizer]
    )
    return tokenizer


def _with_added_tokens_of_one_text() -> Tokenizer:
    tokenizer = BUILT["built with fallback"]()
    tokenizer.add_tokens([AddedToken("e n"), AddedToken("e▁n")])
    return tokenizer


@pytest.mark.parametrize("make", [_with_unknown_split, _with_added_tokens_of_one_text])
def test_of_a_tokenizer_that_spells_in_an_unknown_way_only_lone_tokens_are_forced(
    make: Callable[[], Tokenizer],
) -> None:
    vocabulary = vocabulary_from_tokenizer(loaded(make()))
    matcher = ConstraintCompiler(vocabulary).start(JsonSchema('{"const": "the name"}'))
    assert matcher.likely_run() == ()
    assert matcher.forced_run(Forcing.CANONICAL) == matcher.forced_run(Forcing.STRICT)


class _Part(bytes):
    """Part of a piece that another thread enters into a cache once it was looked up there."""

    speller: PieceSpeller
    num_asked = 0

    def __hash__(self) -> int:
        self.num_asked += 1
        if self.num_asked == 2:
            self.speller.spell_beginning(bytes(self))
        return super().__hash__()


class _VocabularyOfParts(Vocabulary):
    speller: PieceSpeller

    def decode(self, tokens: Iterable[TokenId]) -> bytes:
        part = _Part(super().decode(tokens))
        part.speller = self.speller
        return part


def test_a_part_that_another_thread_looks_up_at_the_same_time_is_known() -> None:
    known = vocabulary_of("built with fallback, whole texts")
    assert known.rules is not None
    vocabulary = _VocabularyOfParts(known.token_bytes, known.end_ids, known.spell, known.rules)
    speller = PieceSpeller(vocabulary, known.rules)
    vars(vocabulary)["speller"] = speller
    [token] = known.spell("foo foo")
    assert not speller.may_follow((), TokenId(token))  # it is never joined from its parts
