"""Finds the files to load a model from: a GGUF file as it is, or a folder of transformers."""

from __future__ import annotations

import torch

from guided.engine.formats import check_model
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

    Raises ``ModelError`` if the model cannot have weights in this format.
    """
    files: ModelFiles | str | None = None
    if dtype in (None, "stored") and device == CPU and not by_transformers:
        files = find_stored(name, progress)
        if dtype == "stored" and not isinstance(files, ModelFiles):
            raise ModelError(
                f"the weights of {name} cannot be used as they are stored: "
                f"{files or 'it is no GGUF file'}",
                hint="leave dtype out, or choose bfloat16, int8 or int4",
            )
        if isinstance(files, str):
            progress.note(f"weights cannot be used as they are stored: {files}")
    if not isinstance(files, ModelFiles):
        files = find_model(name, progress)
    check_model(files, dtype)
    return files
