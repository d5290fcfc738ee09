"""A commit's moves take the right rows of every layer along."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.kv import SlotPool
from guided.kv.storage import LayerShape, SequenceStorage


@given(
    committed=st.integers(0, 4),
    count=st.integers(1, 8),
    choice=st.sets(st.integers(0, 7)),
)
@settings(max_examples=60, deadline=None)
def test_kept_rows_are_in_order_in_every_layer(
    committed: int, count: int, choice: set[int]
) -> None:
    layers = [LayerShape(heads=2, key_size=3, value_size=5), LayerShape(1, 4, 4)]
    storage = SequenceStorage(layers, 12, dtype=torch.float32, device=torch.device("cpu"))
    for rows in (*storage.keys, *storage.values):
        rows[:] = torch.arange(12.0)[None, None, :, None]
    slots = SlotPool(12).open(12)
    slots.reserve(committed)
    slots.commit(range(committed))
    slots.reserve(count)
    kept = sorted(offset for offset in choice if offset < count)
    storage.move(slots.commit(kept))
    expected = [float(row) for row in range(committed)]
    expected += [float(committed + offset) for offset in kept]
    for rows in (*storage.keys, *storage.values):
        assert rows[0, :, : len(expected), 0].tolist() == [expected] * rows.shape[1]
