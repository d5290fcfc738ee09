"""The table of token embeddings: plain numbers, or a matrix in blocks."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from guided.model.cpu.stored_matrix import StoredPart

__all__ = ["Embedding", "PlainEmbedding", "StoredEmbedding"]


class PlainEmbedding:
    """Rows of numbers."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._weight = weight
        self.dtype = weight.dtype
        """The type to which the rows are rounded, and in which keys and values are kept."""
        self.nbytes = weight.nbytes
        """Bytes that it takes."""

    def rows(self, tokens: NDArray[np.int64]) -> torch.Tensor:
        """Return the rows of tokens, ``[tokens, hidden]``."""
        return functional.embedding(torch.from_numpy(tokens), self._weight)

    def tensor(self) -> torch.Tensor:
        """Return all rows, ``[vocabulary, hidden]``."""
        return self._weight


class StoredEmbedding:
    """Rows of a matrix in blocks, unpacked when they are looked up."""

    dtype = torch.bfloat16
    """The type of keys and values; the rows themselves are not rounded."""

    def __init__(self, matrix: StoredPart, *, is_head: bool) -> None:
        """``matrix`` is ``[vocabulary, hidden]``; ``is_head`` counts its memory as the head's."""
        self._matrix = matrix
        self.nbytes = 0 if is_head else matrix.nbytes

    def rows(self, tokens: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(self._matrix.codes(tokens).numbers())

    def tensor(self) -> torch.Tensor:
        return self.rows(np.arange(self._matrix.outputs)).to(self.dtype)


Embedding = PlainEmbedding | StoredEmbedding
"""A row for each token."""
