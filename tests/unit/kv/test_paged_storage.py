"""Rows are read as they were written, whatever their slots, on every device of this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.kv import BlockCache, LayerGroup, SlotCopies
from guided.kv.layer_groups import LayerShape, bytes_per_slot
from guided.kv.paged_storage import PagedStorage
from guided.spec import TokenId

LAYERS = {1: LayerShape(heads=2, key_size=6, value_size=4), 4: LayerShape(1, 8, 8)}
SLOTS = 24
CPU = torch.device("cpu")
STATUS = Path("/proc/self/status")
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    ),
]


def storage_of(
    dtype: torch.dtype = torch.float32, device: torch.device = CPU, *, is_quantised: bool = False
) -> PagedStorage:
    return PagedStorage(LAYERS, SLOTS, dtype=dtype, device=device, is_quantised=is_quantised)


def random_rows(
    count: int, layer: LayerShape, dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    rows = [
        torch.randn(count, layer.heads, size, generator=generator)
        for size in (layer.key_size, layer.value_size)
    ]
    key, value = (row.to(device, dtype) for row in rows)
    return key, value


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layer", LAYERS)
def test_rows_come_back_exactly(device: str, dtype: torch.dtype, layer: int) -> None:
    storage = storage_of(dtype, torch.device(device))
    written = random_rows(5, LAYERS[layer], dtype, torch.device(device))
    slots = storage.locate(np.array([9, 3, 20, 4, 10]))
    storage.layers[layer].write(slots, *written)
    for back, rows in zip(storage.layers[layer].read(slots), written, strict=True):
        assert back.dtype == dtype
        torch.testing.assert_close(back, rows, rtol=0, atol=0)
    others = storage.layers[5 - layer].read(slots)
    assert not any(rows.any() for rows in others), "another layer was written"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_quantised_rows_come_back_within_their_bound(
    device: str, dtype: torch.dtype, scale: float
) -> None:
    storage = storage_of(dtype, torch.device(device), is_quantised=True)
    slots = storage.locate(np.array([9, 3, 20, 4, 10]))
    written = random_rows(5, LAYERS[1], dtype, torch.device(device))
    key, value = (rows * scale for rows in written)
    storage.layers[1].write(slots, key, value)
    step = torch.finfo(dtype).eps / 2 if dtype != torch.float32 else 1e-6
    for back, rows in zip(storage.layers[1].read(slots), (key, value), strict=True):
        assert back.dtype == dtype
        largest = rows.abs().amax(dim=-1, keepdim=True).float()
        error = (back.float() - rows.float()).abs()
        assert bool((error <= largest / 254 + largest * step).all())
        assert bool(error.any()), "nothing was rounded"


def test_a_head_of_zeros_stays_zero_when_quantised() -> None:
    storage = storage_of(is_quantised=True)
    slots = storage.locate(np.array([2]))
    key, value = random_rows(1, LAYERS[1], torch.float32, CPU)
    storage.layers[1].write(slots, torch.zeros_like(key), value)
    assert not storage.layers[1].read(slots)[0].any()


def test_what_is_written_lies_in_its_slots() -> None:
    """Kernels read it there."""
    layer = storage_of().layers[4]
    key, value = random_rows(3, LAYERS[4], torch.float32, CPU)
    layer.write(torch.tensor([6, 9, 7]), key, value)
    torch.testing.assert_close(layer.keys.numbers[[6, 9, 7]], key)
    torch.testing.assert_close(layer.values.numbers[[6, 9, 7]], value)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("is_quantised", [False, True])
def test_overlapping_copies_read_before_they_write(device: str, is_quantised: bool) -> None:
    storage = storage_of(device=torch.device(device), is_quantised=is_quantised)
    every = storage.locate(np.arange(8))
    for layer, shape in LAYERS.items():
        storage.layers[layer].write(
            every, *random_rows(8, shape, torch.float32, torch.device(device))
        )
    before = {layer: storage.layers[layer].read(every) for layer in LAYERS}
    storage.copy(SlotCopies(np.array([1, 2, 3, 0]), np.array([0, 1, 2, 5])))
    for layer in LAYERS:
        for old, new in zip(before[layer], storage.layers[layer].read(every), strict=True):
            torch.testing.assert_close(new, old[[1, 2, 3, 3, 4, 0, 6, 7]], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_quantised", [False, True])
def test_the_size_of_a_slot_is_what_the_storage_takes(
    dtype: torch.dtype, is_quantised: bool
) -> None:
    storage = storage_of(dtype, is_quantised=is_quantised)
    a_slot = bytes_per_slot(LAYERS.values(), dtype, is_quantised=is_quantised)
    assert storage.nbytes == SLOTS * a_slot


@pytest.mark.skipif(not STATUS.exists(), reason="the system does not tell")
def test_slots_that_were_never_written_take_no_memory() -> None:
    """A storage of 512 MiB, in which one token is written to the middle of all layers."""
    layers = dict.fromkeys(range(32), LayerShape(2, 64, 64))
    before = resident_mebibytes()
    storage = PagedStorage(layers, 2**14, dtype=torch.float32, device=CPU)
    assert storage.nbytes == 512 * 2**20
    for layer in storage.layers.values():
        layer.write(torch.tensor([2**13]), torch.ones(1, 2, 64), torch.ones(1, 2, 64))
    assert resident_mebibytes() - before < 32


def resident_mebibytes() -> float:
    told = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(told["RssAnon"].split()[0]) / 1024


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 1), st.integers(1, 5), st.sets(st.integers(0, 4))), max_size=12
    )
)
@settings(max_examples=40, deadline=None)
def test_two_sequences_that_fork_read_what_a_tensor_of_their_own_would_hold(
    steps: list[tuple[int, int, set[int]]],
) -> None:
    cache = BlockCache([LayerGroup(32)], block_size=4)
    storage = PagedStorage(
        {0: LayerShape(1, 3, 2)}, cache.pools[0].num_slots, dtype=torch.float32, device=CPU
    )
    first = cache.open()
    first.reserve(3)
    first.commit(range(3), [TokenId(0)] * 3)
    sequences = [first, first.fork()]
    plain = [torch.zeros(3, 1, 3), torch.zeros(3, 1, 3)]
    written = 0
    for which, count, choice in steps:
        sequence, kept = sequences[which], sorted(row for row in choice if row < count)
        (reservation,) = sequence.reserve(count)
        storage.copy(reservation.copies)
        written += count
        rows = torch.arange(written - count, written)[:, None, None].float() + torch.ones(1, 3)
        storage.layers[0].write(storage.locate(reservation.slots), rows, rows[:, :, :2])
        (copies,) = sequence.commit(kept, [TokenId(which)] * len(kept))
        storage.copy(copies)
        plain[which] = torch.cat((plain[which], rows[kept]))
        for other, expected in zip(sequences, plain, strict=True):
            table = other.tables[0]
            keys, values = storage.layers[0].read(storage.locate(table.slots()))
            torch.testing.assert_close(keys, expected)
            torch.testing.assert_close(values, expected[:, :, :2])
