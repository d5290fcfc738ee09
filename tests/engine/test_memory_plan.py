"""The memory reported before loading is the memory taken, and too much is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from guided.engine.cache_size import CacheRequest, CacheSize, StepLimits, cache_groups
from guided.engine.formats import WEIGHT_DTYPES, check_formats
from guided.engine.load import inspect_memory
from guided.engine.memory_plan import Footprint, measure_footprint, plan_memory, plan_model
from guided.errors import ModelError, RequestError
from guided.kv.block_cache import BlockCache
from guided.model.cpu import WeightFormat
from guided.model.device import CPU
from guided.model.model_files import find_model
from guided.model.progress import SilentProgress
from guided.model.runner import ModelRunner
from tests.engine.architectures import CONFIGS
from tests.engine.tiny_models import make_model

MIB = 2**20
SIZE = CacheSize((None,), (1024,), StepLimits())
SOME = Footprint(
    weights=100 * MIB,
    weight_format="bfloat16",
    cache_dtype=torch.bfloat16,
    working=50 * MIB,
    free=1000 * MIB,
    device=CPU,
    context_window=4096,
)


@pytest.mark.parametrize("is_quantised", [False, True])
@pytest.mark.parametrize("architecture", CONFIGS)
def test_a_cache_takes_what_was_told(architecture: str, is_quantised: bool, tmp_path: Path) -> None:
    """Both by the config of a folder and by the loaded model."""
    model = make_model(architecture, dtype=torch.float32)
    model.save_pretrained(tmp_path)
    files = find_model(str(tmp_path), SilentProgress())
    asked = CacheRequest(is_quantised=is_quantised, limits=StepLimits(block_size=4))
    by_config = asked.size(files.layers, files.windows, torch.float32)
    runner = ModelRunner(model, vocabulary_size=288, quantise_cache=is_quantised)
    shape = runner.shape
    assert by_config == asked.size(shape.layers, shape.windows, shape.dtype)
    cache = BlockCache(cache_groups(by_config.windows, 100, by_config.limits), 4)
    runner.open_storages([pool.num_slots for pool in cache.pools])
    assert runner.cache_nbytes == by_config.nbytes(100)
    numbers = sum(p.numel() for p in model.parameters())
    assert files.checkpoint.types == {"F32": numbers}


@pytest.mark.parametrize("windows", [(None,), (None, 64), (64,)])
@pytest.mark.parametrize("nbytes", [0, 100, 8200, 10_000, 1_000_000])
def test_as_many_tokens_as_fit(windows: tuple[int | None, ...], nbytes: int) -> None:
    size = replace(SIZE, windows=windows, slot_bytes=(1024,) * len(windows))
    tokens = size.tokens_within(nbytes, 5000)
    assert tokens == 0 or size.nbytes(tokens) <= nbytes
    assert tokens == 5000 or size.nbytes(tokens + 1) > nbytes


@pytest.mark.parametrize(
    ("free", "asked", "tokens"),
    [
        (1000, {}, 16_384),
        # Half of the rest: 5 MiB of blocks of 8 KiB.
        (160, {}, 5120),
        # At least this much, as long as it fits.
        (151, {}, 1016),
        (1000, {"cache_tokens": 77}, 77),
        (1000, {"kv_memory": 2 * MIB}, 2048),
        # A full batch cannot use more.
        (1000, {"kv_memory": 500 * MIB}, 16 * 4096),
    ],
)
def test_the_cache_is_sized(free: int, asked: dict[str, Any], tokens: int) -> None:
    footprint = replace(SOME, free=free * MIB)
    if tokens == 1016:
        footprint = replace(footprint, context_window=1016)
    plan = plan_memory(footprint, [SIZE], CacheRequest(**asked))
    assert plan.cache_tokens == tokens
    assert plan.cache == SIZE.nbytes(tokens)
    assert plan.needed == SOME.weights + SOME.working + plan.cache <= footprint.free


NEEDED = [
    (
        {"weights": 2000 * MIB},
        {},
        "the model needs 2.0 GiB of memory, and 1000.0 MiB are free: weights 2.0 GiB (bfloat16), "
        "cache 1.0 MiB (1,024 tokens), working memory 50.0 MiB; choose a smaller dtype, such as "
        "int8, a smaller model, or a machine with more memory",
    ),
    (
        {"free": 200 * MIB},
        {"kv_memory": 60 * MIB},
        "the model needs 210.0 MiB of memory, and 200.0 MiB are free: weights 100.0 MiB "
        "(bfloat16), cache 60.0 MiB (61,440 tokens), working memory 50.0 MiB; set kv_memory below "
        "50.0 MiB",
    ),
    (
        {"weights": 2000 * MIB, "device": torch.device("cuda", 1)},
        {},
        "the model needs 2.0 GiB of memory, and 1000.0 MiB are free on cuda:1: weights 2.0 GiB "
        "(bfloat16), cache 1.0 MiB (1,024 tokens), working memory 50.0 MiB; choose a smaller "
        "dtype, a smaller model, a device with more memory, or device 'cpu'",
    ),
]


@pytest.mark.parametrize(("footprint", "asked", "expected"), NEEDED)
def test_too_much_is_refused(
    footprint: dict[str, Any],
    asked: dict[str, Any],
    expected: str,
) -> None:
    some = replace(SOME, **footprint)
    with pytest.raises(ModelError) as caught:
        plan_memory(some, [SIZE], CacheRequest(**asked))
    assert str(caught.value) == expected


def test_a_cache_that_holds_nothing_is_refused() -> None:
    with pytest.raises(RequestError) as caught:
        plan_memory(SOME, [SIZE], CacheRequest(kv_memory=100))
    assert str(caught.value) == (
        "kv_memory of 100 B holds no token: one takes 1.0 KiB, and they come in blocks; give it at "
        "least 1.0 MiB"
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            {"cache_tokens": 5, "kv_memory": 5},
            "cache_tokens and kv_memory both say how large the cache is; give one of them",
        ),
        ({"cache_tokens": 0}, "cache_tokens 0 leave no room for a request"),
    ],
)
def test_a_cache_has_one_size(asked: dict[str, Any], expected: str) -> None:
    with pytest.raises(RequestError) as caught:
        CacheRequest(**asked)
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("dtype", "kv_dtype", "device", "expected"),
    [
        (
            "int3",
            None,
            "cpu",
            "dtype 'int3' is none of 'bfloat16', 'float16', 'float32', 'float64', 'int8', 'int4', "
            "'stored'",
        ),
        (
            None,
            "fp8",
            "cpu",
            "kv_dtype 'fp8' is not 'int8'; leave it out to keep keys and values as they are "
            "computed",
        ),
        (
            "int8",
            "int8",
            "cpu",
            "weights in int8 are computed by our own forward pass, whose cache is not in int8; "
            "choose one of the two",
        ),
        (
            "stored",
            "int8",
            "cpu",
            "weights as they are stored are computed by our own forward pass, whose cache is not "
            "in int8; choose one of the two",
        ),
        (
            "int4",
            None,
            "cuda:1",
            "weights in int4 are computed by our own forward pass, which is for the CPU alone, not "
            "for cuda:1; leave dtype out, or set device to 'cpu'",
        ),
        (
            "int8",
            None,
            "cuda:1",
            "weights in int8 are computed by our own forward pass, which is for the CPU alone, not "
            "for cuda:1; leave dtype out, or set device to 'cpu'",
        ),
    ],
)
def test_formats_are_checked(
    dtype: str | None, kv_dtype: str | None, device: str, expected: str
) -> None:
    """Names are checked before the abilities of the processor."""
    with pytest.raises(RequestError) as caught:
        check_formats(dtype, kv_dtype, torch.device(device))
    assert str(caught.value) == expected


def test_every_format_that_is_advised_is_a_name_that_the_option_takes() -> None:
    assert {kind.value for kind in WeightFormat} <= WEIGHT_DTYPES.keys()


def test_int8_is_refused_before_the_weights_of_a_model_without_it_are_read(
    tmp_path: Path,
) -> None:
    make_model("gpt2", dtype=torch.float32).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="does not know this model: GPT2LMHeadModel is not one of"):
        inspect_memory(str(tmp_path), dtype="int8", device="cpu")


def test_a_model_too_large_is_refused_before_its_weights_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model("llama", dtype=torch.float32).save_pretrained(tmp_path)
    monkeypatch.setattr("guided.engine.memory_plan.free_memory", lambda _device: MIB)
    files = find_model(str(tmp_path), SilentProgress())
    with pytest.raises(ModelError, match=r"^the model needs .* of memory, and 1.0 MiB are free: "):
        plan_model(files, None, CacheRequest(), CPU)


def test_formats_weigh_what_they_are_made_of(tmp_path: Path) -> None:
    """Tied matrices have two copies; in int8 the one for looking tokens up stays as it was."""
    make_model("gemma3_sliding", dtype=torch.float32).save_pretrained(tmp_path)
    files = find_model(str(tmp_path), SilentProgress())
    embedding, numbers = 288 * 32, files.checkpoint.numbers
    weights = {
        d: measure_footprint(files, d, CacheRequest(), CPU).weights for d in ("float32", "bfloat16")
    }
    assert weights["float32"] == 4 * (numbers + embedding)
    assert weights["bfloat16"] == 2 * (numbers + embedding)
    in_int4 = measure_footprint(files, "int4", CacheRequest(), CPU)
    head = int((1.0625 - 0.625) * embedding)
    assert in_int4.weights == int(0.625 * numbers) + head + in_int4.cache_dtype.itemsize * embedding
    in_int8 = measure_footprint(files, "int8", CacheRequest(), CPU)
    assert in_int8.weights == numbers + in_int8.cache_dtype.itemsize * embedding


def test_on_cuda_a_model_weighs_what_its_files_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No head is packed there; the free memory is that of the device."""
    make_model("gemma3_sliding", dtype=torch.float32).save_pretrained(tmp_path)
    files = find_model(str(tmp_path), SilentProgress())
    asked: list[torch.device] = []

    def free(device: torch.device) -> int:
        asked.append(device)
        return 1000 * MIB

    monkeypatch.setattr("guided.engine.memory_plan.free_memory", free)
    device = torch.device("cuda", 1)
    plan = plan_model(files, "bfloat16", CacheRequest(), device)
    assert asked == [device]
    assert plan.footprint.weights == 2 * files.checkpoint.numbers
    assert ("free", "1000.0 MiB", "on cuda:1") in plan.lines()


@pytest.mark.parametrize(
    ("device", "asked", "found"),
    [
        ("cpu", (None, None), (16, 512)),
        ("cuda", (None, None), (64, 2048)),
        ("cpu", (4, None), (4, 512)),
        ("cuda", (None, 32), (32, 32)),
        ("cpu", (100, 1000), (100, 1000)),
    ],
)
def test_the_size_of_a_step_suits_the_device(
    device: str, asked: tuple[int | None, int | None], found: tuple[int, int]
) -> None:
    limits = StepLimits.for_device(torch.device(device), *asked, widest_draft=5)
    assert (limits.max_batch, limits.step_tokens, limits.widest_draft) == (*found, 5)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ((0, None), "max_batch 0 is not between 1 and step_tokens"),
        ((513, None), "max_batch 513 is not between 1 and step_tokens"),
        ((9, 8), "max_batch 9 is not between 1 and step_tokens"),
        ((None, 0), "step_tokens 0 is below 1"),
    ],
)
def test_a_step_has_a_token_for_each_answer(
    asked: tuple[int | None, int | None], message: str
) -> None:
    with pytest.raises(RequestError, match=f"^{message}"):
        StepLimits.for_device(torch.device("cpu"), *asked)
