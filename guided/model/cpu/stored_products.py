"""Products of rows of int16 with codes as ``stored_layout`` lays them out.

A row is whole numbers of 16 bits with a scale for each 32 of them. Pairs of codes are unpacked once
and multiplied by those of all rows at hand; a group's products add up in 32 bits, exactly, and are
then scaled and added to a row's sum in float32, cell after cell::

    sum += float(codes · row - offset * total of row) * scale of group * scale of row
    sum += least of group * (scale of row * total of row)

Multiplication and addition are rounded one by one and in this order in every form of the kernel, so
a product is the same to the last bit on any processor, whatever rows stand beside it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from guided.model.cpu.block_types import CodeForm
from guided.model.cpu.instructions import InstructionSet
from guided.model.cpu.llvm import AHEAD, FLOAT, INT32, INT64, LINE, loop, prefetch
from guided.model.cpu.stored_layout import CELL, LANES, Plane, planes, span_fields
from guided.model.cpu.stored_registers import Registers

__all__ = ["Products", "StoredJob"]

_INT8 = ir.IntType(8)


class StoredJob:
    """Where in a job what is: addresses, or numbers."""

    WEIGHTS, ROWS, PRODUCTS, SCALES, TOTALS = range(5)
    SPANS, BLOCKS, COUNT, STRIDE = range(5, 9)
    """Spans of a block; blocks; rows; numbers from a row of products to the next."""
    COUNTER_AT, COUNTER = 9, 10
    LENGTH = 11


class _Row(NamedTuple):
    """Addresses of a row's first numbers."""

    steps: Any
    scales: Any
    totals: Any


class Products:
    """The instructions for one block and a number of rows."""

    def __init__(
        self, builder: Any, form: CodeForm, instructions: InstructionSet, count: int
    ) -> None:
        self._builder, self._form, self._count = builder, form, count
        self._on = Registers(builder, instructions)
        self._fields = span_fields(form)
        self._of_span: Any = self._fields.fields

    def emit(self, job: Any, block: Any, first: Any) -> None:
        builder = self._builder
        told = [builder.load(builder.gep(job, [INT64(n)])) for n in range(StoredJob.LENGTH)]
        spans = told[StoredJob.SPANS]
        size = INT64(self._fields.itemsize)
        weights = self._on.at(told[StoredJob.WEIGHTS], builder.mul(block, spans), size)
        rows = [self._row(told, builder.add(first, INT64(r))) for r in range(self._count)]
        nothing = ir.Constant(self._on.floats, [0.0] * self._on.width)
        parts = LANES // self._on.width

        def add_span(k: Any, sums: list[Any]) -> list[Any]:
            return self._add_span(self._on.at(weights, k, size), k, rows, sums)

        sums = loop(builder, spans, [nothing] * (self._count * parts), add_span)
        for number, total in enumerate(sums):
            r, part = divmod(number, parts)
            place = builder.mul(builder.add(first, INT64(r)), told[StoredJob.STRIDE])
            place = builder.add(place, builder.mul(block, INT64(LANES)))
            place = builder.add(place, INT64(part * self._on.width))
            address = self._on.at(told[StoredJob.PRODUCTS], place, INT64(4))
            builder.store(total, self._on.pointer(address, self._on.floats), align=4)

    def _row(self, told: list[Any], row: Any) -> _Row:
        cells = self._builder.mul(told[StoredJob.SPANS], INT64(self._form.span // CELL))
        place = self._builder.mul(row, cells)
        return _Row(
            self._on.at(told[StoredJob.ROWS], place, INT64(2 * CELL)),
            self._on.at(told[StoredJob.SCALES], place, INT64(4)),
            self._on.at(told[StoredJob.TOTALS], place, INT64(4 * CELL // self._form.group)),
        )

    def _add_span(self, span: Any, number: Any, rows: list[_Row], sums: list[Any]) -> list[Any]:
        """All cells that share a float."""
        floats = self._floats_of(span)
        kind, start = self._of_span["cells"][:2]
        first = self._builder.add(span, INT64(start))
        cells = self._form.span // CELL
        if cells == 1:
            self._ask_ahead(span, self._fields.itemsize)
            return self._add_cell(first, kind.base, number, floats, rows, sums)

        def add_cell(k: Any, carried: list[Any]) -> list[Any]:
            cell = self._on.at(first, k, INT64(kind.base.itemsize))
            self._ask_ahead(cell, kind.base.itemsize)
            place = self._builder.add(self._builder.mul(number, INT64(cells)), k)
            return self._add_cell(cell, kind.base, place, floats, rows, carried)

        return loop(self._builder, INT64(cells), sums, add_cell)

    def _floats_of(self, span: Any) -> dict[str, list[Any]]:
        """Scales and least numbers of 16 outputs, by registers."""
        found = {}
        for name in ("scale", "least") if self._form.has_least else ("scale",):
            start = self._builder.add(span, INT64(self._of_span[name][1]))
            found[name] = [
                self._on.widened(self._builder.add(start, INT64(2 * lane)))
                for lane in range(0, LANES, self._on.width)
            ]
        return found

    def _add_cell(
        self,
        cell: Any,
        fields: Any,
        place: Any,
        floats: dict[str, list[Any]],
        rows: list[_Row],
        sums: list[Any],
    ) -> list[Any]:
        """The 32 inputs of a cell, which is the ``place``-th of its block."""
        sums = list(sums)
        parts = LANES // self._on.width
        groups = CELL // self._form.group
        for part in range(parts):
            lane = part * self._on.width
            for group in range(groups):
                pairs = CELL // 2 // groups
                codes = self._codes(cell, fields, lane, range(group * pairs, (group + 1) * pairs))
                scale = self._of_group(cell, fields, "scales", group, lane, floats["scale"][part])
                least = None
                if self._form.has_least:
                    least = self._of_group(
                        cell, fields, "leasts", group, lane, floats["least"][part]
                    )
                found = self._whole_products(codes, place, group, rows)
                for r, (row, whole) in enumerate(zip(rows, found, strict=True)):
                    where = r * parts + part
                    sums[where] = self._grown(sums[where], whole, row, place, group, scale, least)
        return sums

    def _grown(
        self, total: Any, whole: Any, row: _Row, place: Any, group: int, scale: Any, least: Any
    ) -> Any:
        """A sum and the products of a group, made numbers."""
        builder = self._builder
        of_row = self._on.splat(self._on.load(self._on.at(row.scales, place, INT64(4)), FLOAT))
        scaled = builder.fmul(builder.sitofp(whole, self._on.floats), scale)
        total = builder.fadd(total, builder.fmul(scaled, of_row))
        if least is None:
            return total
        moved = self._on.splat(self._on.load(self._total_at(row, place, group), FLOAT))
        return builder.fadd(total, builder.fmul(least, moved))

    def _whole_products(
        self, codes: list[Any], place: Any, group: int, rows: list[_Row]
    ) -> list[Any]:
        """Codes of a group times each row, less what the offset adds."""
        sums = []
        for row in rows:
            if self._form.has_least:
                sums.append(ir.Constant(self._on.ints, [0] * self._on.width))
            else:
                sums.append(self._on.splat(self._on.load(self._total_at(row, place, group), INT32)))
        dot = self._on.dot()
        for number, pair in enumerate(codes):
            within = INT64(4 * (group * len(codes) + number))
            for r, row in enumerate(rows):
                steps = self._builder.add(self._on.at(row.steps, place, INT64(2 * CELL)), within)
                sums[r] = dot(sums[r], pair, self._on.load(steps, INT32))
        return sums

    def _total_at(self, row: _Row, place: Any, group: int) -> Any:
        groups = CELL // self._form.group
        number = self._builder.add(self._builder.mul(place, INT64(groups)), INT64(group))
        return self._on.at(row.totals, number, INT64(4))

    # --- Unpacking ----------------------------------------------------------------------------

    def _codes(self, cell: Any, fields: Any, lane: int, pairs: range) -> list[Any]:
        """Pairs of codes as int16, each pair of ``pairs`` for the outputs from ``lane`` on."""
        builder = self._builder
        lines: dict[tuple[str, int], Any] = {}
        found = []
        for pair in pairs:
            code = None
            for plane in planes(self._form):
                line, number = divmod(pair, plane.pairs)
                if (plane.name, line) not in lines:
                    start = fields.fields[plane.name][1] + line * LINE + 4 * lane
                    address = builder.add(cell, INT64(start))
                    lines[plane.name, line] = self._on.load(address, self._on.ints, align=2)
                bits = self._bits(lines[plane.name, line], plane, number)
                code = bits if code is None else builder.or_(code, bits)
            found.append(code)
        return found

    def _bits(self, line: Any, plane: Plane, number: int) -> Any:
        """The bits of a pair, moved to where they stand in a code."""
        builder = self._builder
        down = plane.bits * number - plane.lowest
        move = builder.lshr if down > 0 else builder.shl
        moved = line if down == 0 else move(line, self._on.constant(abs(down)))
        mask = (2**plane.bits - 1) << plane.lowest
        return builder.and_(moved, self._on.constant(mask | mask << 16))

    def _of_group(
        self, cell: Any, fields: Any, name: str, group: int, lane: int, floats: Any
    ) -> Any:
        """What a float of a span is times what its group has."""
        if not self._form.is_nested:
            return floats
        start = fields.fields[name][1] + group * LANES + lane
        kind = ir.VectorType(_INT8, self._on.width)
        whole = self._on.load(self._builder.add(cell, INT64(start)), kind, align=1)
        wide = self._builder.sitofp(self._builder.sext(whole, self._on.ints), self._on.floats)
        return self._builder.fmul(floats, wide)

    def _ask_ahead(self, address: Any, nbytes: int) -> None:
        for start in range(0, nbytes, LINE):
            prefetch(self._builder, self._builder.add(address, INT64(AHEAD + start)))
