"""Weights that another program has quantised: missing packages for them are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig
from transformers.quantizers.auto import AutoHfQuantizer

from guided.errors import ModelError
from guided.model.config_refusals import quantisation, require_quantiser
from guided.model.model_files import find_model
from guided.model.progress import SilentProgress

FORM = "or choose the model in bfloat16, or a GGUF file of it"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "requires optimum"),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128}, "gptqmodel"),
    "bitsandbytes": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        "requires bitsandbytes",
    ),
    "compressed-tensors": (
        {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}},
        "compressed-tensors",
    ),
    "of_their_own": ({"quant_method": "of_their_own"}, "Unknown quantization type"),
}


@pytest.mark.parametrize("method", REFUSED)
def test_what_is_missing_is_told_before_weights_are_looked_for(method: str, tmp_path: Path) -> None:
    told, reason = REFUSED[method]
    config = LlamaConfig(architectures=["LlamaForCausalLM"])
    config.quantization_config = told
    config.save_pretrained(tmp_path)
    with pytest.raises(ModelError) as caught:
        find_model(str(tmp_path), SilentProgress())
    message = str(caught.value)
    assert message.startswith(
        f"the weights of {tmp_path} are quantised with {method!r}, which transformers cannot read "
        "here: "
    )
    assert reason in message
    assert message.endswith(f"; install what it asks for, {FORM}")


def test_what_is_there_is_not_asked_for(tmp_path: Path) -> None:
    """Weights of fp8 are read without another package."""
    told = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    config = LlamaConfig(architectures=["LlamaForCausalLM"])
    config.quantization_config = told
    assert quantisation(config) == "fp8"
    require_quantiser(config, tmp_path)
    assert quantisation(LlamaConfig()) is None
    require_quantiser(LlamaConfig(), tmp_path)


def test_a_reader_that_fails_without_a_word_is_named_by_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ImportError

    monkeypatch.setattr(AutoHfQuantizer, "from_config", refuse)
    config = LlamaConfig()
    config.quantization_config = {"quant_method": "fp8"}
    with pytest.raises(ModelError, match="cannot read here: ImportError; install"):
        require_quantiser(config, tmp_path)
