"""Patterns of Python's ``re``, held against ``re`` itself."""

from __future__ import annotations

import itertools
import re

import pytest

from guided.automata.dfa import dfa_from_regular
from guided.errors import GuidedError, InvalidConstraintError, UnsupportedFeatureError
from guided.frontends.regex.lazy import settled
from guided.frontends.regex.python import parse_python_regex

_PATTERNS = [
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
    dfa = dfa_from_regular(settled(parse_python_regex(pattern)))
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
    ],
)
def test_what_is_refused_is_refused_with_its_position(
    pattern: str, kind: type[GuidedError], position: int
) -> None:
    with pytest.raises(kind) as caught:
        parse_python_regex(pattern)
    assert getattr(caught.value, "position") == position  # noqa: B009 - both kinds have it
