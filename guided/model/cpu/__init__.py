"""Llama-like decoders on the CPU: matrices by kernels or torch, the rest by a few more kernels.

For the narrow calls of verification, of 1 to some 16 tokens, where a module of transformers spends
as long between the matrices as in them. See docs/decisions/0007-own-forward-on-cpu.md.
"""

from guided.model.cpu.adapted_layers import adapt_weights
from guided.model.cpu.attention import LayerCache
from guided.model.cpu.block_types import BLOCK_TYPES
from guided.model.cpu.decoder import CpuDecoder
from guided.model.cpu.formats import WeightFormat
from guided.model.cpu.stored_tensors import StoredTensor
from guided.model.cpu.stored_weights import read_stored_decoder, stored_nbytes
from guided.model.cpu.weights import (
    read_decoder,
    take_decoder,
    why_not,
    why_not_by_config,
    why_not_by_files,
)

__all__ = [
    "BLOCK_TYPES",
    "CpuDecoder",
    "LayerCache",
    "StoredTensor",
    "WeightFormat",
    "adapt_weights",
    "read_decoder",
    "read_stored_decoder",
    "stored_nbytes",
    "take_decoder",
    "why_not",
    "why_not_by_config",
    "why_not_by_files",
]
