"""Makes the weights of a decoder from the blocks of a GGUF file, which stay as stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from guided.errors import ModelError
from guided.model.cpu.block_types import BLOCK_TYPES
from guided.model.cpu.decoder import CpuDecoder
from guided.model.cpu.embedding import Embedding, PlainEmbedding, StoredEmbedding
from guided.model.cpu.formats import WeightFormat, matrix_packer
from guided.model.cpu.matrix import LargePages, PackedMatrix, StackedMatrix
from guided.model.cpu.stored_kernel import instructions_here
from guided.model.cpu.stored_matrix import (
    NotFiniteError,
    StoredMatrix,
    StoredPart,
)
from guided.model.cpu.stored_tensors import StoredTensor, StoredTensors
from guided.model.cpu.weights import EMBEDDING, HEAD, WeightReader, assemble, try_decoder
from guided.model.plain_config import PlainConfig

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    _Config = PretrainedConfig | PlainConfig

__all__ = ["read_stored_decoder", "stored_nbytes"]


def stored_nbytes(tensors: Mapping[str, StoredTensor]) -> int:
    """Return the bytes that the weights will take."""

    def packed_nbytes(tensor: StoredTensor) -> int:
        if len(tensor.shape) < 2:
            return 4 * prod(tensor.shape)
        if tensor.kind not in BLOCK_TYPES:
            return 2 * prod(tensor.shape)
        return StoredPart.nbytes_of(BLOCK_TYPES[tensor.kind].form, tensor.shape)

    embedding = tensors[EMBEDDING]
    is_twice = HEAD not in tensors and embedding.kind not in BLOCK_TYPES
    return sum(map(packed_nbytes, tensors.values())) + (packed_nbytes(embedding) if is_twice else 0)


def read_stored_decoder(
    config: _Config,
    file: Path,
    tensors: Mapping[str, StoredTensor],
    *,
    report: Callable[[int], None] = lambda _nbytes: None,
) -> CpuDecoder:
    """Read a decoder from a GGUF file whose weights are used as stored.

    The caller has made sure by ``why_not_by_files`` that the tensors are there. Raises
    ``ModelError`` for weights or answers of the model that are not numbers.
    """
    stored = StoredTensors(file, tensors, report)
    with torch.no_grad():
        read = _StoredReader(config, stored)
        decoder = CpuDecoder(assemble(config, read, *read.embedding_and_head()))
    stored.close()
    try_decoder(decoder, config)
    return decoder


class _StoredReader(WeightReader):
    """Takes matrices in their blocks; plain ones become bf16."""

    def __init__(self, config: _Config, tensors: StoredTensors) -> None:
        super().__init__(config, tensors, matrix_packer(WeightFormat.BF16))
        self._stored, self._memory = tensors, LargePages()

    def embedding_and_head(self) -> tuple[Embedding, PackedMatrix]:
        """Return embedding and head; in blocks, one matrix serves as both if they are the same.

        Rows are unpacked from their blocks when they are looked up.
        """
        has_head, kind = HEAD in self._stored, self._stored.kind(EMBEDDING)
        if kind in BLOCK_TYPES:
            part = self._part(kind, [EMBEDDING])
            embedding = StoredEmbedding(part, is_head=not has_head)
            return embedding, self.matrix("lm_head") if has_head else StoredMatrix([part])
        plain = PlainEmbedding(self._stored.take(EMBEDDING).to(torch.bfloat16))
        return plain, self.matrix("lm_head" if has_head else EMBEDDING.removesuffix(".weight"))

    def matrix(self, *names: str) -> PackedMatrix:
        """Return matrices of the same input as one, their outputs in the order of ``names``."""
        if not all(self._stored.kind(f"{name}.weight") in BLOCK_TYPES for name in names):
            if names[1:]:
                return StackedMatrix([self.matrix(name) for name in names])
            return super().matrix(*names)
        # Matrices of one type are one part, so that threads synchronise once.
        parts = [
            self._part(kind, [f"{name}.weight" for name in same])
            for kind, same in groupby(names, lambda name: self._stored.kind(f"{name}.weight"))
        ]
        biases = [name for name in names if f"{name}.bias" in self._stored]
        if biases and len(biases) < len(names):
            return StackedMatrix([self.matrix(name) for name in names])
        taken = [self._stored.take(f"{name}.bias").float().numpy() for name in biases]
        return StoredMatrix(parts, np.concatenate(taken) if taken else None)

    def _part(self, kind: str, names: list[str]) -> StoredPart:
        """Return matrices of one type of block as one part, laid out for the kernel."""
        blocks = [self._stored.blocks(name) for name in names]
        packed = np.concatenate(blocks) if blocks[1:] else blocks[0]
        try:
            return StoredPart.of_blocks(
                BLOCK_TYPES[kind], packed, self._memory, instructions_here()
            )
        except NotFiniteError as error:
            raise _not_finite_error(names, error) from error


def _not_finite_error(names: Sequence[str], error: NotFiniteError) -> ModelError:
    return ModelError(
        f"{' or '.join(names)} in the GGUF file is broken: {error}",
        hint="fetch the file again, or choose another",
    )
