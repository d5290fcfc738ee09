"""What a schema would be held to, without a model."""

from __future__ import annotations

from dataclasses import dataclass

from guided.automata.fuel import limited_work
from guided.constraint.limits import ConstraintLimits
from guided.frontends.json_schema import Verdict, lower_json_schema
from guided.recognizer.json_machine import JsonMachine

__all__ = ["SchemaReport", "check"]


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """The outcome of checking a schema that can be enforced."""

    verdicts: tuple[Verdict, ...]
    """What becomes of each occurrence of a keyword, ordered by its JSON pointer."""
    shortest_answer: str
    """A document that satisfies the schema, among the shortest there are."""


def check(schema: str) -> SchemaReport:
    """Check a JSON Schema given as text.

    Raises InvalidConstraintError, UnsupportedFeatureError, UnsatisfiableError or
    LimitExceededError, each naming the place by its JSON pointer.
    """
    limits = ConstraintLimits()
    with limited_work(limits.compile_work):
        lowered = lower_json_schema(schema)
        machine = JsonMachine(lowered.grammar, limits=limits.recognizer)
        machine.check_room()
    return SchemaReport(lowered.verdicts, machine.shortest_end(machine.start).decode())
