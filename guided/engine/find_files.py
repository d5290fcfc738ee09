"""Finds the files to load a model from: a GGUF file as it is, or a folder of transformers."""

from __future__ import annotations

import torch

from guided.errors import ModelError
from guided.model.device import CPU
from guided.model.model_files import ModelFiles, find_model, find_stored
from guided.model.progress import Progress

__all__ = ["find_files"]


def find_files(
    name: str | None,
    dtype: str | None,
    device: torch.device,
    progress: Progress,
    *,
    by_transformers: bool = False,
) -> ModelFiles:
    """Find a model as ``find_model`` does; keep a GGUF file as stored where ``dtype`` allows it.

    Raises ``ModelError`` if ``dtype`` demands the stored form and it cannot be used.
    """
    if dtype not in (None, "stored") or device != CPU or by_transformers:
        return find_model(name, progress)
    found = find_stored(name, progress)
    if isinstance(found, ModelFiles):
        return found
    if dtype == "stored":
        raise ModelError(
            f"the weights of {name} cannot be used as they are stored: "
            f"{found or 'it is no GGUF file'}",
            hint="leave dtype out, or choose bfloat16, int8 or int4",
        )
    if found is not None:
        progress.note(f"weights cannot be used as they are stored: {found}")
    return find_model(name, progress)
