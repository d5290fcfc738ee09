"""Where the rows of tokens are looked up: numbers, or a matrix in blocks."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from guided.model.cpu.stored_matrix import StoredPart

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
    """Rows of a matrix in blocks; those that are looked up are unpacked."""

    dtype = torch.bfloat16
    """Of keys and values; rows themselves are not rounded."""

    def __init__(self, matrix: StoredPart, *, is_head: bool) -> None:
        """``matrix`` is ``[vocabulary, hidden]``; ``is_head`` says that it counts as that."""
        self._matrix = matrix
        self.nbytes = 0 if is_head else matrix.nbytes

    def rows(self, tokens: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(self._matrix.codes(tokens).numbers())

    def tensor(self) -> torch.Tensor:
        return self.rows(np.arange(self._matrix.outputs)).to(self.dtype)
