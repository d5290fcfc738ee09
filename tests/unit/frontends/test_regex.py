"""The regex front end: what matches, what does not, what is refused; Python's re as the oracle."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.automata.dfa import dfa_from_regular
from guided.errors import (
    GuidedError,
    InvalidConstraintError,
    LimitExceededError,
    UnsupportedFeatureError,
)
from guided.frontends.regex import parse_regex

_MATCHES = [
    ("", ["", "a"], []),
    ("^$", [""], ["a", "\n"]),
    ("a", ["a", "bab"], ["", "b"]),
    ("^a", ["a", "ab"], ["ba"]),
    ("a$", ["a", "ba"], ["ab", "a\n"]),
    ("a|^b$", ["xa", "b"], ["bb", "c"]),
    ("^(a|b$)", ["ax", "b"], ["bx"]),
    ("^[a-c]{2,3}$", ["ab", "abc"], ["a", "abca", "ad"]),
    ("^[^a]$", ["b", "é", "\n"], ["a", ""]),
    ("^.$", ["a", "\u0085"], ["\n", "\r", "\u2028"]),
    (r"^\d+$", ["0", "19"], ["٣", ""]),
    (r"^\w$", ["a", "_", "Z", "3"], ["é", "-"]),
    (r"^\s$", [" ", "\u00a0", "\ufeff"], ["a", "\u200b"]),
    (r"^\S\D\W$", ["ab-"], [" b-", "a1-", "abc"]),
    (r"^\u0041\x42\u{43}\cJ$", ["ABC\n"], ["ABCJ"]),
    (r"^\ud83d\ude00$", ["😀"], ["\ud83d"]),
    (r"^\p{Lu}\P{L}$", ["É1"], ["é1", "ÉE"]),
    (r"^[\d\-x]$", ["1", "-", "x"], ["y"]),
    (r"^[a-]$", ["a", "-"], ["b"]),
    (r"^[\]\\]$", ["]", "\\"], ["["]),
    (r"^(?:ab)+?$", ["ab", "abab"], ["aba"]),
    (r"^(?<year>\d{4})-(?P<m>\d\d)$", ["2024-01"], ["202-01"]),
    ("^a{2}$", ["aa"], ["a", "aaa"]),
    ("^a{1,}$", ["a", "aaa"], [""]),
    ("^x{$", ["x{"], ["x"]),
    ("^[]$", [], ["", "a"]),
    ("^[^]$", ["a", "\n"], ["", "ab"]),
]


@pytest.mark.parametrize(("pattern", "accepted", "rejected"), _MATCHES)
def test_a_pattern_is_searched_for_in_the_text(
    pattern: str, accepted: list[str], rejected: list[str]
) -> None:
    dfa = dfa_from_regular(parse_regex(pattern), search=True)
    dfa.check()
    assert [text for text in accepted if not dfa.accepts(text)] == []
    assert [text for text in rejected if dfa.accepts(text)] == []


_REFUSED: list[tuple[str, type[GuidedError], str]] = [
    ("a)", InvalidConstraintError, "wrong at character 1: unmatched ')'"),
    ("(a", InvalidConstraintError, "wrong at character 0: unmatched '('"),
    ("[a", InvalidConstraintError, "wrong at character 0: unmatched '['"),
    ("*a", InvalidConstraintError, "wrong at character 0: nothing to repeat before '*'"),
    ("a**", InvalidConstraintError, "wrong at character 2: nothing to repeat"),
    ("a{3,2}", InvalidConstraintError, "wrong at character 1: the bounds {3,2} are out of order"),
    ("a{,2}", InvalidConstraintError, "at character 1: the bounds of a repeat begin with a number"),
    ("a{" + "9" * 5000 + "}", LimitExceededError, "more than 20000"),
    ("[b-a]", InvalidConstraintError, "wrong at character 1: the range b-a is out of order"),
    (r"[\d-z]", InvalidConstraintError, "a range has a class of characters as its end"),
    (r"\q", InvalidConstraintError, r"unknown escape '\\q'"),
    ("a\\", InvalidConstraintError, "ends in the middle of a term"),
    (r"\u12", InvalidConstraintError, "4 hexadecimal digits have to follow"),
    (r"\ud800", InvalidConstraintError, "is a surrogate"),
    ("(?=a)", UnsupportedFeatureError, "uses look-ahead at character 0"),
    ("a(?!b)", UnsupportedFeatureError, "uses look-ahead at character 1"),
    ("(?<=a)b", UnsupportedFeatureError, "uses look-behind at character 0"),
    ("(?<!a)b", UnsupportedFeatureError, "uses look-behind at character 0"),
    (r"\bword", UnsupportedFeatureError, "uses a word boundary at character 0"),
    (r"(a)\1", UnsupportedFeatureError, "uses a back reference at character 3"),
    ("(?i)a", UnsupportedFeatureError, "a flag or an extension"),
    (r"\p{Greek}", UnsupportedFeatureError, "the property 'Greek'"),
    ("a{1,30000}", LimitExceededError, "repeats 30000 times at character 1, more than 20000"),
    ("(" * 200 + ")" * 200, LimitExceededError, "nested deeper than 100 at character 100"),
    ("a" * 30_000, LimitExceededError, "has 30000 characters, more than 20000"),
]


@pytest.mark.parametrize(("pattern", "kind", "message"), _REFUSED, ids=range(len(_REFUSED)))
def test_a_pattern_that_cannot_be_enforced_is_refused_with_its_position(
    pattern: str, kind: type[GuidedError], message: str
) -> None:
    with pytest.raises(kind, match=re.escape(message).replace(r"\\\\", r"\\")):
        parse_regex(pattern)


_ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", "(?:ab|c)", "^", "$", "é"])
_QUANTIFIERS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{0,2}", "{1,}"])


def _quantified(atom: str, quantifier: str) -> str:
    return atom if atom in "^$" else atom + quantifier


_TERMS = st.builds(_quantified, _ATOMS, _QUANTIFIERS)
_SEQUENCES = st.lists(_TERMS, max_size=4).map("".join)
_PATTERNS = st.recursive(
    _SEQUENCES,
    lambda inner: st.one_of(
        st.builds("({}|{})".format, inner, inner),
        st.builds("({}){}".format, inner, _QUANTIFIERS),
        st.builds("{}{}".format, inner, inner),
    ),
    max_leaves=4,
)


@settings(deadline=None, max_examples=300)
@given(_PATTERNS, st.lists(st.text("abcé\n", max_size=6), min_size=10, max_size=10))
def test_random_patterns_match_what_python_matches(pattern: str, texts: list[str]) -> None:
    """ECMA-262 and Python agree here but for ``$`` before a final line end and for ``.``."""
    in_python = pattern.replace("$", r"\Z").replace(".", r"[^\n\r\u2028\u2029]")
    dfa = dfa_from_regular(parse_regex(pattern), search=True)
    dfa.check()
    for text in texts:
        assert dfa.accepts(text) == (re.search(in_python, text) is not None), text
