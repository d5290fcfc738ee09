"""A model computes on the device that was chosen, with the answers of the CPU."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, LlamaConfig

from guided.engine import load_engine
from guided.engine.load import inspect_memory
from guided.errors import ModelError, RequestError
from guided.kv.block_cache import BlockCache, LayerGroup
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import Segment, StepBatch
from guided.model.cpu.instructions import best_instructions
from guided.model.probe import probe_model
from guided.model.progress import SilentProgress
from guided.model.runner import ModelRunner
from guided.spec import (
    GenerationRequest,
    JsonSchema,
    Rank,
    Sampling,
    TokenId,
)
from tests.engine.tiny_models import answers, from_config, make_model
from tests.kit.cuda import NEEDS_CUDA
from tests.kit.tokenizers import real_tokenizer

SCHEMA = JsonSchema(
    '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},'
    ' "age": {"type": "integer"}}, "required": ["name", "age"], "additionalProperties": false}'
)
REQUESTS = {
    "free": GenerationRequest("The capital of France is", max_tokens=20),
    "longer": GenerationRequest("one two three " * 30, max_tokens=12),
    "constrained": GenerationRequest("Somebody:", constraint=SCHEMA, max_tokens=40),
    "contrastive": GenerationRequest(
        "a b c", sampling=Sampling(penalty_alpha=0.6, top_k=3), max_tokens=8
    ),
}


def make_config(**options: Any) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=49_152,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.5,
        pad_token_id=None,
        **options,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model in a folder, as users have models."""
    path = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    from_config(make_config()).save_pretrained(path)
    real_tokenizer("smollm2").save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny reward model."""
    path = tmp_path_factory.mktemp("judge")
    torch.manual_seed(1)
    module = AutoModelForSequenceClassification.from_config(make_config(num_labels=1))  # type: ignore[no-untyped-call]
    module.save_pretrained(path)
    real_tokenizer("smollm2").save_pretrained(path)
    return path


class Notes(SilentProgress):
    """Keeps the messages that it gets."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_on_the_cpu_all_is_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The forward pass is our own, which only the CPU has; ``auto`` without CUDA is the same."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    caplog.set_level(logging.INFO)
    told, found = [], []
    every: tuple[dict[str, Any], ...] = ({}, {"device": "auto"}, {"device": "cpu"})
    for options in every:
        notes = Notes()
        engine = load_engine(str(folder), threads=1, progress=notes, **options)
        results = answers(engine, REQUESTS)
        found.append({name: result.tokens for name, result in results.items()})
        told.append(notes.texts)
    assert found[0] == found[1] == found[2]
    for device, memory, drafters in told:
        assert device == f"device: cpu, {best_instructions()}"
        assert memory.startswith("memory: weights ")
        assert drafters == "drafters: lookup, suffix (at most 32 MiB of earlier answers)"
    assert "transformers computes" not in caplog.text


def test_cuda_is_refused_before_a_model_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for ask in (load_engine, inspect_memory):
        with pytest.raises(ModelError, match=r"^there is no cuda:0: torch .* set device to 'cpu'$"):
            ask("./nowhere", device="cuda")
        with pytest.raises(RequestError, match="device 'gpu' is none of"):
            ask("./nowhere", device="gpu")


@pytest.mark.parametrize("is_quantised", [False, True])
@pytest.mark.parametrize("architecture", ["llama", "gemma2_soft_capped", "gemma3_sliding"])
def test_a_step_keeps_to_the_device_of_the_model(
    architecture: str, is_quantised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device without memory shows it on any machine: it refuses most tensors of other devices.

    The results of a step cannot be fetched from there, which is the last thing a step does. Nor can
    those of the trial, so the findings of the trial are taken from the model on the CPU.
    """
    model = make_model(architecture)
    shape = replace(probe_model(model), device=torch.device("meta"))
    monkeypatch.setattr("guided.model.runner.probe_model", lambda *_: shape)
    runner = ModelRunner(
        model.to_empty(device="meta"), vocabulary_size=200, quantise_cache=is_quantised
    )
    cache = BlockCache([LayerGroup(20, window) for window in runner.windows], 4)
    runner.open_storages([pool.num_slots for pool in cache.pools])
    sequences = [cache.open(), cache.open()]
    for sizes in ((9, 3), (1, 5)):
        batch = StepBatch(tuple(map(segment, sequences, sizes)))
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
            runner.forward(batch).split(batch.segments)
        for sequence, size in zip(sequences, sizes, strict=True):
            runner.copy(sequence.commit(range(size), [TokenId(7)] * size))


def segment(sequence: SequenceBlocks, size: int) -> Segment:
    """Tokens in a row, and a choice after each."""
    return Segment(
        num_committed=sequence.committed,
        reservations=sequence.reserve(size),
        tokens=(TokenId(7),) * size,
        depths=tuple(range(size)),
        ancestors=None,
        nodes_needing_logits=tuple(range(size)),
    )


@NEEDS_CUDA
@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:0"])
def test_on_cuda_the_tokens_are_those_of_the_cpu(
    device: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    notes = Notes()
    engine = load_engine(str(folder), dtype="float32", device=device, progress=notes)
    assert notes.texts[0].startswith("device: cuda:0 (")
    assert notes.texts[1].endswith(" (on cuda:0)")
    assert "the weights of LlamaForCausalLM are on cuda:0" in caplog.text
    found = answers(engine, REQUESTS)
    expected = answers(load_engine(str(folder), dtype="float32", device="cpu"), REQUESTS)
    assert {name: result.tokens for name, result in found.items()} == {
        name: result.tokens for name, result in expected.items()
    }


@NEEDS_CUDA
@pytest.mark.parametrize("options", [{}, {"dtype": "float16"}, {"kv_dtype": "int8"}])
def test_on_cuda_answers_fit_their_schema(folder: Path, options: dict[str, Any]) -> None:
    engine = load_engine(str(folder), device="cuda", **options)
    results = answers(engine, REQUESTS)
    assert all(result.tokens for result in results.values())
    assert set(json.loads(results["constrained"].text)) == {"name", "age"}


@NEEDS_CUDA
def test_on_cuda_a_reward_model_ranks_answers(folder: Path, judge: Path) -> None:
    engine = load_engine(str(folder), device="cuda", reward_model=str(judge))
    asked = GenerationRequest(
        "who?", max_tokens=8, sampling=Sampling(1.0, seed=4), best_of=4, n=3, rank=Rank.REWARD
    )
    scores = [one.score for one in answers(engine, {"r": asked})["r"].candidates]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


@NEEDS_CUDA
def test_on_cuda_int8_weights_are_refused(folder: Path) -> None:
    with pytest.raises(RequestError, match="for the CPU alone, not for cuda:0"):
        load_engine(str(folder), dtype="int8", device="cuda")
