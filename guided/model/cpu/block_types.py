"""The blocks of GGUF files, and the small whole numbers in them.

A block is 32 or 256 inputs of one output. A weight in it is a code, scaled and shifted::

    weight = scale * code + least                scale and least of 32 inputs
    weight = scale * (code - offset)             for types without a least number

In blocks of 256 (the K types) ``scale`` is itself that of a block times a small whole number of its
16 or 32 inputs, and so is ``least``. The layout of each type is that of ggml's block structures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_TYPES", "BlockType", "CodeForm", "Codes"]

_Bytes = NDArray[np.uint8]
_Blocks = NDArray[np.void]

K_BLOCK: Final = 256
_NARROW, _WIDE = 16, 32


class CodeForm(NamedTuple):
    """The form of codes, whatever type they come from."""

    bits: int
    """Bits of a code; codes are unsigned."""
    offset: int
    """Subtracted from a code; 0 for types with a least number."""
    has_least: bool
    group: int
    """Inputs that have a scale of their own, 16 or 32."""
    is_nested: bool
    """Whether a scale is a float of 256 inputs times an int8 of a group."""

    @property
    def span(self) -> int:
        """Inputs that share a float."""
        return K_BLOCK if self.is_nested else _WIDE


class Codes(NamedTuple):
    """Some outputs as codes, and what turns codes into numbers."""

    form: CodeForm
    codes: _Bytes
    """``[out, in]``."""
    scales: NDArray[np.float16]
    """``[out, spans]``."""
    leasts: NDArray[np.float16] | None
    group_scales: NDArray[np.int8] | None
    """``[out, groups]``; a nested form multiplies ``scales`` by them."""
    group_leasts: NDArray[np.int8] | None

    def numbers(self) -> NDArray[np.float32]:
        """Return the weights, ``[out, in]``."""
        outputs, inputs = self.codes.shape
        width = self.form.group
        scales = self._spread(self.scales, self.group_scales)
        found = self.codes.reshape(outputs, -1, width).astype(np.float32) - self.form.offset
        found *= scales[:, :, None]
        if self.leasts is not None:
            found += self._spread(self.leasts, self.group_leasts)[:, :, None]
        return found.reshape(outputs, inputs)

    def _spread(
        self, floats: NDArray[np.float16], whole: NDArray[np.int8] | None
    ) -> NDArray[np.float32]:
        """Return a number for each group."""
        wide = np.repeat(floats.astype(np.float32), self.form.span // self.form.group, axis=1)
        return wide if whole is None else wide * whole


class BlockType(NamedTuple):
    """One type of block."""

    form: CodeForm
    fields: np.dtype[np.void]
    """The fields of a block in the file."""
    unpack: Callable[[_Blocks, CodeForm], Codes]

    def codes(self, packed: _Bytes) -> Codes:
        """Decode outputs as they are in a file, ``[out, bytes]``."""
        return self.unpack(packed.view(self.fields), self.form)


def _two_halves(nibbles: _Bytes) -> _Bytes:
    """Return the codes in the low halves of bytes, and after them those in the high halves."""
    return np.concatenate((nibbles & 15, nibbles >> 4), axis=-1)


def _join_blocks(codes: NDArray[Any]) -> NDArray[Any]:
    """Reshape ``[out, blocks, ...]`` to ``[out, in]``."""
    return np.ascontiguousarray(codes).reshape(len(codes), -1)


def _plain(blocks: _Blocks, form: CodeForm) -> Codes:
    """Decode blocks of 32: four bits, five with the fifth ones apart, or eight."""
    codes = blocks["low"]
    # Codes of eight bits are signed; flipping the first bit adds 128.
    codes = codes ^ np.uint8(128) if form.bits == 8 else _two_halves(codes)
    if form.bits == 5:
        codes |= np.unpackbits(blocks["high"], axis=-1, bitorder="little") << np.uint8(4)
    least = blocks["least"] if form.has_least else None
    return Codes(form, _join_blocks(codes), blocks["scale"], least, None, None)


def _fours_k(blocks: _Blocks, form: CodeForm) -> Codes:
    """Q4_K, Q5_K: 32 bytes hold the codes of two groups; the fifth bits of all groups are apart."""
    codes = _two_halves(blocks["low"].reshape(*blocks.shape, 4, _WIDE))
    codes = codes.reshape(*blocks.shape, 8, _WIDE)
    if form.bits == 5:
        of_group = np.arange(8, dtype=np.uint8)[:, None]
        codes |= ((blocks["high"][..., None, :] >> of_group) & 1) << np.uint8(4)
    # Six bits each: of the first four groups in one byte, of the others in two.
    first, second, third = (blocks["groups"][..., start : start + 4] for start in (0, 4, 8))
    scales = np.concatenate((first & 63, third & 15 | (first >> 6) << 4), axis=-1)
    leasts = np.concatenate((second & 63, third >> 4 | (second >> 6) << 4), axis=-1)
    return _decode_nested(blocks, form, codes, scales, leasts)


def _quarters(low: _Bytes) -> _Bytes:
    """Split two bits each: 32 bytes hold the codes of four runs of 32 inputs, ``[..., 8, 32]``."""
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    codes = (low.reshape(*low.shape[:-1], 2, 1, _WIDE) >> shifts) & np.uint8(3)
    return codes.reshape(*low.shape[:-1], 8, _WIDE)


def _twos_k(blocks: _Blocks, form: CodeForm) -> Codes:
    """Q2_K."""
    groups = blocks["groups"]
    return _decode_nested(blocks, form, _quarters(blocks["low"]), groups & 15, groups >> 4)


def _threes_k(blocks: _Blocks, form: CodeForm) -> Codes:
    """Q3_K: the third bits of all runs are apart; scales have six bits, the upper two apart."""
    of_run = np.arange(8, dtype=np.uint8)[:, None]
    third = (blocks["high"][..., None, :] >> of_run) & np.uint8(1)
    codes = _quarters(blocks["low"]) | third << np.uint8(2)
    low = _two_halves(blocks["groups"][..., :8])
    of_four = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = (blocks["groups"][..., None, 8:] >> of_four) & np.uint8(3)
    scales = low | high.reshape(low.shape) << np.uint8(4)
    return _decode_nested(blocks, form, codes, scales.astype(np.int8) - np.int8(32), None)


def _sixes_k(blocks: _Blocks, form: CodeForm) -> Codes:
    """Q6_K: of 128 inputs, 64 bytes hold the lower four bits and 32 the upper two."""
    low = blocks["low"].reshape(*blocks.shape, 2, 64)
    codes = _two_halves(low).reshape(*blocks.shape, 8, _WIDE)
    codes |= _quarters(blocks["high"]) << np.uint8(4)
    return _decode_nested(blocks, form, codes, blocks["groups"], None)


def _decode_nested(
    blocks: _Blocks, form: CodeForm, codes: _Bytes, scales: Any, leasts: Any
) -> Codes:
    if leasts is None:
        return Codes(form, _join_blocks(codes), blocks["scale"], None, _join_blocks(scales), None)
    # The file has what is subtracted.
    least, whole = -blocks["least"], _join_blocks(leasts).view(np.int8)
    return Codes(
        form, _join_blocks(codes), blocks["scale"], least, _join_blocks(scales).view(np.int8), whole
    )


def _make_type(
    unpack: Any, form: CodeForm, *fields: tuple[str, str | tuple[str, int]]
) -> BlockType:
    kinds = [(name, *([kind] if isinstance(kind, str) else kind)) for name, kind in fields]
    return BlockType(form, np.dtype(kinds), unpack)


def _bytes(count: int) -> tuple[str, int]:
    return "u1", count


_SCALE, _LEAST = ("scale", "<f2"), ("least", "<f2")

BLOCK_TYPES: Final[Mapping[str, BlockType]] = {
    "Q4_0": _make_type(
        _plain,
        CodeForm(4, 8, has_least=False, group=_WIDE, is_nested=False),
        *(_SCALE, ("low", _bytes(16))),
    ),
    "Q4_1": _make_type(
        _plain,
        CodeForm(4, 0, has_least=True, group=_WIDE, is_nested=False),
        *(_SCALE, _LEAST, ("low", _bytes(16))),
    ),
    "Q5_0": _make_type(
        _plain,
        CodeForm(5, 16, has_least=False, group=_WIDE, is_nested=False),
        *(_SCALE, ("high", _bytes(4)), ("low", _bytes(16))),
    ),
    "Q5_1": _make_type(
        _plain,
        CodeForm(5, 0, has_least=True, group=_WIDE, is_nested=False),
        *(_SCALE, _LEAST, ("high", _bytes(4)), ("low", _bytes(16))),
    ),
    "Q8_0": _make_type(
        _plain,
        CodeForm(8, 128, has_least=False, group=_WIDE, is_nested=False),
        *(_SCALE, ("low", _bytes(32))),
    ),
    "Q2_K": _make_type(
        _twos_k,
        CodeForm(2, 0, has_least=True, group=_NARROW, is_nested=True),
        *(("groups", _bytes(16)), ("low", _bytes(64)), _SCALE, _LEAST),
    ),
    "Q3_K": _make_type(
        _threes_k,
        CodeForm(3, 4, has_least=False, group=_NARROW, is_nested=True),
        *(("high", _bytes(32)), ("low", _bytes(64)), ("groups", _bytes(12)), _SCALE),
    ),
    "Q4_K": _make_type(
        _fours_k,
        CodeForm(4, 0, has_least=True, group=_WIDE, is_nested=True),
        *(_SCALE, _LEAST, ("groups", _bytes(12)), ("low", _bytes(128))),
    ),
    "Q5_K": _make_type(
        _fours_k,
        CodeForm(5, 0, has_least=True, group=_WIDE, is_nested=True),
        *(_SCALE, _LEAST, ("groups", _bytes(12)), ("high", _bytes(32)), ("low", _bytes(128))),
    ),
    "Q6_K": _make_type(
        _sixes_k,
        CodeForm(6, 32, has_least=False, group=_NARROW, is_nested=True),
        *(("low", _bytes(128)), ("high", _bytes(64)), ("groups", ("i1", 16)), _SCALE),
    ),
}
"""By ggml's names."""
