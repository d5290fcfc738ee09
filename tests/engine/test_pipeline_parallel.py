"""A model over a line of processes gives the tokens of one, and each holds only its layers."""

from __future__ import annotations

import copy
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from guided.engine.load import inspect_memory, load_engine
from guided.errors import GuidedError, ModelError, RequestError
from guided.kv.layer_groups import NO_KEYS
from guided.model.parallel.split import Parallelism, Split
from guided.spec import Forcing, GenerationRequest
from tests.engine.architectures import CONFIGS, OTHER_CONFIGS
from tests.engine.drafters import Prophet
from tests.engine.forked_ranks import forked
from tests.engine.ranks import saved, sharded
from tests.engine.test_equals_transformers import CITIES, PROMPTS
from tests.engine.test_load_drafters import REQUEST, Notes, save
from tests.engine.test_trees import full_texts
from tests.engine.tiny_models import answers, from_config, make_engine, make_model, results
from tests.kit.causal_types import tiny_config
from tests.kit.effort import crossed


def four_layers(architecture: str) -> PreTrainedModel:
    """A tiny model with a layer for each of four ranks."""
    torch.manual_seed(4)
    config = copy.deepcopy((CONFIGS | OTHER_CONFIGS)[architecture])
    config.num_hidden_layers = 4
    if getattr(config, "layer_types", None):
        config.layer_types = [*config.layer_types, *config.layer_types]
    config._experts_implementation = "eager"
    model = from_config(config)
    torch.nn.Module.to(model, dtype=torch.float32)
    return model


@pytest.mark.parametrize(
    ("architecture", "ranks"), crossed(["llama", "gemma3_sliding", "mixtral"], [2, 4])
)
def test_batches_chunks_copies_and_trees_give_the_tokens_of_one_process(
    tmp_path: Path, architecture: str, ranks: int
) -> None:
    """Texts begin alike, so that rows are shared and copied; wide calls are micro-batches."""
    whole = saved(tmp_path, four_layers(architecture))
    free = {
        f"{prompt}{end}": GenerationRequest(prompt=f"{PROMPTS[2]}{prompt}{end}", max_tokens=12)
        for prompt in PROMPTS
        for end in ("", "c")
    }
    held_to = {
        prompt: GenerationRequest(
            prompt=prompt, constraint=CITIES, max_tokens=60, forcing=Forcing.STRICT
        )
        for prompt in PROMPTS
    }
    options: dict[str, Any] = {"reuse_prefixes": True, "max_batch": 4}
    one = make_engine(four_layers(architecture), **options)
    expected = {name: answer.tokens for name, answer in answers(one, free).items()}
    certain = answers(make_engine(four_layers(architecture)), held_to)
    prophet = Prophet(full_texts(held_to, certain), errors=0.3)
    with forked(), sharded(tmp_path, Split(Parallelism.PIPELINE, ranks)) as (runner, held):
        kept = [sum(layer != NO_KEYS for layer in layers) for layers in runner.layers_by_rank]
        assert kept == [4 // ranks] * ranks
        assert all(nbytes < 0.75 * whole for nbytes in held)
        for step_tokens in (512, 5):
            engine = make_engine(runner=runner, step_tokens=step_tokens, **options)
            found = {name: answer.tokens for name, answer in answers(engine, free).items()}
            assert found == expected
        # The cache is opened again, so that ranks have to follow that as well.
        engine = make_engine(runner=runner, drafters=(prophet,), widest_draft=24)
        trees = answers(engine, held_to)
    assert {name: answer.tokens for name, answer in trees.items()} == {
        name: answer.tokens for name, answer in certain.items()
    }
    assert sum(result.usage.accepted_tokens for result in trees.values()) > 0


def test_a_lost_rank_ends_the_call_and_the_others_with_its_name(tmp_path: Path) -> None:
    """The first of the line, which sends nothing to rank 0."""
    saved(tmp_path, four_layers("llama"))
    with forked() as processes, sharded(tmp_path, Split(Parallelism.PIPELINE, 3)) as (runner, _):
        engine = make_engine(runner=runner)
        engine.submit("r", GenerationRequest(prompt="x", max_tokens=24))
        engine.step()
        first, second = processes
        os.kill(first, signal.SIGKILL)
        with pytest.raises(ModelError) as caught:
            results(engine)
        assert str(caught.value) == (
            f"rank 1 (process {first}) was killed by signal 9; load the model again; if memory "
            "ran out, choose a smaller cache or more ranks"
        )
        assert not Path(f"/proc/{second}").exists()


def test_an_engine_over_a_line_tells_the_memory_of_each_rank(tmp_path: Path) -> None:
    """Loaded as the service does it, beside a draft model, which rank 0 has to itself."""
    target, draft = save(tmp_path / "target"), save(tmp_path / "draft")
    options: dict[str, Any] = {"dtype": "float32", "device": "cpu", "cache_tokens": 256}
    notes = Notes()
    with forked():
        engine = load_engine(
            target, **options, draft_models=[draft], pipeline_parallel=2, progress=notes
        )
    found = answers(engine, {"r": REQUEST})["r"].tokens
    engine.close()
    plain = answers(load_engine(target, **options, drafts=False), {"r": REQUEST})["r"].tokens
    assert found == plain
    memory = next(note for note in notes.texts if note.startswith("memory: "))
    assert memory.endswith(
        ", ranks 2 (none takes more than this)"
        ", rank 0 187.4 KiB (layers 1 to 1, head; weights 155.4 KiB, cache 32.0 KiB)"
        ", rank 1 187.4 KiB (layers 0 to 0, embedding; weights 155.4 KiB, cache 32.0 KiB)"
    )
    assert "weights by rank: rank 0 155.4 KiB, rank 1 155.3 KiB" in notes.texts
    _, one = inspect_memory(target, **options)
    _, two = inspect_memory(target, **options, pipeline_parallel=2)
    assert two.cache == one.cache / 2
    assert [rank.cache for rank in two.by_rank] == [one.cache / 2] * 2
    assert two.footprint.weights < 0.6 * one.footprint.weights
    assert two.footprint.free < 0.6 * one.footprint.free


def test_layers_are_split_by_their_bytes(tmp_path: Path) -> None:
    """The embedding is as large as three layers, and is the head as well: it is there twice."""
    config = copy.deepcopy(CONFIGS["llama"])
    config.update({"num_hidden_layers": 8, "tie_word_embeddings": True})
    saved(tmp_path, from_config(config))
    _, plan = inspect_memory(str(tmp_path), device="cpu", dtype="float32", pipeline_parallel=3)
    assert [rank.holds for rank in plan.by_rank] == [
        "layers 6 to 7, head",
        "layers 0 to 1, embedding",
        "layers 2 to 5",
    ]
    smallest, largest = sorted(rank.weights for rank in plan.by_rank)[::2]
    assert largest < 1.3 * smallest
    assert plan.footprint.weights == largest


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"dtype": "int8"}, "weights in int8, which our own forward pass computes with"),
        ({"heads": ["x"]}, "Medusa or EAGLE-3 heads"),
        ({"adapters": {"x": "y"}}, "LoRA adapters"),
    ],
)
def test_settings_that_a_split_model_cannot_have_are_refused_by_name(
    options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(RequestError) as caught:
        load_engine("./nowhere", device="cpu", pipeline_parallel=2, **options)
    assert str(caught.value) == (
        f"a model over 2 ranks (pipeline_parallel) cannot have {expected}; leave one of the two out"
    )
    assert caught.value.field == "pipeline_parallel"


def test_both_ways_at_once_are_refused() -> None:
    with pytest.raises(RequestError) as caught:
        inspect_memory("./nowhere", device="cpu", tensor_parallel=2, pipeline_parallel=3)
    assert str(caught.value) == (
        "a model cannot be split by its matrices and by its layers at once: tensor_parallel is 2, "
        "pipeline_parallel 3; leave one of the two out, and give the other all ranks"
    )


@pytest.mark.parametrize(
    ("architecture", "ranks", "expected"),
    [
        ("gpt2", 2, "has no plan for it in transformers (base_model_pp_plan)"),
        ("lfm2", 2, "has layers that keep a state from token to token"),
        ("gemma3n_text", 2, "has layers that read the keys of others (num_kv_shared_layers)"),
        ("llama", 3, "has 2 layers, and 3 ranks"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_models_that_cannot_be_split_are_refused_before_they_are_read(
    tmp_path: Path, architecture: str, ranks: int, expected: str
) -> None:
    if architecture in ("lfm2", "gemma3n_text"):
        model = from_config(tiny_config(architecture))
    else:
        model = make_model(architecture, dtype=torch.float32)
    model.save_pretrained(tmp_path)
    with pytest.raises(GuidedError, match="cannot be split over ranks") as caught:
        inspect_memory(str(tmp_path), device="cpu", pipeline_parallel=ranks)
    assert expected in str(caught.value)
    assert "leave pipeline_parallel out, or choose a model such as" in str(caught.value)
