"""Calls replayed from graphs give the results of the same calls without graphs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

from guided.model.batch import Segment, StepBatch
from guided.model.cuda_graphs import CudaGraphs
from tests.kit.cuda import NEEDS_CUDA
from tests.unit.model.test_fixed_inputs import Texts, by_itself, chain, tree

pytestmark = NEEDS_CUDA
DEVICE = torch.device("cuda", 0)


@pytest.mark.parametrize("architecture", ["llama", "gemma2_soft_capped", "gemma3_sliding"])
def test_a_replayed_call_says_the_same(architecture: str) -> None:
    texts = Texts(architecture, 2)
    texts.read([[5, 6, 7, 8, 9, 10], [11]])
    graphs = CudaGraphs(texts.module, texts.storages, DEVICE)
    first, second = texts.texts
    batches: list[Callable[[], list[Segment]]] = [
        lambda: [chain(first, [12])],
        lambda: [chain(first, [13]), chain(second, [14])],
        lambda: [tree(first, [15, 16, 17], [-1, 0, 0]), chain(second, [18])],
        lambda: [chain(first, [19])],  # by the graph of the first
        lambda: [chain(first, list(range(20, 29)))],
    ]
    for segments in batches:
        batch = StepBatch(tuple(segments()))
        found = graphs.logits(batch)
        assert found is not None
        assert torch.allclose(found, by_itself(texts, batch), rtol=1e-4, atol=1e-4)
        for text in texts.texts:
            text.commit((), ())


def test_what_it_said_is_kept_when_more_is_asked() -> None:
    texts = Texts("llama", 1)
    graphs = CudaGraphs(texts.module, texts.storages, DEVICE)
    (text,) = texts.texts
    said = graphs.logits(StepBatch((chain(text, [5]),)))
    assert said is not None
    kept = said.clone()
    text.commit((), ())
    other = graphs.logits(StepBatch((chain(text, [6]),)))
    assert other is not None
    assert not torch.equal(said, other)
    assert torch.equal(said, kept)


def test_a_module_that_looks_at_the_device_is_called_without_graphs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    texts = Texts("llama", 1)
    whole = texts.module.forward

    def looking(*arguments: Any, **options: Any) -> Any:
        output = whole(*arguments, **options)
        assert float(output.logits.max().item()) < 1e9
        return output

    texts.module.forward = looking
    batch = StepBatch((chain(texts.texts[0], [5, 6]),))
    with caplog.at_level(logging.WARNING):
        graphs = CudaGraphs(texts.module, texts.storages, DEVICE)
        assert graphs.logits(batch) is None
    assert "LlamaForCausalLM is called without graphs: " in caplog.text
    assert graphs.logits(batch) is None
    assert by_itself(texts, batch).shape[0] == 2
