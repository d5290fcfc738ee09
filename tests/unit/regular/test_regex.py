"""The regex front end: what matches, what does not, what is refused; Python's re as the oracle."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.errors import (
    GuidedError,
    InvalidConstraintError,
    LimitExceededError,
    UnsupportedFeatureError,
)
from guided.regular.dfa import dfa_from_regular
from guided.regular.patterns import parse_regex
from guided.runtime.work_budget import limited_work

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
    (r"^(?<\u0061\u{62}c>a)$", ["a"], ["b"]),
    (r"^(?<\ud835\udc9c>a)$", ["a"], ["b"]),
    (r"^\p{Lu}\P{L}$", ["É1"], ["é1", "ÉE"]),
    (r"^[\d\-x]$", ["1", "-", "x"], ["y"]),
    (r"^[a-]$", ["a", "-"], ["b"]),
    (r"^[\]\\]$", ["]", "\\"], ["["]),
    (r"^(?:ab)+?$", ["ab", "abab"], ["aba"]),
    (r"^(?<year>\d{4})-(?P<m>\d\d)$", ["2024-01"], ["202-01"]),
    ("^a{2}$", ["aa"], ["a", "aaa"]),
    ("^a{0000002}b{000,0003}$", ["aa", "aabbb"], ["a", "aabbbb"]),
    (r"^a+(?<=aa$)", ["aa", "aaa"], ["a", "aab"]),
    (r"^a(?<=a$|a.)b?$", ["a"], ["ab"]),
    ("^a{1,}$", ["a", "aaa"], [""]),
    ("^x{$", ["x{"], ["x"]),
    ("^[]$", [], ["", "a"]),
    ("^[^]$", ["a", "\n"], ["", "ab"]),
    (r"^[^\ud800-\udfff]$", ["a", "\ud7ff", "\ue000"], ["", "ab"]),
    (r"^[^\ud800]$", ["a"], ["", "ab"]),
    (r"^[\w-.]+$", ["a-.", "-"], ["a b"]),
    (r"^[\d-z]$", ["1", "-", "z"], ["b"]),
    (r"^\-\_\@\"$", ['-_@"'], ["-_@"]),
    (r"^\u{1F600}\0$", ["😀\0"], ["😀0"]),
    (r"^[\ud800-\ue000]$", ["\ue000"], ["\ue001"]),
    (r"^[\u{61}-\x63]{2}$", ["ac"], ["ad"]),
    (r"^\p{Uppercase_Letter}\p{gc=Nd}\p{General_Category=Letter}$", ["É٣é"], ["é٣é"]),
    (r"^\p{LC}\p{Punctuation}\p{ASCII}\p{Any}$", ["é!a😀"], ["中!a😀"]),
    (r"^\p{White_Space}\P{Assigned}\p{Hex}$", ["\u0085\u0378F"], ["\x1c\u0378F"]),
    (r"^\p{XID_Start}\p{XIDC}\p{Lower}\p{Upper}$", ["a1ªⅠ"], ["_1ªⅠ", "aaªª"]),
    (r"^\p{Script=Greek}\p{scx=Hira}\p{sc=Cyrl}$", ["αーя"], ["aーя", "αxя", "αーλ"]),
    (r"^\p{Alphabetic}\p{Emoji_Presentation}\P{ID_Start}$", ["ⓐ😀1"], ["1😀1", "a11", "a😀a"]),
    (r"^[\p{L}-]\p{Lu}]$", ["aA]", "-A]"], ["aA", "1A]"]),
    (r"^(?i:ab)C$", ["abC", "ABC", "aBC"], ["abc"]),
    (r"(?i)^straße|x$", ["STRAẞE", "Straße", "aX"], ["STRASSE", "x "]),
    (r"^(?i:k)(?i:\u212a)s$", ["KKs", "kks", "\u212aks"], ["kkS"]),
    (r"^(?i:\w)(?i:\W)$", ["\u017f-", "a-"], ["-a", "a\u017f"]),
    (r"(?i:\b)\u017f$", ["\u017f", "a-\u017f"], ["a\u017f"]),
    (r"^(?i:[^x])(?i:\P{Lu})$", ["yA", "1a"], ["xA", "Xa"]),
    (r"^(?i:a(?-i:b)c)$", ["abc", "AbC"], ["ABC"]),
    (r"^(?s:.).$", ["\na"], ["a\n"]),
    (r"^(?-s:.)(?s:.)$", ["a\n"], ["\na"]),
    (r"(?m:^a$)", ["a", "b\na", "a\r\nb", "\u2028a"], ["ba", "ab"]),
    (r"(?im)^a(?-m:$)", ["A", "\nA"], ["A\n", "BA"]),
    (r"(?i)(?s)^a.$", ["A\n"], ["b\n"]),
    (r"\bfoo\b", ["foo", "a foo!", "foo-é"], ["foo1", "afoo", "_foo"]),
    (r"^a\Bb$", ["ab"], ["a", "b"]),
    (r"^\B$", [""], ["a"]),
    (r"\b", ["a", " a"], ["", " ", "é"]),
    (r"a(?=b)", ["ab", "aab"], ["a", "ac", "ba"]),
    (r"a(?!b)", ["a", "ac", "aba"], ["ab", "b"]),
    (r"^(?!foo)", ["", "fo", "xfoo"], ["foo", "foobar"]),
    (r"^(?=.*\d)(?=.*[a-z])(?!.*-).{3,}$", ["a1b", "1bc"], ["abc", "123", "a1-", "a1"]),
    (r"^(?=.*\bcat\b)", ["cat", "a cat!"], ["cats", "a cats"]),
    (r"^(?!.*\bcat\b).+$", ["cats", "dog"], ["cat", "a cat!"]),
    (r"^(?=ab\b)a", ["ab", "ab c"], ["abc", "a"]),
    (r"^(?=b(?!a))", ["b", "bb"], ["ba", "a"]),
    (r"^(?!b(?!a))b", ["ba", "bab"], ["b", "bb"]),
    (r"^(?!.*(?:a\b|ab(?!c)|b)).*$", ["", "c", "ac"], ["a", "ab", "b", "cb"]),
    (r"^((?!foo).)*$", ["", "fofo"], ["foo", "xfoox"]),
    ("^\\0\u0663$", ["\0\u0663"], ["\0", "0\u0663"]),
    (r"(?<=a)b", ["ab", "xab"], ["b", "bb"]),
    (r"(?<!a)b", ["b", "abb", "cb"], ["ab", "a"]),
    (r"(?<=^|,)x", ["x", "a,x"], ["ax"]),
    ("(?<$first_1>a)b", ["ab"], ["b"]),
    (r"(?<=a+c?)b", ["ab", "aacb"], ["cb", "b"]),
    (r"^(?=a(?=b))ab", ["ab"], ["aa"]),
    (r"^a(?<=a(?=b))b$", ["ab"], ["aa", "a"]),
    (r"^(?:a(?!$))*b?$", ["", "ab", "aab"], ["a", "aa"]),
    (r"x(?=$)", ["x", "ax"], ["xa"]),
    (r"a$b|a^b|^$", [""], ["ab", "a"]),
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
    ("[b-a]", InvalidConstraintError, "wrong at character 1: the range 'b' to 'a' is out of order"),
    (r"\q", InvalidConstraintError, r"unknown escape '\\q'"),
    ("a\\", InvalidConstraintError, "ends in the middle of a term"),
    (r"\u12", InvalidConstraintError, "4 hexadecimal digits have to follow"),
    (r"\ud800", InvalidConstraintError, "is a surrogate"),
    ("(?=a", InvalidConstraintError, "wrong at character 0: unmatched '('"),
    ("(?=a)*", InvalidConstraintError, "wrong at character 5: nothing to repeat"),
    (r"\b+", InvalidConstraintError, "wrong at character 2: nothing to repeat"),
    ("a(?<!b$)", UnsupportedFeatureError, "'$' inside of a negative look-behind at character 1"),
    (r"\Aa\Z", UnsupportedFeatureError, "an anchor of another dialect (write ^) at character 0"),
    (r"(?<n>a)\k<n>", UnsupportedFeatureError, "uses a back reference at character 7"),
    (r"\07", UnsupportedFeatureError, "uses an octal escape at character 0"),
    (r"[\1]", UnsupportedFeatureError, "uses an octal escape at character 1"),
    (r"[\k]", InvalidConstraintError, r"unknown escape '\\k'"),
    (r"[\A]", InvalidConstraintError, r"unknown escape '\\A'"),
    (r"a(?<\u{2d}>x)", InvalidConstraintError, "character 1: the name of a group is not an"),
    (r"(?<\u{61>}>x)", InvalidConstraintError, "is not hexadecimal"),
    (r"[\ud800-\udfff]", UnsupportedFeatureError, "surrogates, which no text holds alone"),
    (r"\u{110000}", InvalidConstraintError, "'110000' is no code point"),
    ("\\u{" + "0" * 5000 + "110000}", InvalidConstraintError, "is no code point"),
    (r"\u{61", InvalidConstraintError, "is not hexadecimal"),
    (r"(a)\1", UnsupportedFeatureError, "uses a back reference at character 3"),
    ("a(?i)b", InvalidConstraintError, "at the start alone; write (?i:…) around what it is for"),
    ("(?<1a>x)", InvalidConstraintError, "character 0: the name of a group is not an identifier"),
    ("(?<>x)", InvalidConstraintError, "the name of a group is not an identifier"),
    ("(?<a", InvalidConstraintError, "the name of a group is not an identifier"),
    ("(?x:a)", InvalidConstraintError, "no flag 'x' for a part of a pattern"),
    ("a(?ii)", InvalidConstraintError, "wrong at character 1: each flag stands once"),
    ("(?-i)a", InvalidConstraintError, "are switched on, and at the start alone"),
    ("(?ii:a)", InvalidConstraintError, "wrong at character 0: each flag stands once"),
    ("(?i-i:a)", InvalidConstraintError, "wrong at character 0: each flag stands once"),
    ("(?-:a)", InvalidConstraintError, "wrong at character 0: each flag stands once, and one"),
    ("(?>a)", UnsupportedFeatureError, "an extension of another dialect at character 0"),
    ("b(?i", InvalidConstraintError, "wrong at character 1: a group whose flags do not end in ':'"),
    ("(?-", InvalidConstraintError, "wrong at character 0: a group whose flags do not end in ':'"),
    (r"[\p{L}--[a-z]]", InvalidConstraintError, "character 1: a range from or to a class; "),
    (r"a[\w&&[^\d]]", InvalidConstraintError, "wrong at character 11: unmatched ']'; "),
    (r"[a-z--[aeiou]]", InvalidConstraintError, "wrong at character 13: unmatched ']'; "),
    (r"\p{Greek}", InvalidConstraintError, r"no property 'Greek'; write \p{Script=Greek}"),
    (r"\p{Klingon}", InvalidConstraintError, "ECMA-262 knows no property 'Klingon'"),
    (r"\pL", InvalidConstraintError, "'{' has to follow"),
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


def test_an_error_shows_its_place_with_a_caret() -> None:
    with pytest.raises(InvalidConstraintError) as caught:
        parse_regex(r"é[\w--[a-z]]", pointer="/pattern")
    first, _, picture = str(caught.value).partition("\n\n")
    assert first.startswith("at /pattern: the pattern is wrong at character 2: a range")
    assert first.endswith(r"(?![a-z])\p{L}")
    assert picture == "é[\\w--[a-z]]\n  ^"
    assert caught.value.position == 2


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


def _in_python(pattern: str) -> str:
    """Python differs in ``$`` before a final line end, in ``.``, and in ``\\B`` of no text."""
    dot = r"[^\n\r\u2028\u2029]"
    return pattern.replace("$", r"\Z").replace(".", dot).replace(r"\B", r"(?!\b)")


_LOOKS = st.builds(
    "({}{})".format, st.sampled_from(["?=", "?!"]), st.one_of(_SEQUENCES, _PATTERNS)
) | st.builds(
    # Python looks behind for texts of one length only.
    "({}{})".format,
    st.sampled_from(["?<=", "?<!"]),
    st.lists(st.sampled_from(["a", "[bc]", ".", "^", r"\b"]), min_size=1, max_size=3).map("".join),
)
_CONDITIONS = st.builds(
    # At the start of the text; what they look for may end in look-around itself.
    "^({}{}{}){}".format,
    st.sampled_from(["?=", "?!"]),
    _PATTERNS,
    st.one_of(_LOOKS, st.sampled_from([r"\b", r"\B"])),
    _SEQUENCES,
)
_LOOKING = st.lists(
    st.one_of(_PATTERNS.map("(?:{})".format), _LOOKS, st.sampled_from([r"\b", r"\B"])),
    min_size=1,
    max_size=4,
).map("".join)


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(_PATTERNS, _LOOKING, st.builds("(?:{})*".format, _LOOKING), _CONDITIONS),
    st.lists(st.text("abcé\n", max_size=6), min_size=10, max_size=10),
)
def test_random_patterns_match_what_python_matches(pattern: str, texts: list[str]) -> None:
    in_python = _in_python(pattern)
    dfa = dfa_from_regular(parse_regex(pattern), search=True)
    dfa.check()
    for text in texts:
        expected = re.search(in_python, text, re.ASCII) is not None
        assert dfa.accepts(text) == expected, text


@settings(deadline=None, max_examples=100)
@given(_LOOKING, st.lists(st.text("abc", max_size=5), min_size=10, max_size=10))
def test_a_pattern_can_be_matched_with_the_whole_text(pattern: str, texts: list[str]) -> None:
    in_python = _in_python(pattern)
    dfa = dfa_from_regular(parse_regex(pattern))
    for text in texts:
        expected = re.fullmatch(in_python, text, re.ASCII) is not None
        assert dfa.accepts(text) == expected, text


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a|b)*a(a|b){20}",
        r"^(?:(?!(?:a|b)*a(a|b){20})[ab])*c$",
        r"^(?:a{1,1000}){1,1000}$",
        "(?!.*a" * 40 + ")" * 40,
        "x(?=.*a" * 40 + ")" * 40,
    ],
)
def test_a_pattern_that_takes_too_much_work_is_refused_and_does_not_hang(pattern: str) -> None:
    with pytest.raises(LimitExceededError), limited_work(400_000):
        dfa_from_regular(parse_regex(pattern), search=True)


def test_a_look_ahead_at_the_start_costs_no_more_than_its_parts() -> None:
    """Four requirements on a text of bounded length are four automata side by side."""
    pattern = r"^(?=.*[A-Z])(?=.*[a-z])(?=.*\d)(?=.*[!-/]).{8,64}$"
    dfa = dfa_from_regular(parse_regex(pattern), search=True)
    assert len(dfa) <= 16 * 65
    assert dfa.accepts("Passw0rd!")
    assert not dfa.accepts("Password!")


def test_a_text_with_none_of_many_words_takes_few_states() -> None:
    words = "foo|bar|qux|zip|mud|keg|jot|wax|lyn|hvc|dvd|elm|pst|rgy"
    with limited_work(200_000):
        dfa = dfa_from_regular(parse_regex(rf"^(?!.*(?:{words})).*$"), search=True)
    assert len(dfa) < 40
    assert dfa.accepts("foba")
    assert not dfa.accepts("a zip of")
