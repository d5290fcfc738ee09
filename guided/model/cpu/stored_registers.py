"""The registers of an instruction set, as kernels of stored weights use them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from guided.model.cpu.instructions import InstructionSet, register_width
from guided.model.cpu.llvm import FLOAT, INT32, pointer, splat

__all__ = ["Registers"]

_INT16, _HALF = ir.IntType(16), ir.HalfType()


class Registers:
    """Vectors of 32 bits, and the operations on them."""

    def __init__(self, builder: Any, instructions: InstructionSet) -> None:
        self.builder, self.instructions = builder, instructions
        self.width = register_width(instructions)
        self.ints = ir.VectorType(INT32, self.width)
        self.floats = ir.VectorType(FLOAT, self.width)

    def at(self, address: Any, number: Any, size: Any) -> Any:
        return self.builder.add(address, self.builder.mul(number, size))

    def load(self, address: Any, kind: Any, align: int = 4) -> Any:
        return self.builder.load(pointer(self.builder, address, kind), align=align)

    def constant(self, number: int) -> Any:
        return ir.Constant(self.ints, [number] * self.width)

    def call(self, name: str, kind: Any, *operands: Any) -> Any:
        """Emit an instruction by LLVM's name."""
        of = ir.FunctionType(kind, [each.type for each in operands])
        return self.builder.call(self.builder.module.declare_intrinsic(name, (), of), operands)

    def in_order(self, number: Any) -> Any:
        """Return a vector as it is, in instructions that do not regroup how it was added up.

        Regrouped sums need more registers than there are, which takes a twentieth of the time.
        """
        kind = ir.FunctionType(number.type, [number.type])
        return self.builder.call(ir.InlineAsm(kind, "", "=x,0"), [number])

    def pair_products(self, one: Any, other: Any) -> Any:
        """Multiply int16 and add up pairs of products, with AVX2."""
        pairs = ir.VectorType(_INT16, 2 * self.width)
        operands = [self.builder.bitcast(each, pairs) for each in (one, other)]
        return self.call("llvm.x86.avx2.pmadd.wd", self.ints, *operands)

    def splat(self, number: Any) -> Any:
        return splat(self.builder, number, self.width)

    def load_halves(self, address: Any) -> Any:
        """Read floats of 16 bits, none of them infinite, as floats of 32."""
        builder = self.builder
        if self.instructions is not InstructionSet.PORTABLE:
            halves = self.load(address, ir.VectorType(_HALF, self.width), align=2)
            return builder.fpext(halves, self.floats)
        # Some processors have no instruction for it; LLVM's library function is not linked here.
        bits = self.load(address, ir.VectorType(_INT16, self.width), align=2)
        wide = builder.sext(bits, self.ints)
        size = builder.shl(builder.and_(wide, self.constant(0x7FFF)), self.constant(13))
        exponent = ir.Constant(self.floats, [2.0**112] * self.width)
        number = builder.fmul(builder.bitcast(size, self.floats), exponent)
        sign = builder.and_(wide, self.constant(0x80000000))
        return builder.bitcast(builder.or_(builder.bitcast(number, self.ints), sign), self.floats)
