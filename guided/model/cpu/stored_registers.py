"""The registers of an instruction set, as kernels of stored weights use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir

from guided.model.cpu.instructions import InstructionSet
from guided.model.cpu.llvm import FLOAT, INT32

__all__ = ["WIDTHS", "Registers"]

WIDTHS: Final = {
    InstructionSet.AVX512_VNNI: 16,
    InstructionSet.AVX_VNNI: 8,
    InstructionSet.AVX2: 8,
    InstructionSet.PORTABLE: 4,
}
"""The instruction sets that there is a form for, the best first, and the sums in a register."""
_INT16, _HALF = ir.IntType(16), ir.HalfType()


class Registers:
    """Vectors of 32 bits, and what is done with them."""

    def __init__(self, builder: Any, instructions: InstructionSet) -> None:
        self.builder, self._instructions = builder, instructions
        self.width = WIDTHS[instructions]
        self.ints = ir.VectorType(INT32, self.width)
        self.floats = ir.VectorType(FLOAT, self.width)

    def at(self, address: Any, number: Any, size: Any) -> Any:
        return self.builder.add(address, self.builder.mul(number, size))

    def pointer(self, address: Any, kind: Any) -> Any:
        return self.builder.inttoptr(address, kind.as_pointer())

    def load(self, address: Any, kind: Any, align: int = 4) -> Any:
        return self.builder.load(self.pointer(address, kind), align=align)

    def constant(self, number: int) -> Any:
        return ir.Constant(self.ints, [number] * self.width)

    def splat(self, number: Any) -> Any:
        nothing = ir.Constant(ir.VectorType(number.type, self.width), ir.Undefined)
        first = self.builder.insert_element(nothing, number, INT32(0))
        return self.builder.shuffle_vector(first, nothing, self.constant(0))

    def widened(self, address: Any) -> Any:
        """Floats of 16 bits, none of them infinite, as those of 32."""
        builder = self.builder
        if self._instructions is not InstructionSet.PORTABLE:
            halves = self.load(address, ir.VectorType(_HALF, self.width), align=2)
            return builder.fpext(halves, self.floats)
        # Some processors have no instruction for it; what LLVM calls then is not linked here.
        bits = self.load(address, ir.VectorType(_INT16, self.width), align=2)
        wide = builder.sext(bits, self.ints)
        size = builder.shl(builder.and_(wide, self.constant(0x7FFF)), self.constant(13))
        exponent = ir.Constant(self.floats, [2.0**112] * self.width)
        number = builder.fmul(builder.bitcast(size, self.floats), exponent)
        sign = builder.and_(wide, self.constant(0x80000000))
        return builder.bitcast(builder.or_(builder.bitcast(number, self.ints), sign), self.floats)

    def dot(self) -> Callable[[Any, Any, Any], Any]:
        """What adds the products of two pairs of int16 to sums; the second pair is one int32."""
        match self._instructions:
            case InstructionSet.AVX512_VNNI:
                return self._dot_vnni("llvm.x86.avx512.vpdpwssd.512")
            case InstructionSet.AVX_VNNI:
                return self._dot_vnni("llvm.x86.avx512.vpdpwssd.256")
            case InstructionSet.AVX2:
                return self._dot_avx2
            case _:
                return self._dot_portable

    def _dot_vnni(self, name: str) -> Callable[[Any, Any, Any], Any]:
        kind = ir.FunctionType(self.ints, [self.ints] * 3)
        function = self.builder.module.declare_intrinsic(name, (), kind)

        def dot(total: Any, codes: Any, steps: Any) -> Any:
            return self.builder.call(function, [total, codes, self.splat(steps)])

        return dot

    def _dot_avx2(self, total: Any, codes: Any, steps: Any) -> Any:
        builder = self.builder
        pairs = ir.VectorType(_INT16, 2 * self.width)
        kind = ir.FunctionType(self.ints, [pairs, pairs])
        function = builder.module.declare_intrinsic("llvm.x86.avx2.pmadd.wd", (), kind)
        operands = [builder.bitcast(each, pairs) for each in (codes, self.splat(steps))]
        return builder.add(total, builder.call(function, operands))

    def _dot_portable(self, total: Any, codes: Any, steps: Any) -> Any:
        builder = self.builder
        first = builder.ashr(builder.shl(steps, INT32(16)), INT32(16))
        second = builder.ashr(steps, INT32(16))
        of_first = builder.mul(builder.and_(codes, self.constant(0xFFFF)), self.splat(first))
        of_second = builder.mul(builder.lshr(codes, self.constant(16)), self.splat(second))
        return builder.add(builder.add(total, of_first), of_second)
