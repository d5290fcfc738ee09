"""Which compiled constraints, each with a lock of its own, a constraint is enforced by."""

from __future__ import annotations

from guided.spec import Constraint, Structure
from guided.spec.continued import Continued
from guided.spec.thoughts import AfterThoughts

__all__ = ["shares_compiled"]


def shares_compiled(one: Constraint, other: Constraint) -> bool:
    """Whether two constraints are enforced by a compiled constraint that they have in common.

    Thoughts and the answer after them are compiled apart, so they are shared by requests with
    another budget for the thoughts, or without thoughts; so is one whose texts are continued.
    """
    of_other = _compiled_parts(other)
    return any(part in of_other for part in _compiled_parts(one))


def _compiled_parts(constraint: Constraint) -> tuple[Structure, ...]:
    """Return the constraints that ``ConstraintCompiler.start`` compiles for one."""
    if isinstance(constraint, AfterThoughts | Continued):
        return constraint.inner()
    return () if constraint is None else (constraint,)
