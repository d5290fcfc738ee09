"""Numbers and their spellings, compared with decimal arithmetic."""

from __future__ import annotations

import itertools
import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import Bound, NumberChoices, Numbers
from guided.json_schema.formulas.number_spellings import exact_text
from guided.json_schema.formulas.number_tables import FAILS, HOLDS
from guided.json_schema.formulas.numbers import (
    digit_limit,
    number_dfa,
    number_fits,
    number_verdicts,
    omits_multiples,
)
from guided.regular.dfa import DEAD
from guided.spec import Spelling

CANONICAL, ANY = Spelling.CANONICAL, Spelling.ANY
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def _at_least(value: str, *, integer: bool = False, by_spelling: bool = False) -> Numbers:
    return Numbers(integer, low=Bound(Decimal(value)), by_spelling=by_spelling)


def _at_most(value: str, *, integer: bool = False) -> Numbers:
    return Numbers(integer, high=Bound(Decimal(value)))


def _multiple(value: str, *, integer: bool = False, by_spelling: bool = False) -> Numbers:
    return Numbers(integer, multiple_of=Decimal(value), by_spelling=by_spelling)


def _choices(*values: str) -> NumberChoices:
    return NumberChoices(tuple(map(Decimal, values)))


INTEGER = Numbers(integer=True)
LITERAL = Numbers(integer=True, by_spelling=True)

ACCEPTED = [
    (Numbers(), CANONICAL, "0 -1 10 0.5 -0.5 19.90 0.0 1.0", "-0 -0.0 01 1. .5 +1 1e5 - 00"),
    (Numbers(), ANY, "0 -0 -0.0 1.0 1e5 1E+5 1e-05 0e0 -12.50e007", "01 1. .5 +1 1e 1e+ 1.e5 e5 -"),
    (INTEGER, CANONICAL, "0 -1 120", "1.0 -0 0.5 1e2 1.5"),
    (INTEGER, ANY, "0 -0 1.0 1e2 15E+0 -0e9 1e308", "1.5 1e-1 15e-2 1.05e1 10e-1 1.5e1 0e-9"),
    (Numbers(True, Bound(Decimal(1))), ANY, "1 1.0 12.00 120", "0 -1 -0 0e5 1e0 10e-1 1e-1 1.5"),
    (LITERAL, ANY, "0 -0 1 12345", "1.0 12345.0 -0.0 1e2 10e-1 1.5"),
    (LITERAL, CANONICAL, "0 -1 120", "1.0 -0 0.5 1e2 1.5"),
    (_at_least("5", integer=True, by_spelling=True), ANY, "5 60", "5.0 4 5e0 1e1"),
    (_multiple("1.5", integer=True, by_spelling=True), ANY, "3 -6 0", "3.0 1.5 4 3e0"),
    (_at_least("5", integer=True), ANY, "5 5.0 10 60.0", "4 4.9 5.5 -5 5e0 1e1"),
    (Numbers(low=Bound(Decimal(0), strict=True)), ANY, "0.1 1e-9 1", "0 -0 0.00 -1 0e5 -1e-9"),
    (_at_most("99", integer=True), ANY, "42 42.0 99.00 -421 -0", "100 99.5 1e1 -1e1"),
    (_at_least("50", integer=True), ANY, "51 50.0 1234", "42 49 50.1 -50 0 51e0"),
    (Numbers(high=Bound(Decimal(0))), ANY, "0 -0.0 -3e4 0e1", "1 1e-300 0.1"),
    (Numbers(high=Bound(Decimal(0))), CANONICAL, "0 -3 0.0", "-0 1 -0.0 0.1"),
    (Numbers(high=Bound(Decimal("99.5"))), ANY, "99.5 99.500 -1000 9.9", "99.51 100 9e0 -1e99"),
    (_at_least(f"-{10**30}.5"), ANY, f"-{10**30}.5 -{10**30}", f"-{10**30}.51 -{10**30 + 1}"),
    (_choices("1"), ANY, "1 1.0 1.000", "-1 0 1e1 1e0 1.1 10 1.01"),
    (_choices("1"), CANONICAL, "1", "1.0 10 -1 0"),
    (_choices("0"), ANY, "0 -0 0.0 -0.00", "1 0.1 0e7 1e-5"),
    (
        _choices("-2.5", "1001", "1"),
        ANY,
        "-2.5 -2.500 1001.0 1001 1.0",
        "2.5 10010 1.01 -2.05 -1 100",
    ),
    (
        _choices("-9007199254740992"),
        ANY,
        "-9007199254740992.0",
        "9007199254740992 -9007199254740991",
    ),
    (_choices("1e-7"), ANY, "1e-07 1E-7 0.0000001 0.00000010", "1 1e-08 1e-071 -1e-07 1e7 10e-08"),
    (_choices("-1.5e16"), ANY, "-1.5e+16 -1.5E16 -15000000000000000", "1.5e16 -1.5 -1.5e-16"),
    (_choices("1e308", "1"), ANY, "1e+308 1e308 1 1.0", "1e30 1e3080 10 0.1"),
    (
        _choices("1", "2", "1.05e25"),
        ANY,
        "1.00 2.000 1.05e25 1.05E+25 10500000000000000000000000.0",
        "2.05e25 2.05e+25 1.005e25 1.00005e25 1.05 1.0500",
    ),
    (_choices("1", "1.05", "10.5"), ANY, "1.0 1.00 1.05 1.050 10.50", "1.5 10 10.0 1.005 1.01"),
    (_multiple("2"), CANONICAL, "0 4 -10", "1 3.5 4.0"),
    (_multiple("2"), ANY, "4.0 10 -2", "1 1.5 5 2.5 4e0 1e0"),
    (_multiple("1.5"), ANY, "0 4.5 1.50 15 -3.0", "35 1 1.55 3e0"),
    (_multiple("0.0001"), ANY, "0.0075 75e4 0.00750", "0.00751 7.51e-3 1e-5 75e-4 7.5e-3"),
    (_multiple("0.01"), CANONICAL, "0 1 19.9 19.90 19.99 -0.01", "19.999 0.001"),
    (_multiple("1e-8"), ANY, "12391239123 1e308 0.00000001", "1e-9 0.000000001 1e-8"),
    (_multiple("0.5"), ANY, "1e308 2.5 0.50 15e0 -0", "0.25 1.1 5e-1 1e-1 25e-1 15e-0 0.0e1"),
    (_multiple("0.25"), ANY, "1e308 25e1 2.75 0.0", "0.3 1e-2 0.125 2.5e1"),
    (_multiple("0.5", integer=True), ANY, "1e308 1 2.0", "0.5 5e-1"),
    (_multiple("0.123456789", integer=True), ANY, "0 123456789 -246913578", "1e308 1 0.123456789"),
    (_multiple("0.75"), ANY, "0.75 1.5 1.50 2.250 3 -0.0", "0.5 1 0.7 1.05 0.755 3e0"),
    (_multiple("1e-20"), ANY, "0.00000000000000000001 1e20", "1e-21 0.5e-20 1e-20 0.1e-19"),
    (_multiple("100"), ANY, "0 100 -25000 100.0", "10 150 100.5 1e2 1001"),
    (_multiple("1024"), ANY, "0 1024 -20480.0 10240", "1 1025 1024.5 1e3 512"),
    (_multiple("86400"), ANY, "0 86400 864000 -172800", "8640 86401 43200 86400.1"),
    (_multiple("1000"), CANONICAL, "0 1000 -25000", "100 1001 1000.0"),
]


@pytest.mark.parametrize(("assertion", "spelling", "accepted", "rejected"), ACCEPTED)
@pytest.mark.parametrize("max_digits", [20, None])
def test_spellings_are_allowed_by_their_value(
    assertion: Numbers | NumberChoices,
    spelling: Spelling,
    accepted: str,
    rejected: str,
    max_digits: int | None,
) -> None:
    dfa = number_dfa(assertion, spelling, max_digits)
    dfa.check()
    assert [text for text in accepted.split() if dfa.run(text) != HOLDS] == []
    assert [text for text in rejected.split() if dfa.run(text) != DEAD] == []


_values = st.decimals(-1100, 1100, places=2).map(lambda d: d.normalize() + 0)
_bounds = st.none() | st.builds(Bound, _values, st.booleans())
_steps = st.sampled_from(
    ["1", "2", "3", "7", "12", "100", "0.5", "0.01", "0.75", "1.5", "40", "0.125", "1e-8"]
)
_assertions = st.one_of(
    st.builds(Numbers, st.booleans(), _bounds, _bounds, st.none()),
    st.builds(Numbers, st.booleans(), _bounds, _bounds, st.none() | _steps.map(Decimal)),
    st.lists(_values, max_size=4).map(lambda values: NumberChoices(tuple(values))),
)


_beside = st.sampled_from([Decimal(s) for s in ("0", "0", "1", "-1", "0.1", "-0.001", "-0.01")])
_anywhere = st.from_regex(
    r"-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?([eE][-+]?[0-9]{1,2})?", fullmatch=True
)
_nowhere = st.sampled_from(
    ["", "-", "-0", "-0.0", "00", "01", "1.", ".5", "1e5", "+1", "0.0", "0e", "1e-07"]
)
_kinds = st.integers(0, 3)
_ways = st.tuples(st.integers(-4, 4), st.integers(0, 2), st.sampled_from("eE"))


@st.composite
def _text(draw: st.DrawFn, near: list[Decimal]) -> str:
    """A number near one of those given, in one of many spellings, any number, or no number."""
    kind = draw(_kinds)
    if kind > 1:
        return draw(_anywhere if kind == 2 else _nowhere)
    value = draw(st.sampled_from(near)) + draw(_beside)
    return _respelled(value, *draw(_ways)) if kind else exact_text(value)


def _texts(assertion: Numbers | NumberChoices) -> st.SearchStrategy[list[str]]:
    """Texts to which the assertion applies."""
    if isinstance(assertion, NumberChoices):
        near = list(assertion.values)
    else:
        near = [bound.value for bound in (assertion.low, assertion.high) if bound is not None]
    return st.lists(_text([*near, Decimal(0)]), min_size=25, max_size=25)


def _respelled(value: Decimal, shift: int, zeros: int, letter: str) -> str:
    mantissa = exact_text(value.scaleb(shift))
    if zeros:
        mantissa += ("" if "." in mantissa else ".") + "0" * zeros
    return f"{mantissa}{letter}{-shift:+d}" if shift % 2 else f"{mantissa}{letter}{-shift}"


def _expected(assertion: Numbers | NumberChoices, text: str) -> bool:
    return bool(_JSON_NUMBER.fullmatch(text)) and _holds(assertion, Decimal(text))


def _holds(assertion: Numbers | NumberChoices, value: Decimal) -> bool:
    """The meaning of the keywords, implemented independently."""
    if isinstance(assertion, NumberChoices):
        return value in assertion.values
    low, high = assertion.low, assertion.high
    return (
        (not assertion.integer or value == value.to_integral_value())
        and _on_step(value, assertion.multiple_of)
        and (low is None or (low.value < value if low.strict else low.value <= value))
        and (high is None or (value < high.value if high.strict else value <= high.value))
    )


@settings(deadline=None, max_examples=150)
@given(_assertions, st.sampled_from([None, 20]), st.data())
def test_every_spelling_counts_by_its_value(
    assertion: Numbers | NumberChoices, max_digits: int | None, data: st.DataObject
) -> None:
    """Never wrong about any spelling, and never undecided about one in scope."""
    dfa = number_dfa(assertion, ANY, max_digits)
    verdicts = number_verdicts(assertion, ANY, max_digits)
    dfa.check()
    verdicts.check()
    for text in data.draw(_texts(assertion)):
        expected = _expected(assertion, text)
        if not _JSON_NUMBER.fullmatch(text):
            assert dfa.run(text) == verdicts.run(text) == DEAD, text
        elif verdicts.run(text) == DEAD:
            assert not _is_in_scope(assertion, text), text
            assert dfa.run(text) == DEAD, text
        else:
            assert dfa.run(text) == (HOLDS if expected else DEAD), text
            assert verdicts.run(text) == (HOLDS if expected else FAILS), text


def _is_in_scope(assertion: Numbers | NumberChoices, text: str) -> bool:
    """Whether it is decided in any case: without exponent always, with one for few conditions."""
    _, letter, exponent = text.lower().partition("e")
    if not letter:
        return True
    if isinstance(assertion, NumberChoices) or len(exponent.lstrip("+-")) > 3:
        return False
    ends = [bound.value for bound in (assertion.low, assertion.high) if bound is not None]
    step = assertion.multiple_of
    if not assertion.integer and step is None:
        return not any(ends)
    if ends or not _on_step(Decimal(1), step):
        return False
    return "." not in text and not exponent.startswith("-")


@pytest.mark.parametrize("step", ["1", "0.01", "0.5", "0.125", "1e-8", "1e-20"])
@pytest.mark.parametrize("max_digits", [20, None])
def test_a_number_with_an_exponent_is_whole_by_its_spelling_or_left_out(
    step: str, max_digits: int | None
) -> None:
    verdicts = number_verdicts(_multiple(step), ANY, max_digits)
    exponents = [f"{e}{n}" for e in ("e", "E+", "e0", "e-", "e-0") for n in range(32)]
    wholes = ["0", "1", "-10", "1200", "5000"]
    fractions = ["", ".0", ".5", ".250", ".05", "." + "0" * 16 + "5", ".1" + "0" * 15]
    for whole, fraction, exponent in itertools.product(wholes, fractions, exponents):
        text = whole + fraction + exponent
        is_whole = not fraction and "-" not in exponent
        assert verdicts.run(text) == (HOLDS if is_whole else DEAD), text


def test_of_choices_with_exponent_only_known_spellings_are_decided() -> None:
    verdicts = number_verdicts(_choices("1e-7", "2"), ANY, 20)
    assert [verdicts.run(text) for text in ("1e-07", "1e-7", "2", "0.0000001")] == [HOLDS] * 4
    assert [verdicts.run(text) for text in ("1", "12", "1.5", "-2", "0")] == [FAILS] * 5
    assert [verdicts.run(text) for text in ("1e-0", "1e-077", "2e0", "5e-07")] == [DEAD] * 4


def test_of_a_large_divisor_all_multiples_are_allowed_with_any_number_of_digits() -> None:
    for step in (1024, 86_400, 4_099):
        verdicts = number_verdicts(_multiple(str(step)), ANY, 20)
        assert not omits_multiples(_multiple(str(step)))
        for value in (0, step, 7 * step, 10**25 * step, step**9):
            assert verdicts.run(f"-{value}") == verdicts.run(f"{value}.0") == HOLDS
            assert verdicts.run(f"{value + 1}") == verdicts.run(f"{value}.5") == FAILS
            assert verdicts.run(f"{value}." + "0" * 20) == HOLDS
            assert verdicts.run(f"{value}." + "0" * 21) == DEAD


_CANONICAL = re.compile(r"(?!-0(\.0*)?$)-?(0|[1-9][0-9]*)(\.[0-9]+)?")


def _is_pointless(assertion: Numbers | NumberChoices, text: str) -> bool:
    """Whether a value has a needless point, or zeros that no listed choice has."""
    value = Decimal(text)
    if isinstance(assertion, NumberChoices):
        return value in assertion.values and text != exact_text(value)
    step = assertion.multiple_of
    whole = assertion.integer or (step is not None and step == step.to_integral_value())
    return whole and "." in text and value == value.to_integral_value() and _on_step(value, step)


def _on_step(value: Decimal, step: Decimal | None) -> bool:
    return step is None or (Fraction(value) / Fraction(step)).denominator == 1


@settings(deadline=None, max_examples=150)
@given(_assertions, st.sampled_from([None, 20]), st.data())
def test_a_canonical_number_is_allowed_exactly_when_its_value_is(
    assertion: Numbers | NumberChoices, max_digits: int | None, data: st.DataObject
) -> None:
    dfa = number_dfa(assertion, CANONICAL, max_digits)
    verdicts = number_verdicts(assertion, CANONICAL, max_digits)
    dfa.check()
    verdicts.check()
    for text in data.draw(_texts(assertion)):
        expected = _expected(assertion, text)
        if not _CANONICAL.fullmatch(text):
            assert dfa.run(text) == verdicts.run(text) == DEAD, text
        elif _is_pointless(assertion, text):
            # Needlessly long spellings must not be written, whatever their value.
            assert dfa.run(text) == DEAD, text
            assert not expected or verdicts.run(text) == DEAD, text
        else:
            assert dfa.run(text) == (HOLDS if expected else DEAD), text
            assert verdicts.run(text) == (HOLDS if expected else FAILS), text


@given(_assertions, _values)
@example(Numbers(multiple_of=Decimal("0.01")), Decimal("1E+400"))
@example(Numbers(multiple_of=Decimal("0.5")), Decimal("0.5"))
def test_a_value_holds_by_the_meaning_of_the_keywords(
    assertion: Numbers | NumberChoices, value: Decimal
) -> None:
    expected = _holds(assertion, value) if value.adjusted() < 20 else True
    assert number_fits(assertion, value) == expected


def test_digits_are_bounded_where_nothing_else_bounds_them() -> None:
    for spelling in (CANONICAL, ANY):
        for assertion in (Numbers(), _at_least("7"), _multiple("0.01")):
            dfa = number_dfa(assertion, spelling, 3)
            assert [dfa.run(text) for text in ("999", "999.900", "1000", "9.9000")] == [
                0,
                0,
                -1,
                -1,
            ]
            assert number_dfa(assertion, spelling, None).run("9" * 30 + ".9" + "0" * 30) == HOLDS


@pytest.mark.parametrize(
    ("assertion", "text"),
    [
        (_at_least("1e30"), "1" + "0" * 30),
        (Numbers(True, Bound(Decimal(999), strict=True)), "1000"),
        (Numbers(False, Bound(Decimal("0")), Bound(Decimal("1e-30"), strict=True)), "0"),
        (Numbers(False, Bound(Decimal("1e-5"), True), Bound(Decimal("2e-5"), True)), "0.000015"),
        (_choices("123456.789012"), "123456.789012"),
        (Numbers(True, Bound(Decimal(1)), None, Decimal(4000)), "4000"),
    ],
)
def test_a_bound_of_the_schema_wins_over_the_bound_on_digits(
    assertion: Numbers | NumberChoices, text: str
) -> None:
    assert number_dfa(assertion, CANONICAL, 3).run(text) == HOLDS
    assert number_dfa(assertion, ANY, 3).run(text) == HOLDS


def test_numbers_under_several_assertions_get_the_digits_that_one_needs() -> None:
    together = (_choices("1e30"), INTEGER)
    limit = digit_limit(together, 20)
    assert limit == 32
    assert all(number_dfa(a, CANONICAL, limit).run("1" + "0" * 30) == HOLDS for a in together)
    assert digit_limit(together, None) is None
    assert digit_limit([INTEGER], 20) == 20


LISTED = [
    (_multiple("123456789"), ["123456789", "0", "-123456789"], ["1", "123456788"]),
    (Numbers(True, Bound(Decimal(10**9)), None, Decimal(99991)), ["1000009991"], ["1000009992"]),
    (
        Numbers(True, None, Bound(Decimal(-(10**9))), Decimal(99991)),
        ["-1000009991"],
        ["-1000009992"],
    ),
]


@pytest.mark.parametrize(("assertion", "accepted", "between"), LISTED)
def test_of_a_large_divisor_the_multiples_nearest_to_zero_are_listed(
    assertion: Numbers, accepted: list[str], between: list[str]
) -> None:
    assert omits_multiples(assertion)
    dfa, verdicts = (make(assertion, CANONICAL, 20) for make in (number_dfa, number_verdicts))
    assert all(dfa.run(text) == verdicts.run(text) == HOLDS for text in accepted)
    assert all(dfa.run(text) == DEAD for text in between)
    assert all(verdicts.run(text) == FAILS for text in between)
    for far in (99991 * 123456789 * 10**6, 99991 * 123456789 * 10**6 + 1):
        # Beyond a bound there are no multiples; without one there are more.
        assert verdicts.run(f"-{far}") == (FAILS if assertion.low else DEAD)
        assert verdicts.run(f"{far}") == (FAILS if assertion.high else DEAD)


_wide = st.none() | st.builds(Bound, st.integers(-(10**13), 10**13).map(Decimal), st.booleans())
_wide_steps = st.sampled_from(["4096", "1024", "86400", "1021", "0.25", "0.0375", "3600", "0.4"])
_thousandths = st.lists(st.integers(0, 1_000), max_size=20)


@settings(deadline=None, max_examples=60)
@given(st.booleans(), _wide, _wide, _wide_steps, _thousandths)
@example(True, Bound(Decimal(0)), Bound(Decimal(2**32)), "4096", [0, 1, 190, 191, 500, 1_000])
def test_within_wide_bounds_all_multiples_are_decided(
    integer: bool, low: Bound | None, high: Bound | None, step: str, thousandths: list[int]
) -> None:
    assertion = Numbers(integer, low, high, Decimal(step))
    assert not omits_multiples(assertion)
    dfa, verdicts = (make(assertion, CANONICAL, 20) for make in (number_dfa, number_verdicts))
    first, last = (0 if bound is None else bound.value // Decimal(step) for bound in (low, high))
    for part in thousandths:
        multiple = (first + (last - first) * part // 1_000) * Decimal(step)
        for value in (multiple, multiple + Decimal(step), multiple + 1):
            text, fits = exact_text(value), _holds(assertion, value)
            assert dfa.run(text) == (HOLDS if fits else DEAD), text
            assert verdicts.run(text) == (HOLDS if fits else FAILS), text


def test_verdicts_within_wide_bounds_have_few_states() -> None:
    assertion = Numbers(True, Bound(Decimal(0)), Bound(Decimal(2**32)), Decimal(4096))
    for spelling in (CANONICAL, ANY):
        assert len(number_verdicts(assertion, spelling, 20)) < 3_000


def test_multiples_within_wide_bounds_that_take_many_states_are_listed() -> None:
    """By the estimate, by the automaton that is built, and with too many remainders."""
    for step, most in (("0.0625", "1e300"), ("7919", "1e10"), ("99991", "1e9")):
        assertion = Numbers(False, Bound(Decimal(0)), Bound(Decimal(most)), Decimal(step))
        assert omits_multiples(assertion)
        dfa = number_dfa(assertion, CANONICAL, 20)
        values = [exact_text(count * Decimal(step)) for count in (199, 200)]
        assert [dfa.run(text) for text in values] == [HOLDS, DEAD]


def test_a_large_divisor_in_a_small_range_is_exact() -> None:
    assertion = Numbers(True, Bound(Decimal(0)), Bound(Decimal(300_000)), Decimal(99_991))
    assert not omits_multiples(assertion)
    verdicts = number_verdicts(assertion, CANONICAL, 20)
    allowed = [n for n in range(0, 300_001, 1) if n % 99_991 == 0]
    assert allowed == [0, 99991, 199982, 299973]
    assert all(verdicts.run(str(n)) == HOLDS for n in allowed)
    assert verdicts.run("5") == verdicts.run("399964") == verdicts.run("-99991") == FAILS


def test_bounds_of_very_many_digits_are_refused() -> None:
    assert number_dfa(_at_least("1e400"), ANY, 20).run("1" + "0" * 400) == HOLDS
    for refused in (_at_least("1e9000"), _choices("1e999999999"), _multiple("1e-999999")):
        for max_digits in (20, None):
            with pytest.raises(LimitExceededError, match="more than 2000 digits"):
                number_dfa(refused, ANY, max_digits)
    digits = Decimal("1" * 1999)
    with pytest.raises(LimitExceededError, match="more than 16000000 states"):
        number_dfa(Numbers(False, Bound(-digits), Bound(digits)), ANY, 20)


def test_a_power_of_ten_with_very_many_places_is_followed() -> None:
    assertion = _multiple("1e-300")
    verdicts = number_verdicts(assertion, ANY, 20)
    assert verdicts.run("0." + "0" * 299 + "1") == verdicts.run("7") == HOLDS
    assert verdicts.run("0." + "0" * 300 + "1") == FAILS
    assert verdicts.run("1e5") == HOLDS
    assert verdicts.run("1e-5") == DEAD


def test_contradictory_bounds_leave_no_number() -> None:
    for spelling in (CANONICAL, ANY):
        assert (
            len(number_dfa(Numbers(False, Bound(Decimal(3)), Bound(Decimal(2))), spelling, 20)) == 0
        )
        assert len(number_dfa(_choices(), spelling, 20)) == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [("1E+3", "1000"), ("-0", "0"), ("1.50", "1.5"), ("100", "100"), ("1e-7", "0.0000001")],
)
def test_a_number_is_spelled_as_short_as_can_be(value: str, text: str) -> None:
    assert exact_text(Decimal(value)) == text
