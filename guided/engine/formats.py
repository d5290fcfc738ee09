"""The formats of weights, and of keys and values, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

from guided.errors import ModelError, RequestError
from guided.model.cpu import why_not_by_config
from guided.model.device import CPU
from guided.model.load import native_dtype
from guided.model.model_files import ModelFiles

__all__ = ["WEIGHT_DTYPES", "check_formats", "check_model", "compute_dtype", "format_notes"]

WEIGHT_DTYPES: Final[Mapping[str, torch.dtype | None]] = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
    "int8": None,
    "int4": None,
    "stored": None,
}
"""The type in which the weights are loaded; ``None`` lets the loader choose."""
_OWN_PASS_ONLY: Final = ("int8", "int4", "stored")
"""Formats that only our own forward pass can compute with."""


def check_formats(dtype: str | None, kv_dtype: str | None, device: torch.device) -> None:
    """Raise ``RequestError`` for unknown names, and for formats that do not go together."""
    if dtype is not None and dtype not in WEIGHT_DTYPES:
        raise RequestError(
            f"dtype {dtype!r} is none of {', '.join(map(repr, WEIGHT_DTYPES))}", field="dtype"
        )
    if kv_dtype not in (None, "int8"):
        raise RequestError(
            f"kv_dtype {kv_dtype!r} is not 'int8'",
            field="kv_dtype",
            hint="leave it out to keep keys and values as they are computed",
        )
    if dtype in _OWN_PASS_ONLY and device.type != "cpu":
        raise RequestError(
            f"weights {_describe(dtype)} are computed by our own forward pass, which is for the "
            f"CPU alone, not for {device}",
            field="dtype",
            hint="leave dtype out, or set device to 'cpu'",
        )
    # Only transformers' forward pass attends over int8, only ours multiplies int8 weights.
    if dtype in _OWN_PASS_ONLY and kv_dtype == "int8":
        raise RequestError(
            f"weights {_describe(dtype)} are computed by our own forward pass, whose cache is not "
            "in int8",
            field="kv_dtype",
            hint="choose one of the two",
        )


def check_model(files: ModelFiles, dtype: str | None) -> None:
    """Raise ``ModelError`` where a model cannot have weights of a format, before they are read."""
    if dtype in _OWN_PASS_ONLY and (reason := why_not_by_config(files.config)):
        raise ModelError(
            f"weights {_describe(dtype)} are computed by our own forward pass, which does not know "
            f"this model: {reason}",
            hint="leave dtype out, or choose float32 or bfloat16",
        )


def format_notes(device: torch.device) -> tuple[tuple[str, str], ...]:
    """Return the formats that a device does not support, each with the consequence."""
    if device.type != "cpu":
        return tuple((name, "refused: it is computed on the CPU alone") for name in _OWN_PASS_ONLY)
    return ()


def _describe(dtype: str | None) -> str:
    """Return how an error says in which format weights are."""
    return "as they are stored" if dtype == "stored" else f"in {dtype}"


def compute_dtype(
    files: ModelFiles, dtype: str | None, device: torch.device, *, by_transformers: bool = False
) -> torch.dtype:
    """Return the type of all numbers that are not int8: as requested, or the model's fastest.

    Our own forward pass multiplies bf16 on any processor, and reads half as much as with fp32.
    """
    if (requested := WEIGHT_DTYPES.get(str(dtype))) is not None:
        return requested
    packed, _ = files.checkpoint.packed
    is_own = not packed and not by_transformers and why_not_by_config(files.config) is None
    return torch.bfloat16 if is_own and device == CPU else native_dtype(device)
