"""A model over several processes gives the tokens of one process, and each holds its share."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from guided.engine.load import inspect_memory, load_engine
from guided.errors import GuidedError, ModelError, RequestError
from guided.kv.layer_groups import LayerShape
from guided.model.device import CPU
from guided.model.parallel.ranks import Ranks
from guided.model.parallel.split import Parallelism, Split
from guided.spec import Forcing, GenerationRequest
from tests.engine.drafters import Prophet
from tests.engine.forked_ranks import forked
from tests.engine.ranks import saved, sharded
from tests.engine.test_equals_transformers import CITIES, PROMPTS, generated, masked
from tests.engine.test_load_drafters import REQUEST, Notes, save
from tests.engine.test_trees import full_texts
from tests.engine.tiny_models import answers, from_config, make_engine, make_model, results
from tests.kit.causal_types import tiny_config
from tests.service.server_process import children_of


def saved_as(folder: Path, architecture: str) -> int:
    """Save a tiny model; the bytes of its weights."""
    return saved(folder, make_model(architecture, dtype=torch.float32))


@pytest.mark.parametrize(
    ("architecture", "ranks", "heads"),
    [
        ("llama", 2, 1),
        ("gemma3_sliding", 2, 1),
        ("mixtral", 2, 1),
        # Its two key heads do not divide by four, so each rank has all of the attention.
        ("llama", 4, 2),
    ],
)
def test_batches_chunks_and_trees_give_the_tokens_of_one_process(
    tmp_path: Path, architecture: str, ranks: int, heads: int
) -> None:
    whole = saved_as(tmp_path, architecture)
    free = {prompt: GenerationRequest(prompt=prompt, max_tokens=24) for prompt in PROMPTS}
    held_to = {
        prompt: GenerationRequest(
            prompt=prompt, constraint=CITIES, max_tokens=60, forcing=Forcing.STRICT
        )
        for prompt in PROMPTS
    }
    prophet = Prophet(
        full_texts(held_to, answers(make_engine(make_model(architecture)), held_to)), errors=0.3
    )
    with forked(), sharded(tmp_path, Split(Parallelism.TENSOR, ranks)) as (runner, held):
        assert {layer.heads for layer in runner.shape.layers} == {heads}
        assert all(nbytes < 0.75 * whole for nbytes in held)
        assert len(held) == ranks
        engine = make_engine(runner=runner, max_batch=3, step_tokens=5)
        found = {name: answer.tokens for name, answer in answers(engine, free).items()}
        assert found == {prompt: generated(architecture, prompt, 24) for prompt in PROMPTS}
        # The cache is opened again, so that ranks have to follow that as well.
        engine = make_engine(runner=runner, drafters=(prophet,), widest_draft=24)
        trees = answers(engine, held_to)
    assert {name: answer.tokens for name, answer in trees.items()} == {
        prompt: masked(architecture, prompt, CITIES, Forcing.STRICT) for prompt in PROMPTS
    }
    assert sum(result.usage.accepted_tokens for result in trees.values()) > 0


def test_a_lost_rank_ends_the_call_and_the_others_with_its_name(tmp_path: Path) -> None:
    """Only here ranks are started as for users; elsewhere they are forked."""
    saved_as(tmp_path, "llama")
    before = set(children_of(os.getpid()))
    with sharded(tmp_path, Split(Parallelism.TENSOR, 3)) as (runner, _):
        engine = make_engine(runner=runner)
        engine.submit("r", GenerationRequest(prompt="x", max_tokens=24))
        engine.step()
        first, second = sorted(set(children_of(os.getpid())) - before)
        os.kill(second, signal.SIGKILL)
        with pytest.raises(ModelError) as caught:
            results(engine)
        assert str(caught.value) == (
            f"rank 2 (process {second}) was killed by signal 9; load the model again; if memory "
            "ran out, choose a smaller cache or more ranks"
        )
        assert not Path(f"/proc/{first}").exists()
        with pytest.raises(ModelError, match=f"^rank 2 .process {second}. was killed by signal 9"):
            runner.open_storages([8])


def test_a_rank_that_cannot_load_tells_why(tmp_path: Path) -> None:
    """Only this rank cannot: the folder is gone when it reads it."""
    with forked():
        ranks = Ranks.start(
            tmp_path / "gone", torch.float32, CPU, Split(Parallelism.TENSOR, 2), threads=1
        )
    with pytest.raises(ModelError) as caught:
        ranks.wait_until_loaded()
    said = str(caught.value)
    assert re.match(r"rank 1 \(process \d+\) failed: .*/gone", said)
    assert "load the model again" not in said


def test_an_engine_over_ranks_tells_the_memory_of_each(tmp_path: Path) -> None:
    """Loaded as the service does it, beside a draft model, which rank 0 has to itself."""
    target, draft = save(tmp_path / "target"), save(tmp_path / "draft")
    options: dict[str, Any] = {"dtype": "float32", "device": "cpu", "cache_tokens": 256}
    notes = Notes()
    with forked():
        engine = load_engine(
            target, **options, draft_models=[draft], tensor_parallel=2, progress=notes
        )
    found = answers(engine, {"r": REQUEST})["r"].tokens
    engine.close()
    plain = answers(load_engine(target, **options, drafts=False), {"r": REQUEST})["r"].tokens
    assert found == plain
    memory = next(note for note in notes.texts if note.startswith("memory: "))
    assert memory.endswith(", ranks 2 (each takes this)")
    assert "weights by rank: rank 0 155.7 KiB, rank 1 155.7 KiB" in notes.texts
    _, one = inspect_memory(target, **options)
    _, two = inspect_memory(target, **options, tensor_parallel=2)
    assert two.cache == one.cache / 2
    assert two.footprint.weights < 0.6 * one.footprint.weights
    assert two.footprint.free < 0.6 * one.footprint.free


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"dtype": "int8"}, "weights in int8, which our own forward pass computes with"),
        ({"dtype": "stored"}, "weights in stored, which our own forward pass computes with"),
        ({"heads": ["x"]}, "Medusa or EAGLE-3 heads"),
        ({"adapters": {"x": "y"}}, "LoRA adapters"),
    ],
)
def test_settings_that_a_split_model_cannot_have_are_refused_by_name(
    options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(RequestError) as caught:
        load_engine("./nowhere", device="cpu", tensor_parallel=2, **options)
    assert str(caught.value) == (
        f"a model over 2 ranks (tensor_parallel) cannot have {expected}; leave one of the two out"
    )
    assert caught.value.field == "tensor_parallel"


@pytest.mark.parametrize("way", list(Parallelism))
def test_no_rank_at_all_is_refused(way: Parallelism) -> None:
    counts: dict[str, Any] = {way.value: 0}
    with pytest.raises(RequestError, match=rf"^{way} 0 is below 1$"):
        load_engine("./nowhere", device="cpu", **counts)


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        ("gpt2", "has no plan for it in transformers (base_model_tp_plan)"),
        ("lfm2", "has layers that keep a state from token to token"),
    ],
)
def test_models_that_cannot_be_split_are_refused_before_they_are_read(
    tmp_path: Path, architecture: str, expected: str
) -> None:
    config = tiny_config(architecture) if architecture == "lfm2" else None
    model = from_config(config) if config else make_model(architecture, dtype=torch.float32)
    model.save_pretrained(tmp_path)
    with pytest.raises(GuidedError, match="cannot be split over ranks") as caught:
        inspect_memory(str(tmp_path), device="cpu", tensor_parallel=2)
    assert expected in str(caught.value)
    assert "leave tensor_parallel out, or choose a model such as" in str(caught.value)


def test_a_plan_keeps_the_attention_whole_where_heads_do_not_divide(tmp_path: Path) -> None:
    saved_as(tmp_path, "llama_one_key_head")
    _, plan = inspect_memory(str(tmp_path), device="cpu", tensor_parallel=2)
    assert plan.footprint.split is not None
    assert plan.footprint.split.shares[0].layers == (LayerShape(1, 8, 8),) * 2
    assert ("ranks", "2", "each takes this, all of the attention") in plan.lines()
