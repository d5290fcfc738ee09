"""Whether texts fit constraints, and where they stop fitting."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.constraint.reading import read_text
from guided.errors import InvalidConstraintError, LimitExceededError
from guided.masks.limits import ConstraintLimits
from guided.spec import (
    Choice,
    Ebnf,
    JsonOptions,
    JsonSchema,
    Lark,
    Regex,
    RegexDialect,
    Structure,
    TextFit,
    TextReport,
)
from guided.spec.composition import Template

COMPLETE, PREFIX, REFUSED = TextFit.COMPLETE, TextFit.PREFIX, TextFit.REFUSED
PERSON = JsonSchema(
    '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}},'
    ' "required": ["name"], "additionalProperties": false}'
)


@pytest.mark.parametrize(
    ("constraint", "text", "fit", "offset", "allowed", "may_end", "shortest_completion"),
    [
        (PERSON, '{"name":"Ada"}', COMPLETE, 14, b"", True, b""),
        (PERSON, "", PREFIX, 0, b"{", False, b'{"name":""}'),
        (PERSON, '{"name":"Ada', PREFIX, 12, b'"', False, b'"}'),
        (PERSON, '{"name":"Adam"}', REFUSED, 12, b'"', False, b'"}'),
        (PERSON, '{"age":3}', REFUSED, 2, b"n", False, b'name":""}'),
        (PERSON, '{"name":"Ada"}\n', REFUSED, 14, b"", True, b""),
        (Regex("(ab)*"), "abab", COMPLETE, 4, b"a", True, b""),
        (Regex("(ab)*"), "aba", PREFIX, 3, b"b", False, b"b"),
        (Choice(["é", "è!"]), "éx", REFUSED, 2, b"", True, b""),
        (Choice(["é", "è!"]), "à", REFUSED, 1, b"\xa8\xa9", False, b"\xa9"),
        (Lark('start: "(" start ")" | "x"'), "((x)", PREFIX, 4, b")", False, b")"),
        (Ebnf('root ::= "a" [0-9]+'), "a1b", REFUSED, 2, b"0123456789", True, b""),
        (Template("<{n}>", n=JsonSchema('{"const": 7}')), "<8>", REFUSED, 1, b"7", False, b"7>"),
    ],
)
def test_a_text_is_followed_to_where_it_leaves(
    constraint: Structure,
    text: str,
    fit: TextFit,
    offset: int,
    allowed: bytes,
    may_end: bool,
    shortest_completion: bytes,
) -> None:
    found = read_text(constraint, text.encode())
    assert found == TextReport(fit, offset, allowed, may_end, shortest_completion)


def test_white_space_counts_as_the_options_say() -> None:
    spaced = b'{ "name": "Ada" }'
    assert read_text(PERSON, spaced).fit is REFUSED
    free = JsonSchema(PERSON.text, JsonOptions(whitespace=1))
    assert read_text(free, spaced).fit is COMPLETE


def test_a_long_text_leaves_where_it_does_whatever_the_chunks() -> None:
    constraint = Regex("a*b")
    for length in (255, 256, 257, 1000):
        assert read_text(constraint, b"a" * length + b"b").fit is COMPLETE
        assert read_text(constraint, b"a" * length).fit is PREFIX
        assert read_text(constraint, b"a" * length + b"c").offset == length


_PATTERNS = ("a*b", "(ab|a)*", "[ab]{2,4}c?", "(a|b)*abb", "a(b|c)+a?")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(_PATTERNS), st.text("abc", max_size=6))
def test_readings_are_those_of_the_module_re(pattern: str, text: str) -> None:
    constraint = Regex(pattern)
    found = read_text(constraint, text.encode())
    assert (found.fit is COMPLETE) == (re.fullmatch(pattern, text) is not None)
    # Fitting texts can be completed as reported, and exactly the reported bytes are allowed.
    fitting = text.encode()[: found.offset]
    assert re.fullmatch(pattern, (fitting + found.shortest_end).decode())
    for byte in b"abc":
        following = read_text(constraint, fitting + bytes((byte,)))
        assert (following.fit is not REFUSED) == (byte in found.allowed)


def test_a_long_text_that_has_to_be_remembered_is_bounded() -> None:
    """Distinct items are kept while they are written, and copied with each byte."""
    options = JsonOptions(max_string_length=None)
    schema = JsonSchema('{"items": {"type": "string"}, "uniqueItems": true}', options)
    limits = ConstraintLimits(step_work=200_000)
    assert read_text(schema, b'["' + b"a" * 20_000 + b'"]', limits).fit is COMPLETE
    with pytest.raises(LimitExceededError, match="reading the text takes more than"):
        read_text(schema, b'["' + b"a" * 90_000 + b'"]', limits)


def test_the_work_for_a_text_is_bounded() -> None:
    """Work along the way counts, and not only that of the constraint itself."""
    limits = ConstraintLimits(step_work=1_000)
    schema = JsonSchema('{"items": {"pattern": "^(a|b)*a(a|b){9}$"}}')
    with pytest.raises(LimitExceededError, match="reading the text takes more than"):
        read_text(schema, b'["' + b"ab" * 20 + b'"]', limits)


@pytest.mark.parametrize(
    ("constraint", "position"),
    [
        (Regex("b|a\ud800"), 3),
        (Regex("b|[\udfff]"), 3),
        (Regex(r"b|a\ud800"), 3),
        (Regex(r"b|\ud800"), 2),
        (Regex(r"b|\\\ud800"), 4),
        (Regex(r"(?i)b|[a\ud83d\ude00]"), 8),
        (Regex(r"b|[\ud800-\udfff]"), 3),
        (Regex("b|a\ud800", dialect=RegexDialect.ECMA), 3),
        (Regex(r"b|a\ud800", dialect=RegexDialect.ECMA), 3),
        (Lark('start: "b" | "a\ud800"'), 15),
        (Lark(r'start: "b" | "a\ud800"'), 13),
        (Lark("start: /b|a\ud800/"), 11),
        (Lark(r"start: /b|a\ud800/"), 7),
        (Lark(r'start: "b" | "\ud800".."\udfff"'), 13),
        (Lark(r"start: /b|\ud800/"), 7),
        (Lark("%import a.b\nstart: b", imports=(("a", 'b: "\ud800"'),)), 4),
        (Ebnf('root ::= "b" | "a\ud800"'), 17),
        (Ebnf(r'root ::= "b" | "a\ud800"'), 17),
        (Ebnf(r'root ::= "b" | [a\ud800]'), 15),
        (Ebnf('root ::= "b" # \ud800'), 15),
        (Choice(["b", "a\ud800"]), 1),
    ],
)
def test_half_of_a_surrogate_pair_is_refused_with_its_place(
    constraint: Structure, position: int
) -> None:
    """No text has one, so what is beside it would be all that is left of the constraint."""
    with pytest.raises(InvalidConstraintError, match="surrogate") as refused:
        read_text(constraint, b"b")
    assert refused.value.position == position
    assert str(refused.value).encode()  # such an error can be printed and sent
