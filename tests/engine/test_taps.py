"""The inputs of a model's layers are returned as transformers reports them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from guided.kv.block_cache import BlockCache, LayerGroup
from guided.model.batch import Segment, SegmentOutput, StepBatch
from guided.model.cpu import WeightFormat
from guided.model.runner import ModelRunner
from guided.spec import TokenId
from tests.engine.tiny_models import make_model

TEXTS = ((5, 9, 200, 31, 7), (3, 250, 11))


def run(runner: ModelRunner, wants_hidden_states: tuple[bool, bool]) -> list[SegmentOutput]:
    cache = BlockCache([LayerGroup(20, window) for window in runner.windows], 4)
    runner.open_storages([pool.num_slots for pool in cache.pools])
    segments = [
        Segment(
            num_committed=0,
            reservations=cache.open().reserve(len(tokens)),
            tokens=tuple(map(TokenId, tokens)),
            depths=tuple(range(len(tokens))),
            ancestors=None,
            nodes_needing_logits=(len(tokens) - 1,),
            wants_hidden_states=wanted,
        )
        for tokens, wanted in zip(TEXTS, wants_hidden_states, strict=True)
    ]
    return runner.forward(StepBatch(tuple(segments))).split(segments)


@torch.no_grad()
def hidden_states(model: Any, tokens: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    output = model(torch.tensor([tokens]), output_hidden_states=True)
    return [states[0].float().numpy() for states in output.hidden_states]


@pytest.mark.parametrize("weights", [None, WeightFormat.FP32])
@pytest.mark.parametrize("architecture", ["llama", "gemma3_sliding"])
def test_taps_are_what_enters_the_layers(architecture: str, weights: WeightFormat | None) -> None:
    model = make_model(architecture, dtype=torch.float32)
    expected = [hidden_states(model, tokens) for tokens in TEXTS]
    last = len(expected[0]) - 2
    runner = ModelRunner(model, vocabulary_size=271, weights=weights)
    runner.tap((last, 0))
    for output, states in zip(run(runner, (True, True)), expected, strict=True):
        tapped = np.concatenate((states[last], states[0]), axis=1)
        np.testing.assert_allclose(output.taps, tapped, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(output.states, states[-1], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("weights", [None, WeightFormat.FP32])
def test_only_who_asks_gets_them(weights: WeightFormat | None) -> None:
    runner = ModelRunner(make_model(dtype=torch.float32), vocabulary_size=271, weights=weights)
    size = runner.embedding.shape[1]
    asked, other = run(runner, (True, False))
    assert (asked.taps.shape, other.taps.shape[0]) == ((5, 0), 0)
    runner.tap((1,))
    asked, other = run(runner, (True, False))
    assert (asked.taps.shape, other.taps.shape[0]) == ((5, size), 0)
    for nobody in run(runner, (False, False)):
        assert nobody.taps.shape[0] == 0
