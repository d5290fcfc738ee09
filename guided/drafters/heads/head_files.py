"""What all folders of heads have: a config, tensors in one file or several, a card."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import torch

from guided.errors import ModelError
from guided.model.transformers_calls import reading

__all__ = [
    "has_tensors",
    "read_config",
    "read_tensors",
    "write_card",
    "write_config",
    "write_tensors",
]

_INDEX: Final = ".index.json"
CONFIG: Final = "config.json"


def read_config(folder: Path) -> dict[str, Any]:
    """Read the config of a folder of heads; raises ``ModelError`` if there is none."""
    file = folder / CONFIG
    if not file.is_file():
        raise ModelError(
            f"{str(folder)!r} is no folder of heads: there is no {CONFIG} in it",
            hint="name the folder that holds the config and the weights of the heads",
        )
    with reading("config", folder):
        config = json.loads(file.read_text("utf-8"))
    if not isinstance(config, dict):
        raise ModelError(f"cannot read {file}: it holds no object")
    return config


def has_tensors(folder: Path, *names: str) -> bool:
    """Return whether ``read_tensors`` finds one of these files."""
    return _find(folder, names) is not None


def read_tensors(folder: Path, *names: str) -> dict[str, torch.Tensor]:
    """Read the tensors of the first of these files that exists, or of the parts that it is in.

    Files that are not safetensors are read as tensors only, so nothing in them is run.
    """
    file = _find(folder, names)
    if file is None:
        raise ModelError(
            f"cannot read the weights of {folder}: there is no {' and no '.join(names)}",
            hint="fetch the rest of it, or name the folder that holds them",
        )
    with reading("weights", folder):
        return _tensors(file)


def _find(folder: Path, names: Iterable[str]) -> Path | None:
    """Return the first of these files that exists, or the index of its parts."""
    files = [folder / (name + suffix) for name in names for suffix in ("", _INDEX)]
    return next((file for file in files if file.is_file()), None)


def _tensors(file: Path) -> dict[str, torch.Tensor]:
    """Read all tensors of a file by name: safetensors, an index of several, or a pickle."""
    from safetensors.torch import load_file

    if file.name.endswith(_INDEX):
        parts = sorted(set(json.loads(file.read_text("utf-8"))["weight_map"].values()))
        found: dict[str, torch.Tensor] = {}
        for part in parts:
            found |= _tensors(file.parent / part)
        return found
    if file.suffix == ".safetensors":
        return load_file(file)
    tensors = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(tensors, dict) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor)
        for name, tensor in tensors.items()
    ):
        raise ModelError(f"cannot read the weights of {file}: it must hold named tensors alone")
    return tensors


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write a config; makes the folder if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def write_tensors(file: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors as safetensors, or as torch writes them if the file's name ends in ``.pt``."""
    from safetensors.torch import save_file

    # A copy each, because tensors that share memory cannot be written as safetensors.
    whole = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    if file.suffix == ".safetensors":
        save_file(whole, file, metadata={"format": "pt"})
    else:
        torch.save(whole, file)


def write_card(
    folder: Path, base_model: str, title: str, text: str, *, library: str = "guided"
) -> None:
    """Write a README that says what the heads, or another drafter, are for."""
    lines = [
        "---",
        f"base_model: {base_model}",
        f"library_name: {library}",
        "---",
        "",
        f"# {title}",
    ]
    (folder / "README.md").write_text("\n".join([*lines, "", text.strip(), ""]), "utf-8")
