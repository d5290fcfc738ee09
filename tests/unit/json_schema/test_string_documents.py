"""Strings that schemas accept and reject."""
# ruff: noqa: E501 (a table has one case a line)

from __future__ import annotations

import pytest

from guided.spec import JsonOptions
from tests.unit.json_schema.documents import Row, accepts, assert_row, machine_of

_LETTERS = "é" * 60

ROWS: list[Row] = [
    ({"type": "string"}, '"" "a" "é" "😀" "\\n" "\\"" "\\\\" "\\u0001" "/"', 'a "a ""a 1 null [] \'a\''),
    ({"type": "string"}, '"\x7f" "\\b" "\\f" "\\t" "\\r"', '"\n" "\x01" "\\/" "\\u0061" "\\u000a" "\\x"'),
    ({"type": "string"}, '"\u2028" "\uffff"', '"\\ud83d\\ude00" "\\ud800" "\\u00e9" "\\'),
    # Lengths are counted in code points, not in bytes or in letters of their spelling.
    ({"type": "string", "minLength": 2}, '"ab" "éé" "😀😀" "\\n\\n"', '"" "a" "é" "😀" "\\n"'),
    ({"type": "string", "maxLength": 2}, '"" "ab" "😀😀" "\\n\\""', '"abc" "😀😀😀" "\\n\\n\\n"'),
    ({"type": "string", "minLength": 2, "maxLength": 2}, '"ab" "\\"\\""', '"a" "abc" "\\""'),
    ({"type": "string", "maxLength": 0}, '""', '"a" "\\n"'),
    ({"type": "string", "minLength": 60}, f'"{_LETTERS}" "{_LETTERS}é"', f'"{_LETTERS[1:]}" ""'),
    ({"type": "string", "maxLength": 60}, f'"{_LETTERS}" ""', f'"{_LETTERS}é" "{_LETTERS}\\n"'),
    ({"type": "string", "minLength": 60, "maxLength": 60}, f'"{_LETTERS}"', f'"{_LETTERS[1:]}"'),
    # A pattern may be found anywhere.
    ({"type": "string", "pattern": "b"}, '"b" "abc" "ab"', '"" "a" "B"'),
    ({"type": "string", "pattern": "^a+$"}, '"a" "aaa"', '"" "b" "ab" "ba"'),
    ({"type": "string", "pattern": "^[0-9]{3}-[a-f]$"}, '"123-a"', '"12-a" "1234-a" "123-g" "123-"'),
    ({"type": "string", "pattern": '^"$'}, '"\\""', '"" "a"'),
    ({"type": "string", "pattern": "^(ab|abc)$"}, '"ab" "abc"', '"a" "abcd"'),
    ({"type": "string", "pattern": "^a*$", "minLength": 2}, '"aa" "aaa"', '"a" "" "aab"'),
    ({"type": "string", "pattern": "^a*$", "maxLength": 2}, '"" "a" "aa"', '"aaa" "b"'),
    ({"type": "string", "pattern": "^(ab)*$", "minLength": 3}, '"abab"', '"ab" "aba" "abb"'),
    ({"type": "string", "pattern": "^(aaa|€€)$", "maxLength": 2}, '"€€"', '"aaa" "€"'),
    ({"type": "string", "pattern": "^[b-z]*(aaaa|€€)$", "maxLength": 3}, '"€€" "b€€"', '"aaaa" "bb€€"'),
    ({"type": "string", "pattern": "^(ab(ccc)*|x)$", "maxLength": 4, "not": {"enum": ["ab"]}}, '"x"', '"ab" "abccc"'),
    ({"type": "string", "pattern": "^(ab)*$", "maxLength": 3}, '"" "ab"', '"aba" "abab"'),
    ({"type": "string", "pattern": "^a*$", "minLength": 50}, f'"{"a" * 50}"', f'"{"a" * 49}" ""'),
    ({"pattern": "^a$"}, '"a" 1 null [] {}', '"b" ""'),
    ({"minLength": 1}, '"a" 0 [] {} true', '""'),
    # Listed strings.
    ({"const": "a"}, '"a"', '"b" "" "aa" 1 null'),
    ({"const": ""}, '""', '"a" null'),
    ({"enum": ["red", "green", "grey"]}, '"red" "green" "grey"', '"gr" "reds" "gree" "blue" ""'),
    ({"enum": ["a", "ab", "abc"]}, '"a" "ab" "abc"', '"" "abcd" "b"'),
    ({"enum": ['"', "\\", "\n", "é"]}, '"\\"" "\\\\" "\\n" "é"', '"" "\\u000a" "\\u00e9"'),
    ({"enum": ["a", 1, None]}, '"a" 1 null', '"1" "null" true 2'),
    ({"enum": ["a", "b", "ab"], "maxLength": 1}, '"a" "b"', '"ab"'),
    ({"enum": ["a", "b", "ab"], "pattern": "b"}, '"b" "ab"', '"a"'),
    ({"enum": ["a", "b"], "not": {"const": "a"}}, '"b"', '"a"'),
    ({"type": "string", "enum": [1, "a", "b"]}, '"a" "b"', '1 "1"'),
    ({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]}, '"b"', '"a" "c"'),
    # Combinations.
    ({"allOf": [{"pattern": "a"}, {"pattern": "b"}], "type": "string"}, '"ab" "ba" "xaxbx"', '"a" "b" ""'),
    ({"type": "string", "not": {"pattern": "a"}}, '"" "b"', '"a" "ba"'),
    ({"type": "string", "not": {"const": "a"}}, '"" "b" "aa"', '"a"'),
    ({"type": "string", "not": {"enum": ["a", "ab"]}}, '"" "b" "abc" "aa"', '"a" "ab"'),
    # Any character may follow the beginning of a listed string, one that is always escaped too.
    ({"type": "string", "not": {"enum": ["a", "ab"]}}, '"\\u0001" "a\\u0001" "a\\n"', '"a" "ab"'),
    ({"type": "string", "not": {"enum": ["a\x01", "a\x1f"]}}, '"\\u0001" "a\\u0002" "a\\u001e" "a\\n"', '"a\\u0001" "a\\u001f" "a\\u001F"'),
    ({"anyOf": [{"const": "ab"}, {"type": "string", "minLength": 3}]}, '"ab" "a\\u0001b" "abc" "\\u0002aa"', '"a" "a\\u0001"'),
    ({"type": "string", "not": {"minLength": 2}}, '"" "a"', '"ab"'),
    ({"type": "string", "not": {"maxLength": 1}}, '"ab"', '"" "a"'),
    ({"type": "string", "not": {"minLength": 1, "maxLength": 2}}, '"" "abc"', '"a" "ab"'),
    ({"type": "string", "not": {"pattern": "^a*$", "minLength": 2}}, '"" "a" "ab"', '"aa" "aaa"'),
    ({"type": "string", "anyOf": [{"pattern": "^a"}, {"maxLength": 1}]}, '"" "b" "abc"', '"bc"'),
    ({"type": "string", "oneOf": [{"pattern": "^a"}, {"maxLength": 1}]}, '"" "b" "abc"', '"a" "bc"'),
    ({"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}, {"pattern": "c"}]}, '"a" "b" "xc"', '"" "ab" "abc" "ca"'),
    ({"type": "string", "if": {"pattern": "^a"}, "then": {"minLength": 3}}, '"" "b" "abc"', '"a" "ab"'),
    ({"type": "string", "if": {"const": "x"}, "else": {"pattern": "^y"}}, '"x" "y" "yy"', '"" "xx" "xy"'),
    ({"not": {"type": "string"}}, "1 null [] {} true", '"" "a"'),
    ({"type": "string", "not": {"not": {"const": "a"}}}, '"a"', '"b" ""'),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_strings(row: Row) -> None:
    assert_row(row)


ANY_SPELLING: list[Row] = [
    ({"type": "string"}, '"\\u0061" "\\/" "\\u000A" "\\n" "\\ud83d\\ude00" "a"', '"\\ud83d" "\\x" "\\u12"'),
    ({"type": "string", "maxLength": 1}, '"\\u0061" "\\ud83d\\ude00" "\\/"', '"\\u0061b" "ab"'),
    ({"type": "string", "minLength": 2}, '"\\u0061b" "\\ud83d\\ude00a"', '"\\u0061" "\\ud83d\\ude00"'),
    # Under a pattern or a list strings stay canonical.
    ({"type": "string", "pattern": "^a$"}, '"a"', '"\\u0061"'),
    ({"const": "a/"}, '"a/"', '"\\u0061/" "a\\/"'),
    # Beside a listed string too, so that it is recognised.
    ({"type": "string", "not": {"enum": ["a\x1f", "ab", "a\n", "a/"]}}, '"a\\u001e" "a\\u0002" "\\u0001" "a\\t" "a" "cb"', '"c\\u0062" "a\\u001f" "a\\u001F" "ab" "a\\u0062" "a\\n" "a\\u000a" "a\\u000A" "a/" "a\\/" "a\\u002f" "\\u0061b"'),
    ({"type": "string", "not": {"const": "\x1f"}}, '"\\u001e" "\\u001fa" "\\u0000" "\\b"', '"\\u001f" "\\u001F" "\\u00"'),
    ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, '{"a":"\\/"}', '{"\\u0061":1}'),
]  # fmt: skip


@pytest.mark.parametrize("row", ANY_SPELLING, ids=repr)
def test_strings_in_any_spelling(row: Row) -> None:
    assert_row(row, JsonOptions(spelling="any"))


def test_strings_without_a_bound_of_their_own_have_that_of_the_options() -> None:
    options = JsonOptions(max_string_length=3)
    assert_row(({"type": "string"}, '"abc" "😀😀😀" "\\n\\n\\n"', '"abcd" "\\n\\n\\n\\n"'), options)
    assert_row(({"type": "string", "maxLength": 4}, '"abcd"', '"abcde"'), options)
    assert_row(({"type": "string", "pattern": "^a*$"}, '"" "aaa"', '"aaaa"'), options)
    assert_row(({"type": ["string", "null"]}, '"abc" null', '"abcd"'), options)
    assert_row(({"const": "abcdef"}, '"abcdef"', '"abc"'), options)
    assert_row(({"type": "string", "minLength": 4}, '"abcd"', '"abc"'), options)


def test_the_bound_of_the_options_does_not_shorten_strings_with_alternative_bounds() -> None:
    options = JsonOptions(max_string_length=3)
    either = {"anyOf": [{"maxLength": 5}, {"minLength": 7, "maxLength": 8}]}
    assert_row(({"type": "string"} | either, '"abcde" "abcdefg"', '"abcdef" "abcdefghi"'), options)
    unbounded = {"anyOf": [{"maxLength": 1}, {"minLength": 3}]}
    assert_row(({"type": "string"} | unbounded, '"a" "abc"', '"ab" "abcdefg"'), options)


def test_strings_without_bounds_go_on() -> None:
    options = JsonOptions(max_string_length=None)
    assert_row(({"type": "string"}, f'"{"a" * 20_000}"'[:300] + '"', '"'), options)
    assert_row(({"type": "string", "pattern": "^a"}, f'"{"a" * 300}"', '""'), options)


@pytest.mark.parametrize(("low", "high"), [(0, 3), (2, 5), (4, 4), (0, 0), (3, 60)])
def test_ends_of_strings_with_any_bounds(low: int, high: int) -> None:
    machine = machine_of({"type": "string", "minLength": low, "maxLength": high})
    assert (
        machine.shortest_completion(machine.start)
        == b'"' + machine.rows.scalars.shortest_strings.filler * low + b'"'
    )
    for length in range(high + 2):
        assert accepts(machine, f'"{"x" * length}"') == (low <= length <= high), length
