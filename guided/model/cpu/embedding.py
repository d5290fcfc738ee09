"""Where the rows of tokens are looked up: numbers, or blocks as they are in a file."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from guided.model.cpu.block_types import BlockType

__all__ = ["Embedding", "PlainEmbedding", "StoredEmbedding"]


class Embedding(Protocol):
    """A row for each token."""

    @property
    def dtype(self) -> torch.dtype:
        """What the rows are rounded to; keys and values are kept so."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        ...

    def rows(self, tokens: NDArray[np.int64]) -> torch.Tensor:
        """``[tokens, hidden]``."""
        ...

    def tensor(self) -> torch.Tensor:
        """All rows, ``[vocabulary, hidden]``."""
        ...


class PlainEmbedding:
    """Rows of numbers."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._weight = weight
        self.dtype, self.nbytes = weight.dtype, weight.nbytes

    def rows(self, tokens: NDArray[np.int64]) -> torch.Tensor:
        return functional.embedding(torch.from_numpy(tokens), self._weight)

    def tensor(self) -> torch.Tensor:
        return self._weight


class StoredEmbedding:
    """Rows of blocks as they are in a file; those that are looked up are unpacked."""

    dtype = torch.bfloat16
    """Of keys and values; rows themselves are not rounded."""

    def __init__(self, kind: BlockType, packed: NDArray[np.uint8]) -> None:
        """``packed`` is ``[vocabulary, bytes]``."""
        self._kind, self._packed = kind, packed
        self.nbytes = packed.nbytes

    def rows(self, tokens: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(self._kind.codes(self._packed[tokens]).numbers())

    def tensor(self) -> torch.Tensor:
        return torch.from_numpy(self._kind.codes(self._packed).numbers()).to(self.dtype)
