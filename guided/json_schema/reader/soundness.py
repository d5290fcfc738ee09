"""Whether lowering a schema may fail, decided without lowering it.

Lowering is most of the work on a large schema, and an answer reaches few of its parts. So a part is
lowered when a text first reaches it, provided that no fault can come to light there: faults are
reported before the first token. This looks at every schema that was met, whether or not the root
leads to it; if one is at fault, all that the root leads to is lowered at once, to find whether it
matters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from guided.errors import ConstraintError, InvalidConstraintError, LimitExceededError
from guided.json_schema.formulas.formula import AllOf, AnyOf, Formula, Not, SchemaNode
from guided.json_schema.reader.survey import Location, referenced
from guided.json_schema.reader.visit import REFERENCES, Lowering

__all__ = ["is_sound", "refuse_endless_application"]

_DYNAMIC: Final = 0
"""Stands for the schemas that a dynamic reference may be bound to, among identities."""


def is_sound(lowering: Lowering) -> bool:
    """Return whether every schema that was met, and what they refer to, can be lowered.

    ``False`` also if that is not obvious, as with ``unevaluatedItems``. After this more has been
    met: the documents that references lead to, and the patterns that were parsed.
    """
    survey = lowering.survey
    applied: dict[int, list[int]] = {}
    """The schemas that each schema applies to the same value, by identity."""
    try:
        # The documents that references lead to bring further keywords.
        for location, keyword in survey.noted:
            value = location.keywords[keyword]
            match keyword:
                case "pattern":
                    lowering.regular(value, location.pointer)
                case "patternProperties":
                    for pattern in value:
                        lowering.regular(pattern, location.pointer)
                case "unevaluatedProperties" | "unevaluatedItems" | "format":
                    return False
                case _:
                    ahead = applied.setdefault(id(location.schema), [])
                    ahead += _applied(lowering, location, keyword)
    except (ConstraintError, LimitExceededError):
        return False
    applied[_DYNAMIC] = [id(location.schema) for location in survey.dynamic_anchors()]
    return not endless(applied)


def _applied(lowering: Lowering, location: Location, keyword: str) -> Iterable[int]:
    """Return the schemas a keyword applies to the same value, by identity: edges for ``endless``.

    For the keywords in ``survey._NOTED`` for which ``is_sound`` has no other case. Whatever is no
    schema object, such as a Boolean or a list of names, has no edges and does no harm.

    Raises InvalidConstraintError for a reference that names nothing. One that leads to another
    document makes the survey read that, which may add to ``survey.noted`` while it is iterated.
    """
    value = location.keywords[keyword]
    if keyword in REFERENCES:
        target = referenced(lowering.survey, location, keyword, frozenset())
        named = () if isinstance(target, bool) else (id(target.schema),)
        return named if keyword == "$ref" else (*named, _DYNAMIC)
    if isinstance(value, list):
        return map(id, value)
    if keyword in ("dependentSchemas", "dependencies"):
        return map(id, value.values())
    return (id(value),)


def endless(ahead: Mapping[int, Collection[int]]) -> set[int]:
    """Return the nodes of a graph from which an endless way leads on; it may lack other nodes.

    ``ended`` grows during the loop; each node enters it once, so this is linear.
    """
    waiting = {node: len(targets) for node, targets in ahead.items()}
    sources: dict[int, list[int]] = {}
    for node, targets in ahead.items():
        for target in targets:
            sources.setdefault(target, []).append(node)
    # A node has an end when everything ahead of it has; cycles never do.
    ended = [node for node in (*waiting, *sources) if not waiting.get(node)]
    for node in ended:
        for other in sources.pop(node, ()):
            waiting[other] -= 1
            if waiting[other] == 0:
                ended.append(other)
    return {node for node, count in waiting.items() if count}


def refuse_endless_application(nodes: Sequence[SchemaNode]) -> None:
    """Raise InvalidConstraintError for a node that applies itself to the same value.

    It does so without going into a member or an item. Lowers every node; the sequence grows
    meanwhile.
    """
    ahead = {node.number: _in_place(node.formula) for node in nodes}
    left = endless(ahead)
    if not left:
        return
    # Follow the way until it closes: the node that is named is in the circle.
    number = min(left)
    seen: set[int] = set()
    while number not in seen:
        seen.add(number)
        number = next(target for target in ahead[number] if target in left)
    raise InvalidConstraintError(
        "the schema refers to nothing but itself: it applies itself to the same value without end",
        pointer=nodes[number].pointer,
        hint="refer to it from a member or an item",
    )


def _in_place(formula: Formula) -> set[int]:
    """Return the nodes that a formula applies to the same value.

    Those inside assertions are about other values, and are left out.
    """
    found: set[int] = set()
    seen: set[Formula] = set()
    stack = [formula]
    while stack:
        node = stack.pop()
        if isinstance(node, SchemaNode):
            found.add(node.number)
        elif isinstance(node, Not):
            stack.append(node.item)
        elif isinstance(node, AllOf | AnyOf) and node not in seen:
            seen.add(node)
            stack += node.parts
    return found
