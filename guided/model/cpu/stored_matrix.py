"""Matrices of weights in blocks, multiplied as they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from guided.model.cpu.addresses import integers
from guided.model.cpu.block_types import BlockType, CodeForm, Codes
from guided.model.cpu.instructions import InstructionSet
from guided.model.cpu.kernel import exact_kernel
from guided.model.cpu.matrix import LargePages, Numbers
from guided.model.cpu.stored_kernel import multiply_stored
from guided.model.cpu.stored_layout import (
    CELL,
    LANES,
    bits_apart,
    span_fields,
    take_back,
    write_spans,
)
from guided.model.cpu.stored_products import StoredJob
from guided.model.cpu.stored_rows import RowForm, round_rows, steps_at
from guided.model.cpu.thread_team import COUNTER_APART, run_together, team_address, team_size

__all__ = ["NotFiniteError", "StoredMatrix", "StoredPart"]

_TAKEN: Final = 64 * LANES
"""Outputs that are unpacked at a time, so that little memory is taken beside the result."""
_COUNTER: Final = StoredJob.LENGTH + COUNTER_APART
"""Where scratch memory has the counter of a job, counted in integers."""
_STEPS: Final = (_COUNTER + COUNTER_APART) * 8
"""Where it has the steps, counted in bytes."""
_WEIGHTS, _SPANS, _BLOCKS = StoredJob.WEIGHTS, StoredJob.SPANS, StoredJob.BLOCKS
_ROWS, _SCALES, _TOTALS = StoredJob.ROWS, StoredJob.SCALES, StoredJob.TOTALS
_PRODUCTS, _STRIDE, _COUNT = StoredJob.PRODUCTS, StoredJob.STRIDE, StoredJob.COUNT
_COUNTER_AT = StoredJob.COUNTER_AT


class NotFiniteError(ValueError):
    """A scale or a least number is infinite or NaN, and kernels need finite numbers."""


class StoredPart:
    """Outputs of a matrix that are blocks of one form."""

    __slots__ = (
        "_cell_bytes",
        "_laid",
        "_of_job",
        "_rounding",
        "_task",
        "apart",
        "form",
        "nbytes",
        "outputs",
        "padded",
        "row_form",
    )

    def __init__(
        self,
        form: CodeForm,
        shape: tuple[int, int],
        codes: Iterator[Codes],
        memory: LargePages,
        instructions: InstructionSet,
    ) -> None:
        """``codes`` are those of ``shape``, ``[out, in]``, in pieces of a multiple of 16 outputs;
        the last may have fewer.

        Raises ``NotFiniteError``, because a kernel may make a number of a NaN.
        """
        self.form, self.apart = form, bits_apart(form, instructions)
        self.row_form = RowForm.of(form, self.apart)
        self.outputs, inputs = shape
        blocks, spans = -(-self.outputs // LANES), inputs // form.span
        self._cell_bytes = self.row_form.cell_bytes
        fields = span_fields(form)
        self.nbytes = self.nbytes_of(form, shape)
        self.padded = blocks * LANES
        self._laid = memory.take(self.nbytes).view(fields).reshape(blocks, spans)
        done = 0
        for piece in codes:
            _require_finite(piece.scales, piece.leasts, first=done * LANES)
            whole = _pad_outputs(piece)
            count = len(whole.codes) // LANES
            write_spans(whole, self._laid[done : done + count], self.apart)
            done += count
        assert done == blocks, "pieces do not make up the matrix"
        self._task = multiply_stored(form, instructions)
        self._of_job = np.array([self._laid.ctypes.data, spans, blocks])
        self._rounding = self.row_form.numbers()

    @staticmethod
    def nbytes_of(form: CodeForm, shape: tuple[int, ...]) -> int:
        """Return the bytes that ``shape``, ``[out, in]``, takes."""
        return -(-shape[0] // LANES) * (shape[1] // form.span) * span_fields(form).itemsize

    @classmethod
    def of_blocks(
        cls,
        kind: BlockType,
        packed: NDArray[np.uint8],
        memory: LargePages,
        instructions: InstructionSet,
        *,
        piece: int = _TAKEN,
    ) -> StoredPart:
        """Make a part of outputs as they are in a file, ``[out, bytes]``, ``piece`` at a time.

        Raises ``NotFiniteError``.
        """
        outputs, nbytes = packed.shape
        inputs = nbytes // kind.fields.itemsize * kind.form.span

        pieces = (packed[start : start + piece] for start in range(0, outputs, piece))
        codes = map(kind.codes, pieces)
        return cls(kind.form, (outputs, inputs), codes, memory, instructions)

    def codes(self, outputs: NDArray[np.int64]) -> Codes:
        """Return the original codes of some outputs."""
        return take_back(self._laid, outputs, self.form, self.apart)

    def scratch(self, rows: Numbers) -> NDArray[np.uint8]:
        """Return memory for a call with these rows, which parts of one row form may share.

        It is of one call alone, because others may multiply at the same time.
        """
        return np.empty(_STEPS + rows.size // CELL * self._cell_bytes, np.uint8)

    def multiply(
        self, rows: Numbers, scratch: NDArray[np.uint8], products: Numbers, *, is_rounded: bool
    ) -> None:
        """Write the products of contiguous rows, ``[tokens, in]``, to ``[tokens, out]``.

        ``is_rounded`` says that another part has left the rows in the scratch memory as steps.
        """
        _start(
            *(self._of_job, self._rounding, rows, scratch, products, is_rounded),
            *(team_address(), self._task.address, team_size()),
        )


class StoredMatrix:
    """Parts one below the other, and a bias."""

    __slots__ = ("_bias", "_is_padded", "_parts", "_width", "nbytes")

    def __init__(self, parts: Sequence[StoredPart], bias: Numbers | None = None) -> None:
        self._bias = bias
        ends = list(accumulate(part.padded for part in parts))
        forms = [part.row_form for part in parts]
        self._parts = tuple(
            (part, slice(end - part.padded, end), forms.index(part.row_form))
            for part, end in zip(parts, ends, strict=True)
        )
        """With the columns of each, and which part was the first of its row form."""
        self._width = ends[-1]
        self._is_padded = any(part.outputs != part.padded for part in parts)
        self.nbytes = sum(part.nbytes for part in parts)

    def multiply(self, rows: Numbers) -> Numbers:
        """Map ``[tokens, in]`` to ``[tokens, out]``."""
        rows = np.ascontiguousarray(rows)
        found = np.empty((len(rows), self._width), np.float32)
        scratch: list[NDArray[np.uint8]] = []
        for number, (part, columns, first) in enumerate(self._parts):
            scratch.append(part.scratch(rows) if first == number else scratch[first])
            part.multiply(rows, scratch[first], found[:, columns], is_rounded=first != number)
        if self._is_padded:
            wanted = (found[:, columns][:, : part.outputs] for part, columns, _ in self._parts)
            found = np.concatenate(list(wanted), axis=1)
        if self._bias is not None:
            found += self._bias
        return found


@exact_kernel
def _start(
    of_part: Any,
    rounding: Any,
    rows: Any,
    scratch: Any,
    products: Any,
    is_rounded: Any,
    team: Any,
    function: Any,
    size: Any,
) -> None:
    """Make the ``StoredJob`` of one call in scratch memory, and run the task with it.

    ``of_part`` has what is the same in all calls of a part; ``size`` is how many threads take part.
    """
    start = scratch.ctypes.data
    job, counter = integers(start), start + _COUNTER * 8
    if not is_rounded:
        round_rows(rows, start + _STEPS, rounding)
    cells, nbytes = rows.size // rounding[1], rounding[0]
    job[_ROWS], job[_SCALES], job[_TOTALS] = steps_at(start + _STEPS, cells, nbytes)
    job[_WEIGHTS], job[_SPANS], job[_BLOCKS] = of_part[0], of_part[1], of_part[2]
    job[_PRODUCTS], job[_STRIDE] = products.ctypes.data, products.strides[0] // 4
    job[_COUNT], job[_COUNTER_AT] = len(rows), counter
    integers(counter)[0] = 0
    run_together(team, function, start, size)


def _pad_outputs(codes: Codes) -> Codes:
    """Pad codes with outputs of zeros to a multiple of 16."""
    missing = -len(codes.codes) % LANES
    if not missing:
        return codes
    parts: list[Any] = [
        None if part is None else np.pad(part, ((0, missing), (0, 0))) for part in codes[1:]
    ]
    return Codes(codes.form, *parts)


def _require_finite(*floats: NDArray[np.float16] | None, first: int = 0) -> None:
    """Raise ``NotFiniteError`` unless scales and least numbers are finite.

    They are ``[out, spans]``, of outputs from ``first`` on; ``None`` is skipped.
    """
    for each in floats:
        if each is not None and not np.isfinite(each).all():
            output = first + int(np.isfinite(each).all(axis=1).argmin())
            raise NotFiniteError(f"a scale of output {output} is not finite")
