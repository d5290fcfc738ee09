"""Random blocks of each type of GGUF: any bytes are a block, as long as its floats are finite."""

from __future__ import annotations

import gguf
import numpy as np
from numpy.typing import NDArray

__all__ = ["block_size", "dequantised", "random_blocks"]

_FLOATS = {
    **dict.fromkeys(("Q4_0", "Q5_0", "Q8_0"), (0,)),
    **dict.fromkeys(("Q4_1", "Q5_1", "Q4_K", "Q5_K"), (0, 2)),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q6_K": (208,),
}
"""The offsets of the 16-bit floats in a block."""


def block_size(kind: str) -> int:
    """Numbers in a block."""
    return gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][0]


def random_blocks(
    kind: str, outputs: int, inputs: int, *, scale: float = 0.01, seed: int = 0
) -> NDArray[np.uint8]:
    """``[out, bytes]`` as in a file, with normally distributed scales."""
    random = np.random.default_rng(seed)
    size, nbytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = random.integers(0, 256, (outputs, inputs // size, nbytes), dtype=np.uint8)
    for place in _FLOATS[kind]:
        floats = (random.standard_normal(blocks.shape[:2]) * scale).astype("<f2")
        blocks[..., place : place + 2] = floats.view(np.uint8).reshape(*blocks.shape[:2], 2)
    return blocks.reshape(outputs, -1)


def dequantised(kind: str, packed: NDArray[np.uint8]) -> NDArray[np.float32]:
    """``[out, in]``, by the library of the format."""
    found: NDArray[np.float32] = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType[kind])
    return found
