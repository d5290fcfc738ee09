"""Reports, without a model, how a constraint would be enforced and what it costs to compile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from guided.constraint.empty_parts import empty_parts
from guided.constraint.likely_limits import likely_limits
from guided.constraint.machine import BuiltMachine, build_machine
from guided.json_schema.machine.json_machine import JsonMachine
from guided.machine.recognizer import Recognizer
from guided.machine.special_bytes import visible_text
from guided.machine.table import WIDTH
from guided.masks.limits import ConstraintLimits
from guided.runtime.work_budget import limited_work
from guided.spec import CheckedConstraint, CompileCost, SchemaReport, Structure, Verdict

__all__ = ["MAX_REPORT_BYTES", "check_structure", "memory_of_machine"]

MAX_REPORT_BYTES = 2**20
"""The most bytes of verdicts in a report that is sent; nested schemas have long pointers."""

_VERDICT_BYTES = 100
"""Bytes of a verdict besides its texts, so that there are at most ten thousand."""
_STACK_BYTES = 300
"""As in ``RecognizerLimits``: of a stack alone, without what is known about it."""


def check_structure(
    constraint: Structure,
    unavailable_bytes: frozenset[int] = frozenset(),
    most_bytes: int | None = None,
) -> CheckedConstraint:
    """Compile a constraint on a recogniser built only for this, and report how it is enforced.

    ``unavailable_bytes`` are those for which a vocabulary has no token. With ``most_bytes`` only
    the first verdicts are made, those that fit, and the others counted. Raises what ``machine_of``
    raises, and LimitExceededError if building it, or judging each keyword afterwards, takes too
    much work or room. The cost is that of building alone, in seconds of this thread.

    The machine is dropped afterwards, so nothing that answers use grows.
    """
    limits = ConstraintLimits()
    started_at = time.thread_time()
    with limited_work(limits.compile_work):
        built = build_machine(constraint, unavailable_bytes, limits.recognizer)
        machine = built.machine
        machine.parts.check_room()
        seconds = time.thread_time() - started_at
        cost = CompileCost(seconds, machine.parts.table.num_rows, memory_of_machine(machine))
        shortest = visible_text(machine.shortest_completion(machine.start))
    with limited_work(limits.compile_work, "judging each keyword"):
        verdicts = tuple(_fitting(_verdicts(built), most_bytes))
    omitted = sum(lowered.num_verdicts for _, lowered in built.schemas) - len(verdicts)
    report = SchemaReport(verdicts, shortest, omitted_verdicts=omitted)
    if isinstance(machine, JsonMachine):
        ahead, empty = likely_limits(machine, limits), empty_parts(machine)
        report = replace(report, likely_limits=ahead, empty_parts=empty)
    return CheckedConstraint(constraint.digest(), report, cost)


def _verdicts(built: BuiltMachine) -> Iterator[Verdict]:
    """Yield the verdicts of all schemas in a constraint, each with the part its schema is in."""
    for path, lowered in built.schemas:
        part = ", ".join(path)
        for verdict in lowered.verdicts:
            yield replace(verdict, part=part) if part else verdict


def _fitting(verdicts: Iterator[Verdict], most_bytes: int | None) -> Iterator[Verdict]:
    """Yield the first verdicts, as many as a message of so many bytes should contain.

    Sizes are estimates: a character counts as one byte. That is enough, since a message may be
    several times as long as a report.
    """
    size = 0
    for each in verdicts:
        size += len(each.pointer) + len(each.note) + len(each.part) + _VERDICT_BYTES
        if most_bytes is not None and size > most_bytes:
            return
        yield each


def memory_of_machine(machine: Recognizer) -> int:
    """Return about how many bytes the table and the stacks take."""
    table = machine.parts.table
    return 4 * (table.num_cells + WIDTH * table.num_rows) + _STACK_BYTES * len(machine.parts.stacks)
