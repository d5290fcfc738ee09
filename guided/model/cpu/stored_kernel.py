"""The tasks that multiply rows by stored weights, one for each form of codes.

Each is compiled when a model first has such weights, from ``stored_products``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from numba import types

from guided.model.cpu.addresses import take_next
from guided.model.cpu.block_types import CodeForm
from guided.model.cpu.instructions import InstructionSet, available
from guided.model.cpu.kernel import Task, exact_task, with_constants
from guided.model.cpu.llvm import for_each_count
from guided.model.cpu.stored_products import Products, StoredJob

__all__ = ["STORED_FORMS", "instructions_here", "multiply_stored"]

STORED_FORMS: Final = (
    InstructionSet.AVX512_VNNI,
    InstructionSet.AVX_VNNI,
    InstructionSet.AVX2,
    InstructionSet.PORTABLE,
)
"""The instruction sets that the kernel has a form for, the best first."""
_AT_ONCE: Final = dict.fromkeys(STORED_FORMS, 4) | {InstructionSet.AVX512_VNNI: 8}
"""Rows that a block is multiplied by at once, by trial; registers have room for half as many."""
_TAKEN: Final = 4
"""Blocks of 16 outputs that a thread takes at a time."""
_BLOCKS, _COUNT, _COUNTER_AT = StoredJob.BLOCKS, StoredJob.COUNT, StoredJob.COUNTER_AT


def instructions_here() -> InstructionSet:
    """Return the best of ``STORED_FORMS`` that this processor has."""
    return next(each for each in available() if each in STORED_FORMS)


@cache
def multiply_stored(form: CodeForm, instructions: InstructionSet) -> Task:
    """Return the task that multiplies rows by codes of a form; its job is a ``StoredJob``.

    Compiled once for each form and set of instructions.
    """
    # As numbers: the key of a kernel on the disk has to be the same in every process.
    bits, offset, has_least, group, is_nested = map(int, form)
    number, at_once = list(InstructionSet).index(instructions), _AT_ONCE[instructions]

    @exact_task
    def multiply(job: Any) -> None:
        blocks, count, counter = job[_BLOCKS], job[_COUNT], job[_COUNTER_AT]
        parts = -(-count // at_once)
        while True:
            first = take_next(counter) * _TAKEN
            if first >= blocks:
                return
            for block in range(first, min(first + _TAKEN, blocks)):
                # A block stays in the caches for the rows that do not fit in the registers.
                for part in range(parts):
                    begin, end = count * part // parts, count * (part + 1) // parts
                    rows = end - begin
                    _multiply_block(
                        job, block, begin, rows, bits, offset, has_least, group, is_nested, number
                    )

    return multiply


@with_constants
def _multiply_block(
    _: Any,
    job: Any,
    block: Any,
    first: Any,
    count: Any,
    bits: Any,
    offset: Any,
    has_least: Any,
    group: Any,
    is_nested: Any,
    instructions: Any,
) -> Any:
    """Multiply one block by a few rows from a first one on; the last six are constants."""
    told = bits, offset, has_least, group, is_nested, instructions
    if not all(isinstance(each, types.Literal) for each in told):
        return None
    numbers = [each.literal_value for each in told]
    form = CodeForm(numbers[0], numbers[1], bool(numbers[2]), numbers[3], bool(numbers[4]))
    chosen = list(InstructionSet)[numbers[5]]

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        def products(rows: int) -> None:
            Products(builder, form, chosen, rows).emit(*args[:3])

        for_each_count(builder, args[3], _AT_ONCE[chosen], products)
        return context.get_dummy_value()

    return types.void(job, block, first, count, *told), emit
