"""Folders of Medusa heads, as FasterDecoding publishes them.

::

    config.json                      medusa_num_heads, medusa_num_layers, base_model_name_or_path
    medusa_lm_head.pt                {head}.{layer}.linear.{weight,bias}    the residual blocks
      or medusa_lm_head.safetensors  {head}.{layers}.weight                 over the vocabulary

Published configs name wrong numbers of heads, so heads are counted in the weights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch

from guided.drafters.heads.head_files import (
    read_tensors,
    write_card,
    write_config,
    write_tensors,
)
from guided.drafters.heads.medusa_module import MedusaHeads, MedusaShape
from guided.errors import ModelError

__all__ = ["MEDUSA_FILES", "load_medusa", "save_medusa"]

MEDUSA_FILES: Final = ("medusa_lm_head.safetensors", "medusa_lm_head.pt")
_BLOCK: Final = re.compile(r"(\d+)\.(\d+)\.linear\.weight")
_CARD: Final = """
{heads} Medusa heads of {layers} residual block(s) each for {base}: head k says the token k + 2
positions after the state that it reads. Layout of FasterDecoding/Medusa.

{about}
"""


def load_medusa(folder: str | Path) -> MedusaHeads:
    """Read heads, in the type of their files.

    Raises ``ModelError`` if there are none, or their names or shapes do not fit each other.
    """
    tensors = read_tensors(Path(folder), *MEDUSA_FILES)
    shape = _shape(Path(folder), tensors)
    with torch.device("meta"):
        module = MedusaHeads(shape)
    _check_names(Path(folder), tensors, module)
    module.heads.load_state_dict(dict(tensors), assign=True)
    return module.requires_grad_(False).eval()


def save_medusa(
    folder: str | Path,
    module: MedusaHeads,
    *,
    base_model: str,
    about: str = "",
    file: str = MEDUSA_FILES[0],
) -> None:
    """Write heads with their config and card.

    ``base_model`` names the target, the card includes ``about``, and ``file`` is one of
    ``MEDUSA_FILES``: FasterDecoding's own code reads only the second.
    """
    assert file in MEDUSA_FILES, f"{file!r} is none of {MEDUSA_FILES}"
    path, shape = Path(folder), module.shape
    write_config(
        path,
        {
            "architectures": ["MedusaModel"],
            "model_type": "medusa",
            "base_model_name_or_path": base_model,
            "medusa_num_heads": shape.heads,
            "medusa_num_layers": shape.layers,
            # Not in FasterDecoding's: vLLM reads the biases of blocks only if this is set.
            "medusa_fc_bias": True,
            "hidden_size": shape.hidden_size,
            "vocab_size": shape.vocabulary_size,
        },
    )
    write_tensors(path / file, module.heads.state_dict())
    text = _CARD.format(heads=shape.heads, layers=shape.layers, base=base_model, about=about)
    write_card(path, base_model, f"Medusa heads for {base_model}", text)


def _shape(folder: Path, tensors: Mapping[str, torch.Tensor]) -> MedusaShape:
    """Return the sizes of some heads, from the names and shapes of their tensors."""
    heads = {int(name.split(".")[0]) for name in tensors if name.split(".")[0].isdigit()}
    blocks = [_BLOCK.fullmatch(name) for name in tensors]
    layers = len({found[2] for found in blocks if found is not None and found[1] == "0"})
    matrix = tensors.get(f"0.{layers}.weight")
    if matrix is None or matrix.dim() != 2:
        raise ModelError(
            f"the weights of {folder} are no Medusa heads: there is no matrix '0.{layers}.weight'",
            hint="heads have tensors named '0.0.linear.weight' and so on, as FasterDecoding's",
        )
    vocabulary, hidden = matrix.shape
    return MedusaShape(hidden, vocabulary, heads=len(heads), layers=layers)


def _check_names(folder: Path, tensors: Mapping[str, torch.Tensor], module: MedusaHeads) -> None:
    """Raise ModelError unless the tensors have exactly the module's names and shapes."""
    wanted = {name: tensor.shape for name, tensor in module.heads.state_dict().items()}
    found = {name: tensor.shape for name, tensor in tensors.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            if name not in found:
                fault = f"there is no {name!r}"
            elif name not in wanted:
                fault = f"{name!r} belongs to none"
            else:
                fault = f"{name!r} has the shape {tuple(found[name])}, not {tuple(wanted[name])}"
            raise ModelError(f"the weights of {folder} are no Medusa heads: {fault}")
