"""Rows of logits are fetched when they are read."""

from __future__ import annotations

import numpy as np
import torch

from guided.model.logits_rows import LogitsRows
from guided.spec import TokenId

LOGITS = torch.arange(12, dtype=torch.bfloat16).view(4, 3)


def test_rows_are_float32_whatever_the_model_computes() -> None:
    rows = LogitsRows(LOGITS)
    assert len(rows) == 4
    assert rows.drawn == (None,) * 4
    assert rows[2].dtype == np.float32
    assert rows[2].tolist() == [6, 7, 8]
    assert rows.part(1, 3).tolist() == [[3, 4, 5], [6, 7, 8]]
    assert rows.part(2, 2).shape == (0, 3)
    # No copy: there are many rows, each as wide as the vocabulary.
    assert np.shares_memory(rows.part(1, 3), rows.part(0, 4))


def test_a_row_that_was_drawn_from_is_fetched_only_when_it_is_read() -> None:
    logits = LOGITS.clone()
    rows = LogitsRows(logits, [TokenId(1), None, TokenId(2), None])
    logits.zero_()
    assert rows.drawn == (1, None, 2, None)
    assert rows[1].tolist() == [3, 4, 5]
    assert rows[0].tolist() == [0, 0, 0]
    assert rows.part(0, 4).tolist() == [[0, 0, 0], [3, 4, 5], [0, 0, 0], [9, 10, 11]]
