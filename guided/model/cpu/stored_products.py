"""Products of rows of whole numbers with codes as ``stored_layout`` lays them out.

A row is steps of 8 or 16 bits with a scale for each 32 of them. Codes are unpacked once and
multiplied by the steps of several rows; a group's products add up exactly, and are then scaled and
added to a row's sum in float32, cell after cell::

    sum += float(codes · row - offset * total of row) * scale of group * scale of row
    sum += least of group * (scale of row * total of row)

Multiplication and addition are rounded one by one and in this order in every form of the kernel, so
a product is the same to the last bit on any processor, whatever rows stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from llvmlite import ir

from guided.model.cpu.block_types import CodeForm
from guided.model.cpu.instructions import InstructionSet
from guided.model.cpu.llvm import AHEAD, FLOAT, INT32, INT64, LINE, loop, pointer, prefetch
from guided.model.cpu.stored_layout import CELL, LANES, Plane, bits_apart, planes, span_fields
from guided.model.cpu.stored_registers import Registers
from guided.model.cpu.stored_sums import whole_sum

__all__ = ["Products", "StoredJob"]

_INT8 = ir.IntType(8)


class StoredJob:
    """The places of a job: addresses, or numbers."""

    WEIGHTS, ROWS, PRODUCTS, SCALES, TOTALS = range(5)
    SPANS, BLOCKS, COUNT, STRIDE = range(5, 9)
    """Spans of a block; blocks; rows; numbers from a row of products to the next."""
    COUNTER_AT = 9
    LENGTH = 10


class _Row(NamedTuple):
    """Addresses of a row's first numbers."""

    steps: Any
    scales: Any
    totals: Any


class _Group(NamedTuple):
    """Inputs that have a scale of their own."""

    cell: Any
    """The address of its cell."""
    fields: Any
    """The fields of a cell."""
    place: Any
    """The index of the cell in its block."""
    number: int
    """The index of the group in the cell."""


class Products:
    """The instructions for one block and a number of rows."""

    def __init__(
        self, builder: Any, form: CodeForm, instructions: InstructionSet, count: int
    ) -> None:
        self._builder, self._form, self._count = builder, form, count
        self._on = Registers(builder, instructions)
        self._apart = bits_apart(form, instructions)
        self._lanes = range(0, LANES, self._on.width)
        self._fields = span_fields(form)
        self._of_span: Any = self._fields.fields

    def emit(self, job: Any, block: Any, first: Any) -> None:
        """Emit the products of ``count`` rows from ``first`` on with one block, and their stores.

        ``job`` is the address of a ``StoredJob``. Sums stay in registers from span to span: a
        vector for each row and part of the 16 outputs.
        """
        builder = self._builder
        told = [builder.load(builder.gep(job, [INT64(n)])) for n in range(StoredJob.LENGTH)]
        spans = told[StoredJob.SPANS]
        size = INT64(self._fields.itemsize)
        weights = self._on.at(told[StoredJob.WEIGHTS], builder.mul(block, spans), size)
        rows = [self._row(told, builder.add(first, INT64(r))) for r in range(self._count)]
        nothing = ir.Constant(self._on.floats, [0.0] * self._on.width)
        parts = len(self._lanes)

        def add_span(k: Any, sums: list[Any]) -> list[Any]:
            return self._add_span(self._on.at(weights, k, size), k, rows, sums)

        sums = loop(builder, spans, [nothing] * (self._count * parts), add_span)
        for number, total in enumerate(sums):
            r, part = divmod(number, parts)
            place = builder.mul(builder.add(first, INT64(r)), told[StoredJob.STRIDE])
            place = builder.add(place, builder.mul(block, INT64(LANES)))
            place = builder.add(place, INT64(part * self._on.width))
            address = self._on.at(told[StoredJob.PRODUCTS], place, INT64(4))
            builder.store(total, pointer(builder, address, self._on.floats), align=4)

    def _row(self, told: list[Any], row: Any) -> _Row:
        """Return the addresses of a row's steps, scales and totals."""
        cells = self._builder.mul(told[StoredJob.SPANS], INT64(self._form.span // CELL))
        place = self._builder.mul(row, cells)
        return _Row(
            self._on.at(told[StoredJob.ROWS], place, INT64(self._apart // 8 * CELL)),
            self._on.at(told[StoredJob.SCALES], place, INT64(4)),
            self._on.at(told[StoredJob.TOTALS], place, INT64(4 * CELL // self._form.group)),
        )

    def _add_span(self, span: Any, number: Any, rows: list[_Row], sums: list[Any]) -> list[Any]:
        """Add all cells that share a float."""
        floats = self._floats_of(span)
        kind, start = self._of_span["cells"][:2]
        first = self._builder.add(span, INT64(start))
        cells = self._form.span // CELL

        def add_cell(k: Any, carried: list[Any]) -> list[Any]:
            cell = self._on.at(first, k, INT64(kind.base.itemsize))
            self._ask_ahead(cell, kind.base.itemsize)
            place = self._builder.add(self._builder.mul(number, INT64(cells)), k)
            for group in range(CELL // self._form.group):
                at = _Group(cell, kind.base, place, group)
                carried = self._add_group(at, floats, rows, carried)
            return carried

        if cells == 1:
            return add_cell(INT64(0), sums)
        return loop(self._builder, INT64(cells), sums, add_cell)

    def _floats_of(self, span: Any) -> dict[str, list[Any]]:
        """Return scales and least numbers of 16 outputs, by registers."""
        found = {}
        for name in ("scale", "least") if self._form.has_least else ("scale",):
            start = self._builder.add(span, INT64(self._of_span[name][1]))
            found[name] = [
                self._on.load_halves(self._builder.add(start, INT64(2 * lane)))
                for lane in self._lanes
            ]
        return found

    def _add_group(
        self, group: _Group, floats: dict[str, list[Any]], rows: list[_Row], sums: list[Any]
    ) -> list[Any]:
        """Add the products of a group's inputs with each row."""
        whole = iter(self._whole_products(group, rows))
        scales = self._of_group(group, "scales", floats["scale"])
        leasts = [None] * len(scales)
        if self._form.has_least:
            leasts = self._of_group(group, "leasts", floats["least"])
        earlier = iter(sums)
        return [
            self._add_scaled(next(earlier), next(whole), row, group, scale, least)
            for row in rows
            for scale, least in zip(scales, leasts, strict=True)
        ]

    def _add_scaled(
        self, total: Any, whole: Any, row: _Row, group: _Group, scale: Any, least: Any
    ) -> Any:
        """Return a sum plus the products of a group, converted to float."""
        builder = self._builder
        of_row = self._on.at(row.scales, group.place, INT64(4))
        scaled = builder.fmul(builder.sitofp(whole, self._on.floats), scale)
        scaled = builder.fmul(scaled, self._on.splat(self._on.load(of_row, FLOAT)))
        total = builder.fadd(total, scaled)
        if least is None:
            return total
        moved = self._on.splat(self._on.load(self._total_at(row, group), FLOAT))
        return builder.fadd(total, builder.fmul(least, moved))

    def _whole_products(self, group: _Group, rows: list[_Row]) -> list[Any]:
        """Multiply codes of a group by each row, and subtract the offset.

        A step of a row is read once for all 16 outputs.
        """
        sums = [
            [whole_sum(self._on, self._form, self._start(row, group)) for _ in self._lanes]
            for row in rows
        ]
        nbytes = self._apart // 8
        first = nbytes * group.number * self._form.group
        every = zip(*(self._codes(group, lane) for lane in self._lanes), strict=True)
        for number, codes in enumerate(every):
            for row, its_sums in zip(rows, sums, strict=True):
                of_cell = self._on.at(row.steps, group.place, INT64(nbytes * CELL))
                address = self._builder.add(of_cell, INT64(first + 4 * number))
                steps = self._on.splat(self._on.load(address, INT32))
                for one, total in zip(codes, its_sums, strict=True):
                    total.add(one, steps)
        return [total.result() for its_sums in sums for total in its_sums]

    def _start(self, row: _Row, group: _Group) -> Any:
        """Return the correction for the offset; a least number is added later, as a float."""
        if self._form.has_least:
            return self._on.constant(0)
        return self._on.splat(self._on.load(self._total_at(row, group), INT32))

    def _total_at(self, row: _Row, group: _Group) -> Any:
        groups = CELL // self._form.group
        first = self._builder.mul(group.place, INT64(groups))
        return self._on.at(row.totals, self._builder.add(first, INT64(group.number)), INT64(4))

    # --- Unpacking ----------------------------------------------------------------------------

    def _codes(self, group: _Group, lane: int) -> Iterator[Any]:
        """Yield codes of neighbours in the group, for a register's outputs from ``lane`` on."""
        builder = self._builder
        lines: dict[tuple[str, int], Any] = {}
        words = self._form.group * self._apart // 32
        for word in range(group.number * words, (group.number + 1) * words):
            code = None
            for plane in planes(self._form):
                line, number = divmod(word, self._apart // plane.bits)
                if (plane.name, line) not in lines:
                    start = group.fields.fields[plane.name][1] + line * LINE + 4 * lane
                    address = builder.add(group.cell, INT64(start))
                    lines[plane.name, line] = self._on.load(address, self._on.ints, align=2)
                bits = self._bits(lines[plane.name, line], plane, number)
                code = bits if code is None else builder.or_(code, bits)
            yield code

    def _bits(self, line: Any, plane: Plane, number: int) -> Any:
        """Return the ``number``-th bits of neighbours in a line, at their positions in a code."""
        builder = self._builder
        down = plane.bits * number - plane.lowest
        move = builder.lshr if down > 0 else builder.shl
        moved = line if down == 0 else move(line, self._on.constant(abs(down)))
        mask = (2**plane.bits - 1) << plane.lowest
        masks = sum(mask << place for place in range(0, 32, self._apart))
        return builder.and_(moved, self._on.constant(masks))

    def _of_group(self, group: _Group, name: str, floats: list[Any]) -> list[Any]:
        """Return floats of a span times a number of the group, by registers."""
        if not self._form.is_nested:
            return floats
        builder = self._builder
        start = group.fields.fields[name][1] + group.number * LANES
        kind = ir.VectorType(_INT8, self._on.width)
        found = []
        for lane, number in zip(self._lanes, floats, strict=True):
            whole = self._on.load(builder.add(group.cell, INT64(start + lane)), kind, align=1)
            wide = builder.sitofp(builder.sext(whole, self._on.ints), self._on.floats)
            found.append(builder.fmul(number, wide))
        return found

    def _ask_ahead(self, address: Any, nbytes: int) -> None:
        for start in range(0, nbytes, LINE):
            prefetch(self._builder, self._builder.add(address, INT64(AHEAD + start)))
