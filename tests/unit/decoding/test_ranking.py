"""The first of many by a key are those that sorting all of them would give."""

from __future__ import annotations

import numpy as np
import pytest

from guided.decoding.filters import least


@pytest.mark.parametrize("keys", [[3.0, 1.0, 2.0, 1.0, 1.0], [0.0], [], [5.0, 5.0, 5.0]])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 9])
def test_the_least_are_the_first_when_sorted(keys: list[float], count: int) -> None:
    ordered = sorted(range(len(keys)), key=lambda index: (keys[index], index))
    assert least(np.array(keys), count).tolist() == ordered[:count]
