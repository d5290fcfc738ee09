"""The tensors of a GGUF file, mapped: plain numbers, and blocks as they are."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from guided.model.cpu.block_types import BLOCK_TYPES

__all__ = ["StoredTensor", "StoredTensors"]

_FLOATS: Final[Mapping[str, torch.dtype]] = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}


class StoredTensor(NamedTuple):
    """Where a tensor is, and how it was changed when the file was written."""

    kind: str
    """The type in ggml."""
    shape: tuple[int, ...]
    """As in transformers, ``[out, in]``."""
    offset: int
    """Bytes from the start of the file."""
    nbytes: int
    woven_heads: int
    """Heads with interleaved halves of outputs; 0 if none are."""
    added: int
    """What was added to its numbers."""


class StoredTensors:
    """Tensors by the names of transformers, read from the file when they are taken."""

    def __init__(
        self, file: Path, tensors: Mapping[str, StoredTensor], report: Callable[[int], None]
    ) -> None:
        with file.open("rb") as opened:
            self._mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        self._tensors = tensors
        self._report = report
        self._read: dict[int, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def kind(self, name: str) -> str:
        """Return the type in ggml."""
        return self._tensors[name].kind

    def take(self, name: str) -> torch.Tensor:
        """Return the numbers of a tensor; blocks are unpacked to float32."""
        told = self._tensors[name]
        if told.kind in _FLOATS:
            plain = torch.from_numpy(self._bytes(told).copy()).view(_FLOATS[told.kind])
            found: torch.Tensor = _deinterleave(plain.reshape(told.shape), told.woven_heads)
        else:
            found = torch.from_numpy(BLOCK_TYPES[told.kind].codes(self.blocks(name)).numbers())
            found = found.reshape(told.shape)
        numbers: torch.Tensor = found - told.added
        return numbers

    def blocks(self, name: str) -> NDArray[np.uint8]:
        """Return the bytes of a tensor of blocks, ``[out, bytes]``; a view unless interleaved."""
        told = self._tensors[name]
        packed = self._bytes(told).reshape(told.shape[0] if len(told.shape) > 1 else 1, -1)
        found: NDArray[np.uint8] = _deinterleave(packed, told.woven_heads)
        return found

    def close(self) -> None:
        """Release the file; raises ``BufferError`` while an array is a view of it.

        If the file is overwritten, a mapping changes with it, and if it is cut off, reading ends
        the process.
        """
        self._mapped.close()

    def _bytes(self, told: StoredTensor) -> NDArray[np.uint8]:
        self._read[told.offset] = told.nbytes  # one that is taken twice counts once
        self._report(sum(self._read.values()))
        return np.frombuffer(self._mapped, np.uint8, told.nbytes, told.offset)


def _deinterleave(outputs: Any, heads: int) -> Any:
    """Reorder outputs of each head from ``0a 0b 1a 1b ...`` to ``0a 1a ... 0b 1b ...``."""
    if not heads:
        return outputs
    apart = outputs.reshape(heads, len(outputs) // heads // 2, 2, *outputs.shape[1:])
    return apart.swapaxes(1, 2).reshape(outputs.shape)
