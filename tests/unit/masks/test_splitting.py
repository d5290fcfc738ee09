"""How texts are split into pieces, and the possible splits while a text continues."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, models, normalizers
from tokenizers import pre_tokenizers as steps

from guided.masks.huggingface_rules import splitting_of
from guided.masks.split_pattern import UnknownPatternError, program_of
from guided.masks.splitting import Splitting, SplitUncertainError

_LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_GPT_4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEEPSEEK_3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _split(pattern: str, behavior: str = "isolated") -> steps.PreTokenizer:
    return steps.Split(Regex(pattern), behavior)


def _letters(*, use_regex: bool) -> steps.PreTokenizer:
    return steps.ByteLevel(add_prefix_space=False, use_regex=use_regex)


_TOKENIZERS: dict[str, list[steps.PreTokenizer]] = {
    "GPT-2": [_letters(use_regex=True)],
    "SmolLM2": [steps.Digits(individual_digits=True), _letters(use_regex=True)],
    "Llama 3": [_split(_LLAMA_3)],
    "GPT-4o": [_split(_GPT_4O)],
    "DeepSeek 3": [_split(r"\p{N}{1,3}"), _split("[一-龥\u0800-一가-퟿]+"), _split(_DEEPSEEK_3)],
    "digits and signs": [steps.Digits(), steps.Punctuation(), steps.Punctuation("contiguous")],
    "lines": [_split(r"[^\n]*\n"), _split("ab|a(?=b)b?|c{2,3}")],
    "any case": [_split(r"(?i:a(?!b)|s(?=t)|[bc]+(?=s))")],
    "spaces": [steps.Split(" ", "isolated")],
    "words": [steps.Metaspace(prepend_scheme="never")],
    "spaces, then words": [
        steps.Split("T ", "isolated"),
        steps.Split(" ", "isolated"),
        steps.Metaspace(prepend_scheme="never"),
    ],
    "Llama 3, then words": [_split(_LLAMA_3), steps.Metaspace(prepend_scheme="never")],
    "words, then others": [
        steps.Metaspace(prepend_scheme="never"),
        steps.Digits(),
        steps.Punctuation(),
        steps.Split("b", "merged_with_next"),
        steps.Split(" ", "isolated"),
    ],
}
_WHOLE = steps.Metaspace(prepend_scheme="never", split=False)
_SIGNS = "aabbcsStTé名前 \u0301  \n\n\r\t\xa0\u3000\x1f017٣²½Ⅷ'’\"!,:/{}-_😀\u200dİſ"


@cache
def _splitting(name: str) -> Splitting:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = steps.Sequence(_TOKENIZERS[name])
    description: dict[str, Any] = json.loads(tokenizer.to_str())
    splitting = splitting_of(description, "▁" if "words" in name else None)
    assert splitting is not None
    return splitting


def _own_cuts(name: str, text: str) -> tuple[int, ...]:
    found = steps.Sequence(_TOKENIZERS[name]).pre_tokenize_str(text)
    # A character of several bytes has a letter for each of them.
    return tuple(sorted({begin for _, (begin, _) in found} - {0}))


def _drawn_texts(name: str, count: int) -> list[str]:
    rng = random.Random(f"splitting {name}")
    return ["".join(rng.choices(_SIGNS, k=rng.randint(1, 14))) for _ in range(count)]


@pytest.mark.parametrize("name", _TOKENIZERS)
def test_a_text_is_split_as_the_tokenizer_splits_it(name: str) -> None:
    for text in _drawn_texts(name, 1500):
        assert _splitting(name).cuts(text) == _own_cuts(name, text), text


@pytest.mark.parametrize("name", _TOKENIZERS)
def test_the_possible_cuts_of_a_beginning_hold_those_of_all_texts(name: str) -> None:
    splitting, uncertain = _splitting(name), 0
    for text in _drawn_texts(name, 500):
        cuts = _own_cuts(name, text)
        for size in range(1, len(text)):
            try:
                possible = splitting.possible_cuts(text[:size])
            except SplitUncertainError:
                uncertain += 1
                continue
            kept = tuple(cut for cut in cuts if cut <= size)
            # An open piece may as well end with the text.
            assert kept in possible or (kept[:-1] in possible and kept[-1:] == (size,)), (
                text,
                size,
            )
    assert uncertain == 0 or name in ("DeepSeek 3", "any case", "lines", "spaces, then words")


@pytest.mark.parametrize("name", _TOKENIZERS)
def test_texts_of_one_left_context_leave_the_same_possible_cuts(name: str) -> None:
    splitting = _splitting(name)
    by_context: dict[object, str] = {}
    for text in _drawn_texts(name, 300):
        for size in range(1, len(text)):
            try:
                context, begin = splitting.left_context(text[:size])
                other = by_context.setdefault(context, text[begin:size])
            except SplitUncertainError:
                continue
            rest = text[size:]
            own, its = (splitting.cuts(before + rest) for before in (text[:size], other))
            assert _behind(own, size) == _behind(its, len(other)), (text, size, other)
    assert len(by_context) < 400


def _behind(cuts: tuple[int, ...], place: int) -> list[int]:
    return [cut - place for cut in cuts if cut > place]


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ("ab", [()]),
        ("ab ", [(2,)]),
        ("ab  ", [(2,), (2, 3)]),
        ("ab\n  ", [(2,), (2, 3), (2, 3, 4)]),
        ("it's", [(2,)]),
        ("it'l", [(2,)]),
        ("12345", [(3,)]),
    ],
)
def test_possible_cuts_of_llama_3(text: str, possible: list[tuple[int, ...]]) -> None:
    assert _splitting("Llama 3").possible_cuts(text) == possible


_UNKNOWN = (
    r"a++ a+? \ba ^a a$ . (?<=a)b (?<n>a) (a)\1 (?i:ss) [a (a a{,3} a{3,2} [[:alpha:]] a) (?i:é) *a"
    r" (?i:s(?:s)) (?i:(?:s)s) (?i:(?:as)s) (?i:(?:f)(?:i)) (?i:(?:a|s)t) a{٣} a{２,}"
)
_MAY_BE_EMPTY = "a* a?b* a*|b (?=[A-Z]) (?:(?!a))*"
_TOO_LARGE = ("(" * 20_000 + "a" + ")" * 20_000, "a{20000000}", "(?:){20000000}a")


@pytest.mark.parametrize("pattern", [*_UNKNOWN.split(), *_MAY_BE_EMPTY.split(), *_TOO_LARGE])
def test_what_is_not_known_of_a_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(UnknownPatternError):
        program_of(pattern)


@pytest.mark.parametrize(
    "unknown",
    [
        [steps.Whitespace()],
        [steps.Split(Regex("a+"), "merged_with_next")],
        [steps.Split(Regex("a+"), "isolated", invert=True)],
        [_letters(use_regex=False), steps.Digits()],
        [steps.UnicodeScripts()],
    ],
)
def test_nothing_is_told_of_other_steps(unknown: list[steps.PreTokenizer]) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = steps.Sequence(unknown)
    assert splitting_of(json.loads(tokenizer.to_str()), None) is None


@pytest.mark.parametrize(
    ("letter", "unknown"),
    [
        ("▁", [steps.Split("▁", "isolated")]),
        ("▁", [steps.Split("▁t", "isolated")]),
        ("▁", [steps.Split("▁", "merged_with_next")]),
        ("▁", [_split("[a-z]+")]),
        ("_", [steps.Punctuation()]),
        ("1", [steps.Digits()]),
        ("_", [steps.Metaspace("▁", prepend_scheme="never")]),
        ("<>", [steps.Split(">a", "isolated")]),
        (None, [_WHOLE, steps.Split("▁", "isolated")]),
        (None, [_WHOLE, _split("[a-z]+")]),
        (None, [steps.Split(" ", "merged_with_previous"), _WHOLE]),
        (None, [steps.Split("b", "merged_with_previous"), _WHOLE]),
    ],
)
def test_nothing_is_told_of_steps_that_see_a_letter_for_spaces(
    letter: str | None, unknown: list[steps.PreTokenizer]
) -> None:
    """It is written in the normalizer, or else by a Metaspace step."""
    tokenizer = Tokenizer(models.BPE())
    if letter is not None:
        tokenizer.normalizer = normalizers.Replace(" ", letter)
    tokenizer.pre_tokenizer = steps.Sequence(unknown)
    assert splitting_of(json.loads(tokenizer.to_str()), letter or "▁") is None
