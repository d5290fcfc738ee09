"""From the blocks of a GGUF file to the weights of a decoder, which stay as they are stored."""

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
    require_finite,
)
from guided.model.cpu.stored_tensors import StoredTensor, StoredTensors
from guided.model.cpu.weights import EMBEDDING, HEAD, WeightReader, assembled, try_decoder
from guided.model.plain_config import PlainConfig

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    _Config = PretrainedConfig | PlainConfig

__all__ = ["read_stored_decoder", "stored_nbytes"]


def stored_nbytes(tensors: Mapping[str, StoredTensor]) -> tuple[int, int]:
    """Memory that will be taken: of the rows of tokens, in blocks of the file, and of all else."""

    def packed(tensor: StoredTensor) -> int:
        if len(tensor.shape) < 2:
            return 4 * prod(tensor.shape)
        if tensor.kind not in BLOCK_TYPES:
            return 2 * prod(tensor.shape)
        return StoredPart.nbytes_of(BLOCK_TYPES[tensor.kind].form, tensor.shape)

    embedding = tensors[EMBEDDING]
    rows = embedding.nbytes if embedding.kind in BLOCK_TYPES else packed(embedding)
    matrices = sum(packed(tensor) for name, tensor in tensors.items() if name != EMBEDDING)
    return rows, matrices + (0 if HEAD in tensors else packed(embedding))


def read_stored_decoder(
    config: _Config,
    file: Path,
    tensors: Mapping[str, StoredTensor],
    *,
    report: Callable[[int], None] = lambda _nbytes: None,
) -> CpuDecoder:
    """A decoder with the weights of a GGUF file, computed with as they are stored.

    The caller has made sure by ``why_not_by_files`` that the tensors are there. Raises
    ``ModelError`` for weights or answers of the model that are no numbers.
    """
    stored = StoredTensors(file, tensors, report)
    with torch.no_grad():
        read = _StoredReader(config, stored)
        head = read.matrix("lm_head" if HEAD in stored else EMBEDDING.removesuffix(".weight"))
        decoder = CpuDecoder(assembled(config, read, read.embedding(), head))
    stored.close()
    try_decoder(decoder, config)
    return decoder


class _StoredReader(WeightReader):
    """Takes matrices as the blocks that they are; those of numbers become bf16."""

    def __init__(self, config: _Config, tensors: StoredTensors) -> None:
        super().__init__(config, tensors, matrix_packer(WeightFormat.BF16))
        self._stored, self._memory = tensors, LargePages()

    def embedding(self) -> Embedding:
        """The embedding, whose rows are unpacked from their blocks as they are asked for."""
        kind = BLOCK_TYPES.get(self._stored.kind(EMBEDDING))
        if kind is None:
            return PlainEmbedding(self._stored.take(EMBEDDING).to(torch.bfloat16))
        # A copy: the file is the caller's, who may write another model over it.
        packed = self._stored.blocks(EMBEDDING).copy()
        blocks = packed.view(kind.fields)
        try:
            require_finite(blocks["scale"], blocks["least"] if kind.form.has_least else None)
        except NotFiniteError as error:
            raise _broken([EMBEDDING], error) from error
        return StoredEmbedding(kind, packed)

    def matrix(self, *names: str) -> PackedMatrix:
        """Matrices that read the same input as one, their outputs in the order of ``names``."""
        if not all(self._stored.kind(f"{name}.weight") in BLOCK_TYPES for name in names):
            if names[1:]:
                return StackedMatrix([self.matrix(name) for name in names])
            return super().matrix(*names)
        # What is of one type is one part, so that threads come together once.
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
        """Matrices of one type of block as one part, laid out for the kernel."""
        blocks = [self._stored.blocks(name) for name in names]
        packed = np.concatenate(blocks) if blocks[1:] else blocks[0]
        try:
            return StoredPart.of_blocks(
                BLOCK_TYPES[kind], packed, self._memory, instructions_here()
            )
        except NotFiniteError as error:
            raise _broken(names, error) from error


def _broken(names: Sequence[str], error: NotFiniteError) -> ModelError:
    return ModelError(
        f"{' or '.join(names)} in the GGUF file is broken: {error}",
        hint="fetch the file again, or choose another",
    )
