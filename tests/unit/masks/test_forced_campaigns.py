"""A short campaign of the forced runs of each real tokenizer.

It is in this folder for speed: its other tests need the same tokenizers, and tests of one folder
mostly run in one process, which loads each once; all together take twenty seconds.
"""

from __future__ import annotations

import pytest

from tests.kit.campaign_of_the_day import assert_nothing_is_found
from tests.kit.fuzz_forced import FORCED_OF_REAL
from tests.kit.tokenizers import real_vocabulary


@pytest.mark.parametrize(("subject", "tokenizer"), FORCED_OF_REAL.items())
def test_a_campaign_finds_nothing(subject: str, tokenizer: str) -> None:
    real_vocabulary(tokenizer)  # loaded here, because the time for it is not the campaign's
    assert_nothing_is_found(subject)
