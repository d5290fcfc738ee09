"""LoRA adapters: answers are those of the model with the adapter merged into it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from guided.engine import Engine, load_engine
from guided.errors import ModelError, RequestError
from guided.spec import GenerationRequest, Regex, Sampling
from tests.engine.tiny_models import answers
from tests.kit.adapters import save_adapter, save_merged
from tests.kit.tiny_model import save_tiny_model

PROMPT = "A text that is longer than a block of the cache, and the same for all who ask."
REQUEST = GenerationRequest(PROMPT, Regex("[a-z ]{8,24}"), max_tokens=40)


class Folders(NamedTuple):
    model: Path
    first: Path
    second: Path
    merged_first: Path
    merged_second: Path


def saved(at: Path, architecture: str) -> Folders:
    model = save_tiny_model(at / "model", architecture)
    first = save_adapter(at / "first", model, seed=1)
    second = save_adapter(
        at / "second", model, seed=2, rank=3, matrices=("q_proj", "v_proj", "down_proj"),
        config={"use_rslora": True},
    )  # fmt: skip
    merged = [save_merged(at / f"merged-{one.name}", model, one) for one in (first, second)]
    return Folders(model, first, second, *merged)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return saved(tmp_path_factory.mktemp("adapters"), "llama")


def adapted(folders: Folders, dtype: str, **options: object) -> Engine:
    """The model with both adapters."""
    adapters = {"first": folders.first, "second": folders.second}
    return loaded(folders.model, dtype, adapters=adapters, **options)


def loaded(folder: Path, dtype: str = "float32", **options: Any) -> Engine:
    return load_engine(str(folder), dtype=dtype, device="cpu", threads=1, **options)


def merged_texts(folders: Folders, request: GenerationRequest) -> dict[str, str]:
    """The model's answers, alone and with each adapter merged into it."""
    models = {"": folders.model, "first": folders.merged_first, "second": folders.merged_second}
    return {
        name: answers(loaded(model), {"r": request})["r"].text for name, model in models.items()
    }


@pytest.mark.parametrize("architecture", ["llama", "olmo2"])
def test_each_answer_of_a_batch_is_that_of_its_merged_model(
    tmp_path: Path, architecture: str
) -> None:
    """The first is computed by our own forward pass, the other by that of transformers."""
    folders = saved(tmp_path, architecture)
    expected = merged_texts(folders, REQUEST)
    assert len(set(expected.values())) == 3, "adapters that change nothing show nothing"
    engine = adapted(folders, "float32")
    asked = {f"{name} {turn}": replace(REQUEST, adapter=name) for name in expected for turn in "ab"}
    for _ in range(2):  # again, with the prefixes in the cache
        found = answers(engine, asked)
        assert {name: result.text for name, result in found.items()} == {
            name: expected[name.split(" ")[0]] for name in asked
        }


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "int4", "float32"])
def test_an_answer_does_not_depend_on_what_is_computed_beside_it(
    folders: Folders, dtype: str
) -> None:
    engine = adapted(folders, dtype)
    drawn = replace(REQUEST, sampling=Sampling(temperature=0.8, seed=3), n=2)
    asked = {
        f"{adapter} {number}": replace(request, adapter=adapter)
        for adapter in ("", "first", "second")
        for number, request in enumerate((REQUEST, drawn))
    }
    together = answers(engine, asked)
    lone = adapted(folders, dtype, drafts=False)
    for name, request in asked.items():
        # Its own salt hides from it the prefixes that earlier requests left in the cache.
        alone = answers(lone, {name: replace(request, cache_salt=name)})[name]
        assert alone.usage.reused_tokens == 0
        assert alone.text == together[name].text
        assert [one.text for one in alone.candidates] == [
            one.text for one in together[name].candidates
        ]


def test_what_is_kept_of_a_prompt_is_not_shared_between_adapters(folders: Folders) -> None:
    engine = adapted(folders, "float32")
    reused = []
    for adapter in ("first", "second", "", "first"):
        found = answers(engine, {"r": replace(REQUEST, adapter=adapter)})["r"]
        reused.append(found.usage.reused_tokens)
    assert reused[:3] == [0, 0, 0]
    assert reused[3] > 0


def test_no_salt_reaches_what_an_adapter_left(folders: Folders) -> None:
    engine = adapted(folders, "float32")
    answers(engine, {"r": replace(REQUEST, adapter="first", cache_salt="x")})
    for salt in ("1:x", "x", "first:x"):
        found = answers(engine, {"r": replace(REQUEST, cache_salt=salt)})["r"]
        assert found.usage.reused_tokens == 0


def test_an_adapter_that_is_not_there_is_refused_with_those_that_are(folders: Folders) -> None:
    engine = adapted(folders, "float32")
    assert engine.adapters == ("first", "second")
    with pytest.raises(RequestError, match="'third', but the server has 'first', 'second'"):
        engine.submit("r", replace(REQUEST, adapter="third"))
    plain = loaded(folders.model)
    with pytest.raises(RequestError, match="has none"):
        plain.submit("r", replace(REQUEST, adapter="first"))


@pytest.mark.parametrize("name", ["default", "", "a\nb"])
def test_an_adapter_has_a_name_of_its_own(folders: Folders, name: str) -> None:
    with pytest.raises(RequestError, match="name") as caught:
        load_engine("nowhere", adapters={name: folders.first})
    assert caught.value.field == "adapters"


@pytest.mark.parametrize("kv_dtype", [None, "int8"])
def test_an_adapter_of_another_model_is_refused(
    folders: Folders, tmp_path: Path, kv_dtype: str | None
) -> None:
    from safetensors.torch import load_file, save_file

    adapter = save_adapter(tmp_path / "adapter", folders.model, seed=0)
    file = adapter / "adapter_model.safetensors"
    tensors = load_file(file)
    name = "base_model.model.model.layers.{}.self_attn.q_proj.lora_{}.weight"
    wide = tensors | {name.format(0, "A"): tensors[name.format(0, "A")].repeat(1, 2)}
    half = {part: tensors[name.format(0, part)].clone() for part in "AB"}
    deep = tensors | {name.format(7, part): half[part] for part in "AB"}
    head = tensors | {f"base_model.model.lm_head.lora_{part}.weight": half[part] for part in half}
    for broken, message in (
        (wide, r"q_proj of \[64, 128\], but that of the model is of \[64, 64\]"),
        (deep, r"adds to model\.layers\.7\.self_attn\.q_proj, which is no matrix"),
        (head, r"adds to lm_head, which is no matrix of a layer"),
    ):
        save_file(broken, file)
        with pytest.raises(ModelError, match=message):
            loaded(folders.model, kv_dtype=kv_dtype, adapters={"a": adapter})
