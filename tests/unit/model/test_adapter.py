"""Folders of LoRA adapters: the parts that are read, and the folders that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from guided.errors import ModelError
from guided.model.adapter import read_adapter

NAME = "model.layers.0.self_attn.q_proj"
HALVES = {"A": torch.ones(2, 6), "B": torch.ones(8, 2)}


def saved(folder: Path, config: dict[str, Any], halves: dict[str, torch.Tensor] = HALVES) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"} | config))
    tensors = {f"base_model.model.{NAME}.lora_{part}.weight": half for part, half in halves.items()}
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({"lora_alpha": 16}, 8.0),
        ({"lora_alpha": 16, "use_rslora": True}, 16 / 2**0.5),
        ({"lora_alpha": 16, "alpha_pattern": {"q_proj": 4}}, 2.0),
        ({"lora_alpha": 16, "alpha_pattern": {r"layers\.0\.self_attn\.[qk]_proj": 6}}, 3.0),
        ({"lora_alpha": 16, "alpha_pattern": {"proj": 4, "v_proj": 4}}, 8.0),
        ({}, 4.0),  # peft's own default
    ],
)
def test_what_is_added_is_scaled_as_peft_does(
    tmp_path: Path, config: dict[str, Any], scale: float
) -> None:
    adapter = read_adapter("a", saved(tmp_path / "a", config))
    assert adapter.name == "a"
    assert adapter.matrices.keys() == {NAME}
    assert adapter.matrices[NAME].scale == pytest.approx(scale)
    assert adapter.nbytes == 2 * 32 * (6 + 8)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3', not 'LORA'"),
        ({"use_dora": True}, r"it has DoRA \(use_dora\)"),
        ({"bias": "all"}, r"it changes biases \(bias is 'all'\)"),
        ({"modules_to_save": ["lm_head"]}, "modules that replace those of the model"),
        ({"fan_in_fan_out": True}, "stored the other way round"),
        ({"alora_invocation_tokens": [5]}, "activation by tokens of the text"),
        (
            {"use_what_comes_next": True},
            r"a setting that is not known here \(use_what_comes_next\)",
        ),
        ({"lora_alpha": float("nan")}, "the scale of .*q_proj is nan"),
        ({"lora_alpha": None}, "there is no scale of .*q_proj"),
        ({"alpha_pattern": {"(": 1}}, "there is no scale of .*q_proj"),
    ],
)
def test_other_methods_are_refused_by_name(
    tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        read_adapter("a", saved(tmp_path / "a", config))
    assert "merge it into the model" in (caught.value.hint or "")


@pytest.mark.parametrize("start", ["pissa", "pissa_niter_16", "olora", "loftq", "corda"])
def test_an_adapter_of_a_changed_model_is_refused(tmp_path: Path, start: str) -> None:
    """Added to the unchanged model it would give other answers."""
    with pytest.raises(ModelError, match="its training began by changing the model") as caught:
        read_adapter("a", saved(tmp_path / "a", {"init_lora_weights": start}))
    assert "path_initial_model_for_weight_conversion" in (caught.value.hint or "")
    for plain in (True, False, "gaussian"):
        read_adapter("a", saved(tmp_path / "a", {"init_lora_weights": plain}))


def test_what_was_read_does_not_change_with_the_file(tmp_path: Path) -> None:
    folder = saved(tmp_path / "a", {})
    adapter = read_adapter("a", folder)
    file = folder / "adapter_model.safetensors"
    file.write_bytes(bytes(len(file.read_bytes())))
    assert adapter.matrices[NAME].down.equal(HALVES["A"])


@pytest.mark.parametrize(
    ("halves", "message"),
    [
        ({"A": HALVES["A"]}, "has lora_A of .*q_proj and not the other half"),
        ({"A": HALVES["A"], "B": torch.ones(8, 3)}, r"are of \[2, 6\] and \[8, 3\]"),
        ({"A": torch.ones(0, 6), "B": torch.ones(8, 0)}, "there is no scale"),
        ({"A": HALVES["A"], "B": torch.full((8, 2), torch.nan)}, "not finite"),
    ],
)
def test_broken_weights_are_refused(
    tmp_path: Path, halves: dict[str, torch.Tensor], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read_adapter("a", saved(tmp_path / "a", {}, halves))


def test_other_tensors_are_refused_by_name(tmp_path: Path) -> None:
    folder = saved(tmp_path / "a", {})
    save_file({"model.lora_embedding_A": torch.ones(1)}, folder / "adapter_model.safetensors")
    with pytest.raises(ModelError, match=r"it has a tensor model\.lora_embedding_A"):
        read_adapter("a", folder)


def test_a_folder_without_an_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no config that can be read"):
        read_adapter("a", tmp_path / "nowhere")
    (saved(tmp_path / "a", {}) / "adapter_model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ModelError, match="no weights that can be read"):
        read_adapter("a", tmp_path / "a")
