"""Sums of products of codes and steps of rows, with the instructions of each set.

Each lane of a register has the codes of four neighbours 8 bits apart or of two 16 bits apart, and
so have steps. All sums are exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

from llvmlite import ir

from guided.model.cpu.block_types import CodeForm
from guided.model.cpu.instructions import InstructionSet
from guided.model.cpu.stored_layout import BYTE, bits_apart
from guided.model.cpu.stored_registers import Registers
from guided.model.cpu.stored_rows import LARGEST

__all__ = ["WholeSum", "whole_sum"]

_LARGEST_INT16: Final = 32767


class WholeSum(ABC):
    """A whole number of 32 bits in each lane."""

    def __init__(self, on: Registers, start: Any) -> None:
        self._on, self._total = on, start

    @abstractmethod
    def add(self, codes: Any, steps: Any) -> None:
        """Add neighbours' codes times their steps."""

    def result(self) -> Any:
        return self._total


def whole_sum(on: Registers, form: CodeForm, start: Any) -> WholeSum:
    """Make a sum that begins with ``start``."""
    are_bytes = bits_apart(form, on.instructions) == BYTE
    match on.instructions:
        case InstructionSet.AVX512_VNNI | InstructionSet.AVX_VNNI:
            return _Chained(on, start, "vpdpbusd" if are_bytes else "vpdpwssd")
        case InstructionSet.AVX2 if are_bytes:
            return _OfBytes(on, start, form.bits)
        case InstructionSet.AVX2:
            return _OfPairs(on, start)
        case _:
            return _Plain(on, start)


class _Chained(WholeSum):
    """One instruction multiplies and adds to the sum."""

    def __init__(self, on: Registers, start: Any, instruction: str) -> None:
        super().__init__(on, start)
        self._name = f"llvm.x86.avx512.{instruction}.{32 * on.width}"

    def add(self, codes: Any, steps: Any) -> None:
        self._total = self._on.call(self._name, self._on.ints, self._total, codes, steps)


class _OfPairs(WholeSum):
    """``vpmaddwd``, and an addition."""

    def add(self, codes: Any, steps: Any) -> None:
        found = self._on.pair_products(codes, steps)
        self._total = self._on.builder.add(self._total, found)


class _OfBytes(_OfPairs):
    """``vpmaddubsw``; its products add up in 16 bits as long as they fit."""

    def __init__(self, on: Registers, start: Any, bits: int) -> None:
        super().__init__(on, start)
        self._room = _LARGEST_INT16 // (2 * (2**bits - 1) * LARGEST[BYTE])
        self._narrow, self._added = None, 0

    def add(self, codes: Any, steps: Any) -> None:
        on, builder = self._on, self._on.builder
        of_bytes, of_words = (
            ir.VectorType(ir.IntType(bits), 32 // bits * on.width) for bits in (8, 16)
        )
        operands = [builder.bitcast(each, of_bytes) for each in (codes, steps)]
        found = on.call("llvm.x86.avx2.pmadd.ub.sw", of_words, *operands)
        if self._narrow is not None:
            found = on.in_order(builder.add(self._narrow, found))
        self._narrow = found
        self._added += 1
        if self._added == self._room:
            self._widen()

    def _widen(self) -> None:
        super().add(self._narrow, self._on.constant(1 << 16 | 1))
        self._narrow, self._added = None, 0

    def result(self) -> Any:
        if self._narrow is not None:
            self._widen()
        return self._total


class _Plain(WholeSum):
    """Plain vectors of LLVM; neighbours are two."""

    def add(self, codes: Any, steps: Any) -> None:
        on, builder = self._on, self._on.builder
        half = on.constant(16)
        first, second = builder.ashr(builder.shl(steps, half), half), builder.ashr(steps, half)
        of_first = builder.mul(builder.and_(codes, on.constant(0xFFFF)), first)
        of_second = builder.mul(builder.lshr(codes, half), second)
        self._total = builder.add(builder.add(self._total, of_first), of_second)
