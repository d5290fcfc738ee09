"""Members that an object must have and must not have, by one schema: most often misspelt ones."""

from __future__ import annotations

from guided.json_schema.formulas.assertions import HasMember, Members
from guided.json_schema.formulas.formula import FALSE, Formula, Leaf, conjuncts
from guided.runtime.closest import closest

__all__ = ["forbidden_member_text"]


def forbidden_member_text(formula: Formula) -> str | None:
    """Return what to say of a required member that the same schema excludes; ``None`` without one.

    ``formula`` is what objects have to fit, as ``Restriction.to_type`` returns it.
    """
    assertions = [part.assertion for part in conjuncts(formula) if isinstance(part, Leaf)]
    required = [each.name for each in assertions if isinstance(each, HasMember)]
    for members in assertions:
        if not isinstance(members, Members) or members.patterns or members.rest is not FALSE:
            continue
        names = [name for name, _ in members.named]
        for name in required:
            if name not in names:
                close = closest(name, names)
                meant = "" if close is None else f"; did you mean {close!r}?"
                return f"the member {name!r} is required, but may not be there{meant}"
    return None
