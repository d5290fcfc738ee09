"""What becomes of a constraint: how far answers are held to it, and what it costs to compile."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "CheckedConstraint",
    "CompileCost",
    "Enforcement",
    "LikelyLimit",
    "SchemaReport",
    "UnenforcedValidator",
    "Verdict",
]


class Enforcement(StrEnum):
    """How far an answer is held to a keyword."""

    ENFORCED = "enforced"
    NARROWED = "narrowed"
    """Enforced, and some texts that it would allow are left out as well."""
    ANNOTATION = "annotation"
    """Nothing to enforce: the specification makes it a note."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one occurrence of a keyword."""

    pointer: str
    """JSON pointer of the keyword."""
    enforcement: Enforcement
    note: str = ""
    part: str = ""
    """Which part of a constraint its schema is, from the outside in; empty for a schema alone."""


@dataclass(frozen=True, slots=True)
class LikelyLimit:
    """A place of answers at which a limit is likely to be hit."""

    place: str
    """JSON pointer of the value with which, or after which, an answer could not go on; ``*`` is an
    item, or a name that the schema does not spell out."""
    message: str
    """Which limit it is, and what helps."""


@dataclass(frozen=True, slots=True)
class UnenforcedValidator:
    """Code that may refuse an answer which fits its schema."""

    place: str
    """Dotted path of what it checks, ``[]`` for items and ``{}`` for values; empty for the root."""
    name: str
    """The function's qualified name, or the constraint that pydantic checks: ``gt='b'``."""
    kind: str
    """When it runs: ``before``, ``after``, ``wrap`` or ``plain``, as pydantic calls it, or the
    part of a type that it is of, e.g. ``discriminator`` or ``set``."""


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """The outcome of checking a constraint that can be enforced.

    Of grammars, patterns and texts everything is enforced; verdicts are on the schemas in it.
    """

    verdicts: tuple[Verdict, ...]
    """What becomes of each occurrence of a keyword, schema by schema in the order of their text."""
    shortest_answer: str
    """A text that satisfies the constraint, among the shortest there are."""
    unenforced_validators: tuple[UnenforcedValidator, ...] = ()
    """Code of a Python type that may still refuse an answer; none for a schema."""
    likely_limits: tuple[LikelyLimit, ...] = ()
    """Places at which answers are likely to be closed on their shortest way, because what may be
    written there takes more work, or more room, than an answer has."""
    omitted_verdicts: int = 0
    """Verdicts that a server left out, as they would be more than a message should hold."""


@dataclass(frozen=True, slots=True)
class CompileCost:
    """What it takes to compile a constraint."""

    seconds: float
    """The time of the processor, waits for others aside."""
    states: int
    """Rows of the recogniser's table, before anything is written."""
    nbytes: int
    """What the recogniser takes of memory then; it grows while answers are written."""


@dataclass(frozen=True, slots=True)
class CheckedConstraint:
    """A constraint that can be enforced: how, and at which cost."""

    constraint_id: str
    """Its digest."""
    report: SchemaReport
    cost: CompileCost
