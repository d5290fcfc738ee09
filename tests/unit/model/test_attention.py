"""Attention over paged rows equals its definition, by torch and by the Triton kernel.

Without a CUDA device the Triton kernel runs in Triton's interpreter, where Triton is installed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from guided.errors import ModelError
from guided.kv.layer_groups import LayerShape
from guided.kv.paged_storage import PagedStorage
from guided.model.attention import (
    KERNEL_VARIABLE,
    AttentionKernel,
    choose_kernel,
    open_attention,
)
from guided.model.torch_attention import ScoreOptions
from guided.model.visible import VisibleSlots
from tests.kit.cuda import HAS_CUDA

DEVICE = torch.device("cuda" if HAS_CUDA else "cpu")
NEEDS_TRITON = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
KERNELS = [
    pytest.param(AttentionKernel.TORCH, id="torch"),
    pytest.param(AttentionKernel.TRITON, id="triton", marks=NEEDS_TRITON),
]
SLOTS = 400


@dataclass(frozen=True)
class Tree:
    """Committed tokens, and new ones as a tree: which token each one follows."""

    committed: int
    parents: tuple[int | None, ...]
    earlier: int = 0
    """The number of new tokens that an earlier call has computed."""


def chain(committed: int, new: int) -> Tree:
    return Tree(committed, (None, *range(new - 1)))


SEQUENCES: dict[str, list[Tree]] = {
    "one token": [chain(20, 1)],
    "first token": [chain(0, 1)],
    "prompt": [chain(0, 70)],
    "chunk of a prompt": [chain(65, 40)],
    "tree": [Tree(9, (None, 0, 0, 1, 2, None, 5))],
    "rest of a tree": [Tree(9, (None, 0, 0, 1, 2, None, 5), earlier=4)],
    "all kinds": [
        chain(130, 1),
        Tree(7, (None, 0, 0, 2)),
        chain(0, 33),
        chain(3, 5),
        chain(64, 2),
        Tree(20, (None, 0, 1, 1, 0, 3), earlier=3),
    ],
    "of like size": [chain(20 + n, 1 + n % 3) for n in range(5)],
}
SHAPES = {
    "one key head a head": (2, 2, 16, 16),
    "shared key heads": (6, 2, 24, 24),
    "one key head": (5, 1, 16, 16),
    "other values": (4, 2, 24, 40),
}
OPTIONS: dict[str, dict[str, float | bool]] = {
    "plain": {},
    "scaled": {"scaling": 0.3},
    "window": {"window": 8},
    "soft cap": {"softcap": 2.0, "scaling": 1.5},
    "sinks": {"sinks": True},
    "all of it": {"window": 5, "softcap": 3.0, "sinks": True, "scaling": 0.7},
}
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}


def seen_by(sequence: Tree, slots: NDArray[np.int64], window: int | None) -> VisibleSlots:
    new, committed = len(sequence.parents), sequence.committed
    among = np.eye(new, dtype=np.bool_)
    depths: list[int] = []
    for node, parent in enumerate(sequence.parents):
        depths.append(0 if parent is None else depths[parent] + 1)
        if parent is not None:
            among[node] |= among[parent]
    sees = np.concatenate([np.ones((new, committed), np.bool_), among], axis=1)
    positions = np.concatenate([np.arange(committed), committed + np.array(depths)])
    if window is not None:
        sees &= positions[committed:, None] - positions[None, :] < window
    return VisibleSlots(slots, sees[sequence.earlier :], sequence.earlier)


def by_definition(
    query: torch.Tensor,
    rows: tuple[torch.Tensor, torch.Tensor],
    seen: Sequence[VisibleSlots],
    scaling: float | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Token by token and head by head, in fp64."""
    query, keys, values = query.double().cpu(), rows[0].double().cpu(), rows[1].double().cpu()
    heads, shared = query.shape[1], query.shape[1] // keys.shape[1]
    scale = 1 / math.sqrt(query.shape[2]) if scaling is None else scaling
    output = query.new_zeros(len(query), heads, values.shape[2])
    token = 0
    for sequence in seen:
        for sees in sequence.mask:
            slots = torch.from_numpy(sequence.slots[sees])
            for head in range(heads):
                scores = keys[slots, head // shared] @ query[token, head] * scale
                if softcap is not None:
                    scores = softcap * torch.tanh(scores / softcap)
                weights = scores.exp()
                lost = 0.0 if sinks is None else float(sinks[head].double().exp())
                mixed = weights @ values[slots, head // shared]
                output[token, head] = mixed / (weights.sum() + lost)
            token += 1
    return output


def check(
    kernel: AttentionKernel,
    sequences: Sequence[Tree],
    shape: tuple[int, int, int, int],
    *,
    dtype: torch.dtype = torch.float32,
    scaling: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    sinks: bool = False,
    is_quantised: bool = False,
    in_order: bool = False,
) -> None:
    heads, kv_heads, size, value_size = shape
    torch.manual_seed(0)
    layer = LayerShape(kv_heads, size, value_size)
    storage = PagedStorage({0: layer}, SLOTS, dtype=dtype, device=DEVICE, is_quantised=is_quantised)
    every = storage.locate(np.arange(SLOTS))
    storage.layers[0].write(
        every,
        torch.randn(SLOTS, kv_heads, size, device=DEVICE, dtype=dtype),
        torch.randn(SLOTS, kv_heads, value_size, device=DEVICE, dtype=dtype),
    )
    free = np.arange(SLOTS) if in_order else np.random.default_rng(1).permutation(SLOTS)
    seen, taken = [], 0
    for sequence in sequences:
        rows = sequence.committed + len(sequence.parents)
        seen.append(seen_by(sequence, free[taken : taken + rows], window))
        taken += rows
    tokens = sum(len(rows.mask) for rows in seen)
    query = torch.randn(tokens, heads, size, device=DEVICE, dtype=dtype)
    drawn = torch.randn(heads, device=DEVICE, dtype=dtype) if sinks else None
    found = open_attention(kernel, seen, dtype=dtype, device=DEVICE).attend(
        query, storage.layers[0], ScoreOptions(scaling, softcap, drawn)
    )
    expected = by_definition(query, storage.layers[0].read(every), seen, scaling, softcap, drawn)
    assert (found.shape, found.dtype) == ((tokens, heads, value_size), dtype)
    difference = (found.double().cpu() - expected).norm() / expected.norm()
    assert difference < TOLERANCE[dtype]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("sequences", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_each_token_sees_its_own_rows_alone(
    kernel: AttentionKernel, sequences: list[Tree], options: dict[str, float | bool]
) -> None:
    check(kernel, sequences, SHAPES["shared key heads"], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_heads_may_share_keys_and_values_be_of_another_size(
    kernel: AttentionKernel, shape: tuple[int, int, int, int]
) -> None:
    check(kernel, SEQUENCES["all kinds"], shape, sinks=True, softcap=3.0)
    check(kernel, SEQUENCES["prompt"], shape, in_order=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kernel", KERNELS)
def test_half_precision(kernel: AttentionKernel, dtype: torch.dtype) -> None:
    if kernel is AttentionKernel.TRITON and dtype == torch.bfloat16 and not HAS_CUDA:
        pytest.skip("Triton's interpreter multiplies the bits of bf16 as whole numbers")
    check(kernel, SEQUENCES["all kinds"], SHAPES["shared key heads"], dtype=dtype)


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_of_bytes(kernel: AttentionKernel) -> None:
    shape = SHAPES["other values"]
    check(kernel, SEQUENCES["all kinds"], shape, is_quantised=True, window=20)
    check(kernel, SEQUENCES["of like size"], shape, is_quantised=True, in_order=True)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    new = draw(st.integers(1, 12))
    parents = [draw(st.none() | st.integers(0, node - 1)) if node else None for node in range(new)]
    return Tree(draw(st.integers(0, 80)), tuple(parents), draw(st.integers(0, new - 1)))


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=25, deadline=None)
@given(
    sequences=st.lists(trees(), min_size=1, max_size=4),
    kv_heads=st.integers(1, 2),
    shared=st.integers(1, 4),
    window=st.none() | st.integers(1, 90),
    softcap=st.none() | st.floats(0.5, 20),
    sinks=st.booleans(),
)
def test_any_trees_beside_each_other(
    kernel: AttentionKernel,
    sequences: list[Tree],
    kv_heads: int,
    shared: int,
    window: int | None,
    softcap: float | None,
    sinks: bool,
) -> None:
    shape = (kv_heads * shared, kv_heads, 16, 16)
    check(kernel, sequences, shape, window=window, softcap=softcap, sinks=sinks)


@pytest.mark.parametrize(
    ("device", "dtype", "has_triton", "kernel"),
    [
        ("cuda", torch.bfloat16, True, AttentionKernel.TRITON),
        ("cuda", torch.float64, True, AttentionKernel.TORCH),
        ("cuda", torch.bfloat16, False, AttentionKernel.TORCH),
        ("cpu", torch.bfloat16, True, AttentionKernel.TORCH),
    ],
)
def test_triton_computes_where_it_can(
    device: str,
    dtype: torch.dtype,
    has_triton: bool,
    kernel: AttentionKernel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(KERNEL_VARIABLE, raising=False)
    found = object() if has_triton else None
    monkeypatch.setattr("guided.model.attention.find_spec", lambda _name: found)
    assert choose_kernel(dtype, torch.device(device)) is kernel


def test_a_kernel_may_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guided.model.attention.find_spec", lambda _name: object())
    cuda = torch.device("cuda")
    monkeypatch.setenv(KERNEL_VARIABLE, "torch")
    assert choose_kernel(torch.bfloat16, cuda) is AttentionKernel.TORCH
    monkeypatch.setenv(KERNEL_VARIABLE, "triton")
    assert choose_kernel(torch.bfloat16, cuda) is AttentionKernel.TRITON
    for dtype, device in ((torch.float64, cuda), (torch.bfloat16, torch.device("cpu"))):
        with pytest.raises(ModelError, match="needs a CUDA device, Triton"):
            choose_kernel(dtype, device)


def test_a_kernel_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KERNEL_VARIABLE, "flash")
    with pytest.raises(ModelError, match="flash names none of torch, triton"):
        choose_kernel(torch.float32, torch.device("cpu"))


@NEEDS_TRITON
def test_rows_with_a_gap_are_an_error() -> None:
    sees = np.array([[True, False, True, True]])
    with pytest.raises(ValueError, match="does not see all rows from its first one"):
        open_attention(
            AttentionKernel.TRITON,
            [VisibleSlots(np.arange(4), sees)],
            dtype=torch.float32,
            device=DEVICE,
        )
