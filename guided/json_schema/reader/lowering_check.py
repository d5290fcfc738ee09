"""Checks whether lowering a schema may fail, without lowering it.

Lowering is most of the work on a large schema, and an answer reaches few of its parts. So a part is
lowered when a text first reaches it, provided that this cannot raise: errors in a schema have to be
reported before the first token. All schemas in the index are checked, reachable from the root or
not. If one may fail, all that is reachable is lowered at once, which raises if it does fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from guided.errors import ConstraintError, InvalidConstraintError, LimitExceededError
from guided.json_schema.formulas.formula import Formula, SchemaNode, postorder
from guided.json_schema.reader.locations import Location
from guided.json_schema.reader.schema_context import REFERENCES, Lowering
from guided.json_schema.reader.schema_index import resolve_reference
from guided.runtime.work_budget import with_pauses

__all__ = ["can_be_lowered", "refuse_infinite_recursion"]

_DYNAMIC_TARGETS: Final = 0
"""The node of the graph that stands for all possible targets of dynamic references."""


def can_be_lowered(lowering: Lowering) -> bool:
    """Return whether every schema in the index, and what they refer to, can surely be lowered.

    ``False`` if one cannot, or if that is not obvious, as with ``unevaluatedItems``. Reads the
    documents that references lead to into the index, and parses all patterns, up to the first
    keyword that makes it ``False``.
    """
    index = lowering.index
    # The schemas that each schema applies to the same value, by identity.
    applied: dict[int, list[int]] = {}
    try:
        # The list grows meanwhile: references lead to documents with further keywords.
        for location, keyword in with_pauses(index.lowering_checks):
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
                    targets = applied.setdefault(id(location.schema), [])
                    targets += _applied_schemas(lowering, location, keyword)
    except (ConstraintError, LimitExceededError):
        return False
    applied[_DYNAMIC_TARGETS] = [id(location.schema) for location in index.dynamic_anchors()]
    return not nodes_reaching_cycles(applied)


def _applied_schemas(lowering: Lowering, location: Location, keyword: str) -> Iterable[int]:
    """Return the identities of the schemas that a keyword applies to the same value.

    They are edges for ``nodes_reaching_cycles``. For the keywords that are checked
    (``schema_index._CHECKED_BEFORE_LOWERING``) and have no other case in ``can_be_lowered``. Values
    that are no schema objects, such as a list of names, are included, but have no edges.

    Raises InvalidConstraintError for a reference without a target. A reference to another document
    reads that into the index.
    """
    value = location.keywords[keyword]
    if keyword in REFERENCES:
        target = resolve_reference(lowering.index, location, keyword, {})
        static = () if isinstance(target, bool) else (id(target.schema),)
        return static if keyword == "$ref" else (*static, _DYNAMIC_TARGETS)
    if isinstance(value, list):
        return map(id, value)
    if keyword in ("dependentSchemas", "dependencies"):
        return map(id, value.values())
    return (id(value),)


def nodes_reaching_cycles(successors: Mapping[int, Collection[int]]) -> set[int]:
    """Return the nodes of a graph from which a cycle can be reached, in linear time.

    Nodes without successors may be missing in the mapping.
    """
    remaining = {node: len(targets) for node, targets in successors.items()}
    sources: dict[int, list[int]] = {}
    for node, targets in successors.items():
        for target in targets:
            sources.setdefault(target, []).append(node)
    # A node is finished when all its successors are; nodes that reach a cycle never are. The list
    # grows during the loop. It may have a node twice: its sources are gone the second time.
    finished = [node for node in (*remaining, *sources) if not remaining.get(node)]
    for node in finished:
        for other in sources.pop(node, ()):
            remaining[other] -= 1
            if remaining[other] == 0:
                finished.append(other)
    return {node for node, count in remaining.items() if count}


def refuse_infinite_recursion(nodes: Sequence[SchemaNode]) -> None:
    """Raise InvalidConstraintError for a node that applies itself to the same value.

    That is, without going into a member or an item. Lowers every node, by which ``nodes`` grows.
    """
    successors = {node.index: _applied_nodes(node.formula) for node in nodes}
    endless = nodes_reaching_cycles(successors)
    if not endless:
        return
    # Follow edges until a node repeats, which is then in the cycle.
    index = min(endless)
    seen: set[int] = set()
    while index not in seen:
        seen.add(index)
        index = next(target for target in successors[index] if target in endless)
    raise InvalidConstraintError(
        "the schema refers to nothing but itself: it applies itself to the same value without end",
        pointer=nodes[index].pointer,
        hint="refer to it from a member or an item",
    )


def _applied_nodes(formula: Formula) -> set[int]:
    """Return the indices of the nodes that a formula applies to the same value.

    Nodes inside assertions apply to other values, and are left out.
    """
    seen: dict[Formula, None] = {}
    for node in postorder(formula, seen):
        seen[node] = None
    return {node.index for node in seen if isinstance(node, SchemaNode)}
