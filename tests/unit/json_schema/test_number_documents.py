"""Numbers, booleans and null that schemas accept and reject."""
# ruff: noqa: E501 (a table has one case a line)

from __future__ import annotations

import pytest

from guided.errors import LimitExceededError, UnsatisfiableError
from guided.spec import JsonOptions
from tests.unit.json_schema.documents import Row, Schema, assert_row, machine_of

ROWS: list[Row] = [
    ({"type": "null"}, "null", "true 0 [] nul nulll"),
    ({"type": "boolean"}, "true false", "null 0 1 tru"),
    ({"enum": [True]}, "true", "false 1"),
    ({"const": False}, "false", "0 true null"),
    ({"enum": [None, True]}, "null true", "false"),
    ({"type": "integer"}, "0 -1 120 12345678901234567890", "1.0 01 -0 1e2 +1 - 1. 123456789012345678901"),
    ({"type": "number"}, "0 -1.5 0.0 19.90", "1. .5 1e2 -0 00 01.5 - 1.-"),
    ({"type": "number"}, f"{'9' * 20}.{'9' * 20}", f"{'9' * 21} 0.{'1' * 21}"),
    ({"type": "integer", "minimum": 3, "maximum": 12}, "3 9 10 12", "2 13 -3 0 100 30"),
    ({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5}, "4", "3 5 40"),
    ({"type": "integer", "minimum": -12, "maximum": -3}, "-3 -12 -10", "-2 -13 3 0 -30"),
    ({"type": "integer", "minimum": -1, "maximum": 1}, "-1 0 1", "-2 2 10 -0 -10"),
    ({"type": "number", "minimum": 0.5, "maximum": 1.5}, "0.5 1 1.5 1.50 0.51", "0.4 1.51 0 2 0.49"),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "0.1 0.001 0.99", "0 1 0.0 1.0"),
    ({"type": "integer", "multipleOf": 3}, "0 3 -3 12 999", "1 2 -4 10"),
    ({"type": "integer", "multipleOf": 7, "minimum": 10, "maximum": 30}, "14 21 28", "7 35 10 20"),
    ({"type": "number", "multipleOf": 0.5}, "0 0.5 -1.5 1 2.50", "0.25 1.1 0.51"),
    ({"type": "number", "multipleOf": 0.01}, "0.01 19.99 5", "0.001 19.999"),
    ({"type": "integer", "multipleOf": 1.5}, "0 3 -6", "1 2 1.5"),
    ({"multipleOf": 2}, '2 "a" null [] {}', "1 3"),
    ({"minimum": 5}, '5 "a" null []', "4 0 -5"),
    ({"const": 1}, "1", '2 0 true "1" 10 -1'),
    ({"const": 1.5}, "1.5", "1 15 1.6"),
    ({"const": 0}, "0", "false 1 -0 null"),
    ({"enum": [1, 12, 123, -5]}, "1 12 123 -5", "2 5 13 124 -1 0"),
    ({"enum": [1, 2, 3, 4], "minimum": 2, "not": {"const": 3}}, "2 4", "1 3 5"),
    ({"type": "integer", "not": {"const": 1}}, "0 2 10 -1 11", "1"),
    ({"type": "integer", "not": {"enum": [1, 10]}}, "0 11 100 -1", "1 10"),
    ({"type": "integer", "not": {"minimum": 5}}, "4 0 -5", "5 50"),
    ({"type": "number", "not": {"type": "integer"}}, "0.5 -1.25", "0 1 -3"),
    ({"type": "integer", "not": {"multipleOf": 3}}, "1 2 -4", "0 3 -3"),
    ({"type": "integer", "anyOf": [{"maximum": 2}, {"minimum": 5}]}, "2 -9 5 50", "3 4"),
    ({"type": "integer", "oneOf": [{"minimum": 3}, {"maximum": 5}]}, "2 6 -1", "3 4 5"),
    ({"type": "integer", "oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}, "2 3 4 9", "0 6 1 5"),
    ({"allOf": [{"multipleOf": 2}, {"multipleOf": 3}], "type": "integer"}, "0 6 12", "2 3 4"),
    ({"type": "integer", "if": {"minimum": 10}, "then": {"multipleOf": 10}}, "3 10 20 -4", "11 15"),
    ({"type": ["integer", "null"]}, "1 null", '"1" true 1.5'),
    ({"type": ["integer", "string"], "minLength": 2, "minimum": 5}, '5 "ab"', '4 "a" null'),
    ({"not": {"type": "number"}}, '"1" null true []', "1 0.5 -1"),
    ({"not": {"type": "boolean"}}, "1 null", "true false"),
    ({"not": {"const": None}}, "1 true", "null"),
    ({"not": {"enum": [True, 1, "a"]}}, 'false 2 "b" null [1]', 'true 1 "a"'),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_numbers_and_constants(row: Row) -> None:
    assert_row(row)


ANY_SPELLING: list[Row] = [
    ({"type": "number"}, "1e5 -0 1.50E+7 0e0", "01 1. .5 1e"),
    ({"type": "integer"}, "1 1.0 1e2 -0", "1.5 1e-1 01 10e-1"),
    ({"const": 1}, "1 1.0 1.000", "10 1.1 1e1 -1"),
    ({"const": 1e-07}, "1e-07 0.0000001", "1e-08 1e-06 0"),
    ({"type": "integer", "enum": [1, -1, 2]}, "1 2.0 -1.00", "-9477.1E1 273.3E1 3 102832.2000E1"),
    ({"type": "integer", "minimum": 5}, "5 5.0 12", "4 4.0 4e0 -5"),
    ({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, "0 0.5 -0 0.50", "-1 1 -0.1 1.0"),
    ({"type": "integer", "not": {"const": 1}}, "0 2 2.0", "1 1.0 10e-1"),
    ({"type": "number", "oneOf": [{"minimum": 3}, {"maximum": 5}]}, "2 2.0 6.0", "3 3.0 4e0 50e-1"),
    ({"items": {"enum": [1, 2]}, "uniqueItems": True, "type": "array"}, "[1,2.0] [2]", "[1,1.0] [2,20e-1]"),
]  # fmt: skip


@pytest.mark.parametrize("row", ANY_SPELLING, ids=repr)
def test_numbers_in_any_spelling_count_by_their_value(row: Row) -> None:
    assert_row(row, JsonOptions(spelling="any"))


_DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
BY_SPELLING: list[Row] = [
    ({**_DRAFT_4, "type": "integer"}, "1 12345 -7 0", "12345.0 1e2 1.5"),
    ({**_DRAFT_4, "type": "integer", "minimum": 5}, "5 12345", "5.0 4 12e0"),
    ({**_DRAFT_4, "type": "number"}, "12345.0 1e2 3", "01"),
    ({**_DRAFT_4, "type": ["integer", "string"], "multipleOf": 3}, '3 "a" -6', "3.0 4 1.5"),
    ({**_DRAFT_4, "enum": [1.0, 2], "type": "integer"}, "1 2", "1.0 2.00"),
    ({**_DRAFT_4, "enum": [1, 2]}, "1 2 1.0", "3"),
    ({**_DRAFT_4, "type": "number", "not": {"type": "integer"}}, "1.0 1.5 1e2", "1 12345"),
    ({"$schema": "http://json-schema.org/draft-06/schema#", "type": "integer"}, "1 1.0 1e2", "1.5"),
]  # fmt: skip


@pytest.mark.parametrize("row", BY_SPELLING, ids=repr)
def test_integers_of_draft_4_are_written_without_a_point(row: Row) -> None:
    assert_row(row, JsonOptions(spelling="any"))


DIGITS: list[Row] = [
    ({"type": "integer"}, "0 999 -999", "1000 -1000"),
    ({"type": "number"}, "999.999 -0.125", "0.0001 1000"),
    # A schema's own numbers may take more.
    ({"const": 123456}, "123456", "123 12345"),
    ({"type": "integer", "minimum": 12345}, "12345", "12344 999"),
    ({"enum": [1, 1000000]}, "1 1000000", "1000"),
]


@pytest.mark.parametrize("row", DIGITS, ids=repr)
def test_numbers_have_as_many_digits_as_the_options_say(row: Row) -> None:
    assert_row(row, JsonOptions(max_number_digits=3))


def test_numbers_without_a_bound_on_their_digits_go_on() -> None:
    options = JsonOptions(max_number_digits=None)
    assert_row(({"type": "number"}, "9" * 60 + " 0." + "1" * 60, "1e5 01"), options)


_PAGES = {"type": "integer", "multipleOf": 4096, "minimum": 0, "maximum": 2**32}
_DAYS = {"type": "integer", "multipleOf": 86400, "minimum": 946684800, "maximum": 4102444800}
_QUARTERS = {"type": "number", "minimum": 1e-100, "multipleOf": 0.25, "maximum": 99}
WIDE_BOUNDS: list[Row] = [
    (_PAGES, "0 815104 819200 4294967296", "4095 819201 4294971392 -4096"),
    ({**_PAGES, "maximum": 2**62}, "819200 4611686018427387904", "819201 4611686018427392000"),
    ({"enum": [{"a": 1}], "not": _PAGES}, '{"a":1}', "819200"),
    (_DAYS, "946684800 963964800 1700006400 4102444800", "1700006401 946598400 4102531200"),
    ({"type": "integer", "multipleOf": 1024, "minimum": 2**20, "maximum": 2**40}, "1048576 1253376 1099511627776", "1047552 1253377"),
    (_QUARTERS, "0.25 50 50.25 98 98.750 99", "0 98.3 99.25"),
    ({"type": "number", "multipleOf": 0.125, "maximum": 1.2e29}, f"-1000 100.125 1{'0' * 29}", f"100.1 13{'0' * 28}"),
    ({"anyOf": [_PAGES, {"type": "integer", "maximum": 10}]}, "7 -3 819200 4294967296", "11 819201"),
    ({"anyOf": [{**_PAGES, "maximum": 2**62}, {"type": "integer", "maximum": 10}]}, "7 819200", "11"),
    ({"type": "integer", "minimum": 0, "not": _PAGES}, "819201 4294971392", "0 819200 4294967296"),
    ({"oneOf": [_PAGES, {"type": "integer", "multipleOf": 6000, "minimum": 1}]}, "0 6000 819200", "1 1536000"),
    ({"type": "number", "minimum": 0, "not": _QUARTERS}, "0 98.3 99.25", "98 98.50 99"),
]  # fmt: skip


@pytest.mark.parametrize("row", WIDE_BOUNDS, ids=repr)
def test_within_wide_bounds_all_multiples_are_allowed(row: Row) -> None:
    assert_row(row)
    assert_row(row, JsonOptions(spelling="any"))


def test_a_bound_that_must_fail_says_where_listed_multiples_begin() -> None:
    schema = {"type": "integer", "multipleOf": 99991, "not": {"maximum": 10**9}}
    assert_row((schema, "1000009991", "99991 1000009992"))


def test_listed_multiples_that_do_not_meet_are_no_proof_that_none_do() -> None:
    schema = {"allOf": [{"multipleOf": 99991}, {"multipleOf": 99989}], "minimum": 1}
    assert machine_of(schema).parts.num_given_up
    with pytest.raises(LimitExceededError):
        machine_of({"type": "integer", **schema})


LISTED = {"type": "integer", "multipleOf": 99991}
LEFT_OUT: list[tuple[Schema, int]] = [
    (LISTED, 1),
    ({"type": "object", "properties": {"a": LISTED}, "required": ["a"]}, 1),
    ({"anyOf": [LISTED, {"type": "string"}]}, 1),
    ({**LISTED, "multipleOf": 3}, 0),
    ({**LISTED, "minimum": 0, "maximum": 300_000}, 0),
    (_PAGES, 0),
]


@pytest.mark.parametrize(("schema", "count"), LEFT_OUT)
def test_multiples_that_are_left_out_are_counted(schema: Schema, count: int) -> None:
    assert machine_of(schema).parts.num_given_up == count


def test_listed_multiples_leave_no_doubt_that_another_part_has_no_value() -> None:
    empty = {"type": "string", "minLength": 3, "maxLength": 2}
    schema = {"type": "object", "properties": {"a": LISTED, "b": empty}, "required": ["a", "b"]}
    with pytest.raises(UnsatisfiableError) as caught:
        machine_of(schema)
    assert caught.value.pointer == "/properties/b"


def test_beyond_the_last_multiple_that_a_bound_allows_none_is_left_to_list() -> None:
    """Only 200 multiples of the second are listed, and nothing is known of lower numbers alone."""
    schema = {
        "anyOf": [
            {"type": "number", "exclusiveMaximum": 1e22, "multipleOf": 0.0625},
            {"type": "number", "minimum": -1e300, "exclusiveMaximum": 0, "multipleOf": 0.0625},
        ]
    }
    assert_row((schema, "0 0.0625 -0.0625 -12.5 1000", "0.1 -0.1 -12.5625 1e22"))


def test_no_number_is_guessed_to_fit_that_the_listed_multiples_leave_out() -> None:
    wide = {"minimum": -1e300, "maximum": 1e300, "multipleOf": 0.0625}
    schema = {"minimum": 900, "anyOf": [{"minimum": 1000, "maximum": 1005}, wide]}
    with pytest.raises(LimitExceededError):
        machine_of({"type": "number", **schema})
