"""Matrices of weights in blocks, multiplied as they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from guided.model.cpu.block_types import BlockType, CodeForm, Codes
from guided.model.cpu.instructions import InstructionSet
from guided.model.cpu.kernel import exact_kernel
from guided.model.cpu.matrix import LargePages, Numbers
from guided.model.cpu.stored_kernel import multiply_stored
from guided.model.cpu.stored_layout import LANES, bits_apart, span_fields, take_back, write_spans
from guided.model.cpu.stored_products import StoredJob
from guided.model.cpu.stored_rows import RowForm, Steps, in_steps
from guided.model.cpu.thread_team import run_together, team_address, team_size

__all__ = ["NotFiniteError", "StoredMatrix", "StoredPart"]

_TAKEN: Final = 64 * LANES
"""Outputs that are unpacked at a time, so that little memory is taken beside the result."""


class NotFiniteError(ValueError):
    """A scale or a least number is infinite or NaN, and kernels need finite numbers."""


class StoredPart:
    """Outputs of a matrix that are blocks of one form."""

    __slots__ = ("_job", "_laid", "_task", "apart", "form", "nbytes", "outputs", "padded")

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
        self.outputs, inputs = shape
        blocks, spans = -(-self.outputs // LANES), inputs // form.span
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
        self._job = np.zeros(StoredJob.LENGTH, np.int64)
        self._job[StoredJob.WEIGHTS] = self._laid.ctypes.data
        self._job[[StoredJob.SPANS, StoredJob.BLOCKS]] = spans, blocks

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

    def multiply(
        self, steps: NDArray[Any], scales: Numbers, totals: NDArray[Any], products: Numbers
    ) -> None:
        """Write products of ``[tokens, in]``, ``[tokens, cells]`` and ``[tokens, groups]``."""
        job = self._job.copy()  # of this call alone: others may multiply at the same time
        team, function = team_address(), self._task.address
        _start(job, steps, scales, totals, products, team, function, team_size())


class StoredMatrix:
    """Parts one below the other, and a bias."""

    __slots__ = ("_bias", "_parts", "nbytes")

    def __init__(self, parts: Sequence[StoredPart], bias: Numbers | None = None) -> None:
        self._parts, self._bias = tuple(parts), bias
        self.nbytes = sum(part.nbytes for part in parts)

    def multiply(self, rows: Numbers) -> Numbers:
        """Map ``[tokens, in]`` to ``[tokens, out]``."""
        count = len(rows)
        found = np.empty((count, sum(part.padded for part in self._parts)), np.float32)
        prepared: dict[RowForm, Steps] = {}
        begin, wanted = 0, []
        for part in self._parts:
            key = RowForm.of(part.form, part.apart)
            if key not in prepared:
                prepared[key] = in_steps(rows, key)
            part.multiply(*prepared[key], found[:, begin : begin + part.padded])
            wanted.append(slice(begin, begin + part.outputs))
            begin += part.padded
        if any(part.outputs != part.padded for part in self._parts):
            found = np.concatenate([found[:, each] for each in wanted], axis=1)
        if self._bias is not None:
            found += self._bias
        return found


@exact_kernel
def _start(
    job: Any,
    steps: Any,
    scales: Any,
    totals: Any,
    products: Any,
    team: Any,
    function: Any,
    size: Any,
) -> None:
    """Enter the rows of one call into a ``StoredJob``, and run the task with it.

    ``size`` is how many threads take part.
    """
    job[1], job[2] = steps.ctypes.data, products.ctypes.data
    job[3], job[4] = scales.ctypes.data, totals.ctypes.data
    job[7], job[8] = len(steps), products.strides[0] // 4
    job[9], job[10] = job.ctypes.data + 10 * 8, 0
    run_together(team, function, job.ctypes.data, size)


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
