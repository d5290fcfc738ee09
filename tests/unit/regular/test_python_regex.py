"""Patterns of Python's ``re``, compared with ``re`` itself."""

from __future__ import annotations

import itertools
import re

import pytest

from guided.errors import (
    ConstraintError,
    GuidedError,
    InvalidConstraintError,
    UnsupportedFeatureError,
)
from guided.grammar.one_terminal import lower_regex
from guided.regular.dfa import dfa_from_regular
from guided.regular.patterns.python import parse_python_regex
from guided.regular.patterns.terminal_edges import without_lazy
from guided.runtime.work_budget import limited_work
from guided.spec import Regex

_EVERYDAY = [
    "ab|ac|b",
    "a|[b-d]|e",
    "|a",
    "()a(?:b)?",
    "a*b+?c??",
    "a{2}b{1,}c{,3}d{2,3}?",
    r"[+-]?[^\]a-]",
    r"[\w-][\]\-.]",
    r"\.\ \/\_\n\t\v\f\r\a",
    r"\d\D\s\S\w\W",
    r"\x41[\x42-\u00e9]\u20ac",
    "(?!ab|c(?=d))..",
    "é-,:#",
]
_PATTERNS = [
    *((pattern, 0) for pattern in _EVERYDAY),
    ("a|ab*", 0),
    ("[^a-c]x?", 0),
    (r"\d+\.\d{2,3}", 0),
    (r"\w\s\W", 0),
    (r"[\w.]+@\w+", 0),
    (r"(?:ab){,2}", 0),
    (r"(?i:aß)b", 0),
    ("[a-k]+", re.IGNORECASE),
    ("[^k]", re.IGNORECASE),
    ("ſ|µ|i", re.IGNORECASE),
    ("[A-Z]{1,2}", re.IGNORECASE | re.ASCII),
    (r"\w+", re.ASCII),
    (r"(?a)\w(?u:\w)", 0),
    (r"(?a:\w)(?u:\w(?a:\w))", 0),
    (".", 0),
    (".+", re.DOTALL),
    ("a b # c\n | c", re.VERBOSE),
    (r"(?s:.)\n", 0),
    (r"(?P<name>a)(?#c)b", 0),
    (r"a(?=b)\w+", 0),
    (r"\w+(?<!b)c", 0),
    (r"(?!ab)\w\w", 0),
    (r"(?!(a|ab)(?!b))\w+|1", 0),
    (r"(?=ab?(?=b))(?!.b)\w+", 0),
    (r"(?!a(?!b)|b)\w*", 0),
    (r"a\bb|a\Bb", 0),
    (r"[]^-]+", 0),
    (r"\x41\u00e9\N{BULLET}|\101", 0),
    ("(?!)|a", 0),
]
_CHARACTERS = "abckABCKé.@ \n1Kß٣ſσΣsµιİı_"


def _texts() -> list[str]:
    short = ["".join(text) for n in range(3) for text in itertools.product(_CHARACTERS, repeat=n)]
    return [
        *short,
        "a@bc",
        "1.25",
        "1.255",
        "ababab",
        "aßB",
        "Aé•",
        "ab.c@abc",
        "abcab",
        "]^-",
        "aSSb",
    ]


@pytest.mark.parametrize(("pattern", "flags"), _PATTERNS)
def test_a_pattern_has_the_texts_that_match_as_a_whole(pattern: str, flags: int) -> None:
    dfa = dfa_from_regular(parse_python_regex(pattern, flags))
    compiled = re.compile(pattern, flags)
    for text in _texts():
        assert dfa.accepts(text) == bool(compiled.fullmatch(text)), text


@pytest.mark.parametrize(
    ("pattern", "flags", "texts"),
    [
        (r"\d", 0, {"1"}),
        (r"[\da]", 0, {"1", "a"}),
        (r"\d", re.ASCII, {"1"}),
        (r"(?i)(?:\d)", 0, {"1"}),
        (r"(?u)\d", 0, {"1", "٣"}),
        (r"(?iu)\d", 0, {"1", "٣"}),
        (r"(?i)(?u)\d", 0, {"1", "٣"}),
        (r"(?u:\d)", 0, {"1", "٣"}),
        (r"(?u:\d(?a:\d?))", 0, {"1", "٣"}),
        (r"\d", re.UNICODE, {"1", "٣"}),
        # Whatever is let through matches in Python.
        (r"\D", 0, {"a"}),
        (r"[^\d]", 0, {"a"}),
        (r"(?!\d).", 0, {"a"}),
        (r"(?=\d).", 0, {"1", "٣"}),
        (r"(?=\d)\w", re.ASCII, {"1"}),
        (r".(?<!\d)", 0, {"a"}),
        (r"\w", 0, {"1", "٣", "a"}),
    ],
)
def test_digits_are_those_of_all_scripts_only_where_that_is_said(
    pattern: str, flags: int, texts: set[str]
) -> None:
    dfa = dfa_from_regular(parse_python_regex(pattern, flags))
    assert {text for text in ("1", "٣", "a") if dfa.accepts(text)} == texts
    assert all(re.fullmatch(pattern, text, flags) for text in texts)


_ANCHORED = [
    (r"\B", 0),
    (r"\B.?\B", 0),
    (r"\B|(?!\b)", 0),
    (r"(?=\B)a?", 0),
    (r"\b", 0),
    (r"(?m)^a$|^\n^$", 0),
    (r"(?:a$\n?^)*", re.MULTILINE),
    (r"\Aa$\n", re.MULTILINE),
    (r"(?:^|a)b?\Z", re.MULTILINE),
    ("(?:^a$)?\n?", 0),
    ("^a$|^b$", 0),
    ("^^a\n$$", 0),
    (r"(?m)\A^a\n$\Z", 0),
    ("^$", 0),
    ("^$\n", 0),
    (r"(?i)[^k]ß?|(?-i:K)", 0),
]


@pytest.mark.parametrize(("pattern", "flags"), _ANCHORED)
def test_anchors_and_boundaries_are_those_of_this_python(pattern: str, flags: int) -> None:
    """``\\B`` in the empty text has another meaning since 3.14, so ``re`` itself is the judge."""
    dfa = dfa_from_regular(parse_python_regex(pattern, flags, anchored=True))
    compiled = re.compile(pattern, flags)
    for text in (*_texts(), "a\na", "\n\n", "a\na\n", "b\n"):
        assert dfa.accepts(text) == bool(compiled.fullmatch(text)), text


@pytest.mark.parametrize(
    "pattern", [r"\B", r"a?\B", r"\Ba?", r"\B.?\B", r"(?=\B)a?", r"(?:a\B)?a?"]
)
def test_boundaries_of_a_terminal_are_those_of_this_python(pattern: str) -> None:
    dfa = dfa_from_regular(parse_python_regex(pattern))
    for text in _texts():
        assert dfa.accepts(text) == bool(re.fullmatch(pattern, text)), text


def test_anchors_at_both_ends_cost_nothing() -> None:
    """``$`` inside is look-around, as it also matches before a last line feed."""
    with limited_work(50_000):
        dfa = dfa_from_regular(parse_python_regex("^(?:a?){300}$", 0, anchored=True))
    assert dfa.accepts("a" * 300)
    assert not dfa.accepts("a" * 301)
    assert not dfa.accepts("a\n")


def test_the_end_of_the_text_is_refused_where_it_would_be_known_too_late() -> None:
    """Whether the negative look-behind holds depends on what follows."""
    for pattern in (r"a(?<!a$)", r"(?:.(?<!a\Z))*", r"(?m)a(?<!a$)\n?", r"a(?<=b|(?<!c$))"):
        with pytest.raises(UnsupportedFeatureError, match="the end of the text inside of a negat"):
            parse_python_regex(pattern, 0, anchored=True)
    for pattern in (r"a(?<=a$)", r"a?(?<=a\Z|b)", r"a(?!(?<=a$))b?"):
        dfa = dfa_from_regular(parse_python_regex(pattern, 0, anchored=True))
        for text in ("", "a", "ab", "aa", "b"):
            assert dfa.accepts(text) == bool(re.fullmatch(pattern, text)), text


_LAZY = [
    '"a*?"',
    '".*?"',
    r'".*?(?<!\\)(\\\\)*?"',
    r"/\*(.|\n)*?\*/",
    "a+?b",
    "a{1,3}?a",
    "(?:a*?b){2}",
    "(?:a*?b)*c",
    "(?:a+?|b)*?c",
    "a??b",
]


@pytest.mark.parametrize("pattern", _LAZY)
def test_a_lazy_repeat_ends_as_soon_as_it_can(pattern: str) -> None:
    """A text counts if the matcher stops at its end and not before."""
    dfa = dfa_from_regular(without_lazy(parse_python_regex(pattern)))
    compiled = re.compile(pattern)
    for length in range(8):
        for letters in itertools.product('ab"\\' if '"' in pattern else "abc/*"[:4], repeat=length):
            text = "".join(letters)
            found = compiled.match(text)
            assert dfa.accepts(text) == bool(found and found.end() == len(text)), text


@pytest.mark.parametrize(
    ("pattern", "kind", "position"),
    [
        (r"ab\1", InvalidConstraintError, 3),
        (r"(a)b\1", UnsupportedFeatureError, 4),
        (r"(?P<x>a)(?P=x)", UnsupportedFeatureError, 8),
        ("(?>a)b", UnsupportedFeatureError, 0),
        ("ba*+", UnsupportedFeatureError, 2),
        ("a$", UnsupportedFeatureError, 1),
        ("a(b", InvalidConstraintError, 1),
        ("[b-a]", InvalidConstraintError, 1),
        ("(?a)(?u)x", InvalidConstraintError, 0),
    ],
)
def test_what_is_refused_is_refused_with_its_position(
    pattern: str, kind: type[GuidedError], position: int
) -> None:
    with pytest.raises(kind) as caught:
        parse_python_regex(pattern)
    assert getattr(caught.value, "position") == position  # noqa: B009 - both kinds have it


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a[b", "unterminated character set at character 1 of the pattern\n\na[b\n ^"),
        (
            r"(a)\1",
            "a back reference at character 3 of the pattern is not supported; "
            "write the pattern without it\n\n(a)\\1\n   ^",
        ),
    ],
)
def test_an_error_of_a_constraint_shows_its_place_with_a_caret(pattern: str, message: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        lower_regex(Regex(pattern))
    assert str(caught.value) == message
    assert caught.value.position == message.rpartition("\n")[2].index("^")
