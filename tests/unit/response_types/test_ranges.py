"""Ranges as patterns agree with comparisons."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from guided.response_types.pattern_text import at_least, at_most, integers_between

small = st.integers(-2000, 2000)
clocks = st.times().map(lambda time: f"{time:%H:%M:%S}")


@given(st.none() | small, st.none() | small, small)
def test_integers_are_between_their_bounds(low: int | None, high: int | None, value: int) -> None:
    is_between = (low is None or value >= low) and (high is None or value <= high)
    assert bool(re.fullmatch(integers_between(low, high), str(value))) == is_between


@given(small, small)
def test_numbers_have_no_needless_signs_and_zeros(low: int, high: int) -> None:
    pattern = integers_between(low, high)
    for text in ("-0", "00", "01", "+1", "-01", ""):
        assert not re.fullmatch(pattern, text)


@given(clocks, clocks)
def test_texts_of_one_shape_are_compared(bound: str, value: str) -> None:
    assert bool(re.fullmatch(at_least(bound), value)) == (value >= bound)
    assert bool(re.fullmatch(at_most(bound), value)) == (value <= bound)
