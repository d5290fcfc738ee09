"""A short campaign of each fuzzer; those of real tokenizers are in tests/unit/masks."""

from __future__ import annotations

import pytest

from tests.kit.campaign_of_the_day import assert_nothing_is_found
from tests.kit.fuzz_forced import FORCED_OF_REAL
from tests.kit.fuzzers import SUBJECTS


@pytest.mark.parametrize("name", [name for name in SUBJECTS if name not in FORCED_OF_REAL])
def test_a_campaign_finds_nothing(name: str) -> None:
    assert_nothing_is_found(name)
