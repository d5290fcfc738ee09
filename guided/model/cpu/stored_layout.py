"""The layout of codes in memory, so that a kernel reads them from one end to the other.

Sixteen outputs lie together, from their first input to their last. A cell is 32 of their inputs:
planes of codes, then the small whole numbers of its groups. Codes of 3, 5 and 6 bits lie in two
planes, the lower 2 or 4 bits and those above. A line of a plane has 32 bits for each output: the
codes of four inputs 8 bits apart, or of two 16 bits apart, and above them those of the next inputs;
with four bits::

    bits      0..3  4..7 | 8..11  12..15 | 16..19  20..23 | 24..27  28..31
    input        0     4 |     1       5 |      2       6 |      3       7
    or           0     2       4       6 |      1       3        5       7

So a shift and a mask give four bytes, or two numbers of 16 bits, which processors multiply by as
many numbers of a row and add up. The blocks of a file take as much memory here, except for six-bit
scales, which become bytes.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.model.cpu.block_types import CodeForm, Codes
from guided.model.cpu.instructions import InstructionSet

__all__ = [
    "BYTE",
    "CELL",
    "LANES",
    "Plane",
    "bits_apart",
    "planes",
    "span_fields",
    "step_bits",
    "take_back",
    "write_spans",
]

LANES: Final = 16
"""Outputs that lie together."""
CELL: Final = 32
"""Inputs of a cell."""


BYTE: Final = 8
_PAIR_APART: Final = 16


class Plane(NamedTuple):
    """Some bits of all codes of a cell."""

    name: str
    bits: int
    """1, 2, 4 or 8; the plane takes as many lines."""
    lowest: int
    """The position of the lowest of these bits in the code."""


def step_bits(form: CodeForm) -> int:
    """Return the bits of a row's steps that are multiplied by such codes.

    With steps of a byte one instruction adds up the products of four neighbours. The accuracy that
    rows lose is a small share of what codes of four bits lose; for codes of six bits alone it was
    not measured (docs/decisions/0017-blocks-as-stored.md).
    """
    return BYTE if form.bits < BYTE else _PAIR_APART


def bits_apart(form: CodeForm, instructions: InstructionSet) -> int:
    """Return the bits from a code to its neighbour's, and from step to step: 8 or 16."""
    return _PAIR_APART if instructions is InstructionSet.PORTABLE else step_bits(form)


def planes(form: CodeForm) -> tuple[Plane, ...]:
    """Return the planes of a form, the lower bits first."""
    lower = max(bits for bits in (1, 2, 4, 8) if bits <= form.bits)
    found = (Plane("low", lower, 0),)
    return found if lower == form.bits else (*found, Plane("high", form.bits - lower, lower))


@cache
def span_fields(form: CodeForm) -> np.dtype[np.void]:
    """Return the layout of a span: 16 outputs, and the inputs that share one float32 scale."""
    groups = CELL // form.group
    cell: list[Any] = [
        (plane.name, "<u4", (plane.bits, LANES))  # lines, outputs
        for plane in planes(form)
    ]
    if form.is_nested:
        cell.append(("scales", "i1", (groups, LANES)))
        if form.has_least:
            cell.append(("leasts", "i1", (groups, LANES)))
    floats: list[Any] = [("scale", "<f2", LANES)]
    if form.has_least:
        floats.append(("least", "<f2", LANES))
    cells = ("cells", np.dtype(cell), form.span // CELL)
    return np.dtype([*floats, cells] if form.is_nested else [cells, *floats])


def write_spans(codes: Codes, target: NDArray[np.void], apart: int) -> None:
    """Write outputs, a multiple of 16, to ``target``, ``[blocks, spans]`` of ``span_fields``.

    ``apart`` is how many bits the codes of neighbours are apart, 8 or 16.
    """
    form = codes.form
    blocks, spans = target.shape
    cells = form.span // CELL
    split = codes.codes.reshape(blocks, LANES, spans, cells, CELL)
    for plane in planes(form):
        bits = (split >> plane.lowest) & np.uint8(2**plane.bits - 1)
        words = bits.astype(f"<u{apart // 8}").view("<u4")
        words = words.reshape(*split.shape[:4], plane.bits, apart // plane.bits)
        line = words[..., 0].copy()
        for number in range(1, apart // plane.bits):
            line |= words[..., number] << np.uint32(plane.bits * number)
        target["cells"][plane.name] = line.transpose(0, 2, 3, 4, 1)
    target["scale"] = codes.scales.reshape(blocks, LANES, spans).transpose(0, 2, 1)
    if codes.leasts is not None:
        target["least"] = codes.leasts.reshape(blocks, LANES, spans).transpose(0, 2, 1)
    for name, whole in (("scales", codes.group_scales), ("leasts", codes.group_leasts)):
        if whole is not None:
            of_cells = whole.reshape(blocks, LANES, spans, cells, -1)
            target["cells"][name] = of_cells.transpose(0, 2, 3, 4, 1)


def take_back(
    laid: NDArray[np.void], outputs: NDArray[np.int64], form: CodeForm, apart: int
) -> Codes:
    """Return the codes of some outputs from where ``write_spans`` put them, ``[blocks, spans]``."""
    block, lane = outputs // LANES, outputs % LANES
    cells = laid["cells"]
    codes = np.zeros((len(outputs), laid.shape[1] * form.span), np.uint8)
    for plane in planes(form):
        line = cells[plane.name][block, ..., lane]  # [out, spans, cells, bits]
        shifts = np.arange(0, apart, plane.bits, dtype=np.uint32)
        in_each = np.uint32((2**plane.bits - 1) * sum(1 << bit for bit in range(0, 32, apart)))
        words = (line[..., None] >> shifts) & in_each
        bits = words.view(f"<u{apart // 8}").reshape(codes.shape).astype(np.uint8)
        codes |= bits << np.uint8(plane.lowest)

    def whole(name: str) -> Any:
        kept = name in (cells.dtype.names or ())
        return cells[name][block, ..., lane].reshape(len(outputs), -1) if kept else None

    least = laid["least"][block, :, lane] if form.has_least else None
    return Codes(
        form, codes, laid["scale"][block, :, lane], least, whole("scales"), whole("leasts")
    )
