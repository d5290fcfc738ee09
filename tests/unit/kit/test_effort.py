"""The number of combinations that a test with several axes tries."""

from __future__ import annotations

import pytest

from tests.kit import effort
from tests.kit.effort import crossed


@pytest.mark.parametrize(
    ("is_long", "expected"),
    [
        (False, [("a", 1), ("b", 2), ("c", 1)]),
        (True, [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1), ("c", 2)]),
    ],
)
def test_short_forms_have_every_value_and_long_ones_every_combination(
    monkeypatch: pytest.MonkeyPatch, is_long: bool, expected: list[tuple[str, int]]
) -> None:
    monkeypatch.setattr(effort, "_IS_LONG", is_long)
    assert crossed("abc", [1, 2]) == expected
