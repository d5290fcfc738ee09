"""Medusa heads that we wrote, in vLLM's own model code: run by test_vllm.py.

    python vllm_medusa.py FOLDER_OF_HEADS FILE

The file has ``states`` and ``logits``, the output of our heads. Ends with status 0 if vLLM's heads
give the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.model_executor.models.medusa import Medusa
from vllm.transformers_utils.configs.medusa import MedusaConfig


def theirs(folder: Path) -> Any:
    config = MedusaConfig.from_pretrained(folder)
    draft = SimpleNamespace(draft_model_config=SimpleNamespace(hf_config=config))
    module = Medusa(vllm_config=SimpleNamespace(speculative_config=draft))
    (weights,) = folder.glob("*.safetensors")
    read = module.load_weights(load_file(weights).items())
    assert read == {name for name, _ in module.named_parameters()}
    for head in module.lm_heads:
        head.quant_method.process_weights_after_loading(head)
    return module


@torch.inference_mode()
def main(folder: Path, expected: Path) -> None:
    rendezvous = f"file://{expected.with_suffix('.rendezvous')}"
    with set_current_vllm_config(VllmConfig()):
        init_distributed_environment(1, 0, rendezvous, 0, backend="gloo")
        initialize_model_parallel()
        module, given = theirs(folder), load_file(expected)
        found = module.compute_logits(module(given["states"]))
    torch.testing.assert_close(torch.stack(found), given["logits"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
