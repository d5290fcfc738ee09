"""The widths of drafts that a request may have."""

from __future__ import annotations

from typing import Any

import pytest

from guided.errors import RequestError
from guided.spec import GenerationRequest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_drafted": -1}, "max_drafted -1 is below 0"),
        ({"draft_widths": (1, 0)}, r"draft_widths \[1, 0\] are not 1 to 16 numbers from 1 to 8"),
        ({"draft_widths": (9,)}, r"draft_widths \[9\] are not"),
        ({"draft_widths": (1,) * 17}, "^17 draft_widths are not 1 to 16 numbers"),
    ],
)
def test_what_no_tree_has_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message) as refused:
        GenerationRequest(prompt="x", **options)
    assert refused.value.field == next(iter(options))


def test_the_widest_and_deepest_are_taken() -> None:
    request = GenerationRequest(prompt="x", draft_widths=(8,) * 16, max_drafted=0)
    assert request.draft_widths == (8,) * 16
