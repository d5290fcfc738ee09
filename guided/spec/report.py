"""The report on a constraint: how far it is enforced, and what compiling it costs."""

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
    """How far a keyword is enforced."""

    ENFORCED = "enforced"
    NARROWED = "narrowed"
    """Enforced, but some texts that the keyword allows are excluded as well."""
    ANNOTATION = "annotation"
    """Nothing to enforce: the specification defines it as a note."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one occurrence of a keyword."""

    pointer: str
    """JSON pointer of the keyword."""
    enforcement: Enforcement
    note: str = ""
    part: str = ""
    """The part of the constraint with this schema, from the outside in; empty if it is alone."""


@dataclass(frozen=True, slots=True)
class LikelyLimit:
    """A place in answers where a limit is likely to be reached."""

    place: str
    """JSON pointer of the value at or after which an answer could not continue; ``*`` is an item,
    or a name that the schema does not spell out."""
    message: str
    """The limit, and what helps."""


@dataclass(frozen=True, slots=True)
class UnenforcedValidator:
    """Code that may refuse an answer which fits its schema."""

    place: str
    """Dotted path of what it checks, ``[]`` for items and ``{}`` for values; empty for the root."""
    name: str
    """The function's qualified name, or the constraint that pydantic checks: ``gt='b'``."""
    kind: str
    """When it runs, in pydantic's words (``before``, ``after``, ``wrap`` or ``plain``), or the part
    of a type that it belongs to, e.g. ``discriminator`` or ``set``."""


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """The outcome of checking a constraint that can be enforced.

    Grammars, patterns and texts are fully enforced; verdicts concern the schemas in it.
    """

    verdicts: tuple[Verdict, ...]
    """The verdict on each occurrence of a keyword, schema by schema in the order of their text."""
    shortest_answer: str
    """One of the shortest texts that satisfy the constraint."""
    unenforced_validators: tuple[UnenforcedValidator, ...] = ()
    """Code of a Python type that may still refuse an answer; none for a schema."""
    likely_limits: tuple[LikelyLimit, ...] = ()
    """Places where answers are likely to be closed by their shortest completion, because what may
    be written there takes more work, or more room, than an answer has."""
    empty_parts: tuple[str, ...] = ()
    """JSON pointers of parts that no value fits, as where bounds cross, in a schema that is the
    whole constraint: the first 100, as far as a bounded search comes. Parts that say so themselves,
    as ``false`` does, are not listed."""
    omitted_verdicts: int = 0
    """Verdicts that a server left out to bound the size of its message."""


@dataclass(frozen=True, slots=True)
class CompileCost:
    """The cost of compiling a constraint."""

    seconds: float
    """Processor time, without waits for other work."""
    states: int
    """Rows of the recogniser's table, before any answer."""
    nbytes: int
    """Memory of the recogniser at that moment; it grows while answers are written."""


@dataclass(frozen=True, slots=True)
class CheckedConstraint:
    """A constraint that can be enforced, with the report on it and its cost."""

    constraint_id: str
    """Its digest."""
    report: SchemaReport
    cost: CompileCost
