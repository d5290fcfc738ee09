"""Ranges of numbers, held against decimal arithmetic."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.errors import LimitExceededError
from guided.grammar.json_grammar import Bound, NumberShape
from guided.grammar.numbers import number_dfa

_CANONICAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_BOUNDS = st.decimals(-1100, 1100, places=2).map(lambda d: d.normalize() + 0)


def _allows(shape: NumberShape, text: str) -> bool:
    if not _CANONICAL.fullmatch(text):
        return False
    value = Decimal(text)
    if text.startswith("-") and value == 0:
        return False
    if shape.integer and "." in text:
        return False
    if shape.low and (value < shape.low.value or (shape.low.strict and value == shape.low.value)):
        return False
    high = shape.high
    if high and (value > high.value or (high.strict and value == high.value)):
        return False
    return shape.multiple_of is None or value % shape.multiple_of == 0


_bounds = st.none() | st.builds(Bound, _BOUNDS, st.booleans())
_shapes = st.builds(NumberShape, st.just(False), _bounds, _bounds) | st.builds(
    NumberShape, st.just(True), _bounds, _bounds, st.none() | st.integers(1, 12)
)


def _spellings(shape: NumberShape) -> st.SearchStrategy[str]:
    """Numbers near the bounds, numbers anywhere, and texts that are none."""
    near = [bound.value for bound in (shape.low, shape.high) if bound is not None] or [Decimal(0)]
    steps = st.sampled_from([Decimal(s) for s in ("0", "1", "-1", "0.1", "-0.1", "0.001", "-0.01")])
    return st.one_of(
        st.builds(lambda value, step: format(value + step, "f"), st.sampled_from(near), steps),
        st.from_regex(r"-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?", fullmatch=True),
        st.sampled_from(["", "-", "-0", "-0.0", "00", "01", "1.", ".5", "1e5", "+1", "0.0", "0"]),
    )


@settings(deadline=None, max_examples=200)
@given(_shapes, st.data())
def test_a_number_is_allowed_exactly_when_its_value_is(
    shape: NumberShape, data: st.DataObject
) -> None:
    dfa = number_dfa(shape)
    dfa.check()
    for _ in range(20):
        text = data.draw(_spellings(shape))
        assert dfa.accepts(text) == _allows(shape, text), text


def test_a_divisor_that_is_too_large_is_refused() -> None:
    with pytest.raises(LimitExceededError, match="multipleOf 1000000 is above"):
        number_dfa(NumberShape(integer=True, multiple_of=1_000_000))
