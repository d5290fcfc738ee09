"""The state of lowering a schema, and the context in which one schema object is lowered."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import Assertion, HasMember, JsonType, Types
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Formulas, SchemaNode
from guided.json_schema.formulas.values import Json
from guided.json_schema.reader.locations import Location, Resource
from guided.json_schema.reader.schema_index import (
    SchemaIndex,
    Scope,
    enter_resource,
    resolve_reference,
)
from guided.json_schema.reader.text import child_pointer
from guided.regular.expression import Regular
from guided.regular.patterns import parse_regex
from guided.runtime.work_budget import spend
from guided.spec import JsonOptions

__all__ = ["REFERENCES", "Lowering", "SchemaContext", "count_formula"]

_OBJECT: Final = frozenset({JsonType.OBJECT})
REFERENCES: Final = ("$ref", "$recursiveRef", "$dynamicRef")


MAX_NODES: Final = 50_000
_PARTS_PER_UNIT: Final = 8
"""Schemas applied in place that are looked at in a unit of work; those that are Booleans, or lists
of names, are paid for by nothing else."""
_BINDING_BYTES: Final = 56
"""Bytes of a dynamic anchor in a scope."""
_NODE_BYTES: Final = 600
"""About how many bytes a node takes, with what is stored to lower it."""


class Lowering:
    """The nodes made so far, and what all schemas share when they are lowered.

    ``lower`` makes the formula of a schema; a node calls it when its formula is first needed. To
    lower everything reachable from the root, iterate over ``nodes``, which grow meanwhile.
    """

    def __init__(
        self, index: SchemaIndex, options: JsonOptions, lower: Callable[[SchemaContext], Formula]
    ) -> None:
        self.index: Final = index
        self.options: Final = options
        self.formulas: Final = Formulas()
        self.nodes: Final[list[SchemaNode]] = []
        """All nodes so far, by ``SchemaNode.index``."""
        self._lower: Final = lower
        self._node_by_key: dict[tuple[int, Scope], SchemaNode] = {}
        """By schema and scope. The index keeps the schemas, so that identities stay theirs."""
        self._scope_by_key: dict[tuple[Scope, Resource, int], Scope] = {}
        """By outer scope, entered resource, and how many dynamic anchors that has so far."""
        self._bound_by_scope: dict[Scope, dict[str, Location]] = {}
        """The schemas that anchors are bound to, for the scopes in which references look for them.
        """
        self._regular_by_pattern: dict[str, Regular] = {}
        """The parsed form of each pattern."""

    def root(self) -> Formula:
        """Return the formula of the whole schema; the formula of its node is not made yet."""
        resource = self.index.root
        if isinstance(resource.root, bool):
            return TRUE if resource.root else FALSE
        location = self.index.locations[id(resource.root)]
        return self.node(SchemaContext(self, location, self.enter(frozenset(), location.resource)))

    def enter(self, scope: Scope, resource: Resource) -> Scope:
        """Return the scope inside a resource (``enter_resource``), cached."""
        key = (scope, resource, len(resource.dynamic_anchors))
        found = self._scope_by_key.get(key)
        if found is None:
            found = enter_resource(scope, resource)
            if found is not scope:
                bindings = _BINDING_BYTES * (len(found) - len(scope))
                # Before anything is recorded, since this may raise and lowering be tried again.
                self.index.count_bytes(sys.getsizeof(found) + bindings)
            self._scope_by_key[key] = found
        return found

    def bound(self, scope: Scope) -> Mapping[str, Location]:
        """Return the schemas in a scope by their anchors."""
        found = self._bound_by_scope.get(scope)
        if found is None:
            found = dict(scope)
            self.index.count_bytes(sys.getsizeof(found))
            self._bound_by_scope[scope] = found
        return found

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes with the index, without its formulas."""
        return self.index.nbytes + _NODE_BYTES * len(self.nodes)

    def node(self, context: SchemaContext) -> SchemaNode:
        """Return the node of a schema in its scope, which may be a new one.

        There is one for each schema and scope, which determines the targets of dynamic references.
        A node is made before its formula, so that schemas may refer to themselves. Raises
        LimitExceededError past MAX_NODES.
        """
        key = (id(context.location.schema), context.scope)
        found = self._node_by_key.get(key)
        if found is None:
            index, pointer = len(self.nodes), context.location.pointer
            if index >= MAX_NODES:
                raise LimitExceededError(
                    f"the schema has more than {MAX_NODES} places", limit=MAX_NODES, pointer=pointer
                )
            # Before anything is recorded, since this may raise and lowering be tried again.
            spend(5)
            found = self._node_by_key[key] = SchemaNode(
                index, pointer, lambda: self._lower(context)
            )
            self.nodes.append(found)
        return found

    def release(self) -> None:
        """Have all nodes let go of each other; none may be used, and none be made, any more."""
        self._node_by_key.clear()
        for node in self.nodes:
            node.release()

    def regular(self, pattern: str, pointer: str) -> Regular:
        """Parse a pattern, once for each text; ``pointer`` is only for errors.

        Returns the same object each time: ``MemberRules`` finds the automaton of a pattern by
        identity, as hashing a large one takes long.
        """
        found = self._regular_by_pattern.get(pattern)
        if found is None:
            found = self._regular_by_pattern[pattern] = parse_regex(pattern, pointer=pointer)
        return found


class SchemaContext:
    """A schema object in the dynamic scope through which it is reached.

    Gives access to its keywords and to the formulas of other schemas. It is short-lived: results
    are stored in ``Lowering``.
    """

    __slots__ = ("location", "lowering", "scope")

    def __init__(self, lowering: Lowering, location: Location, scope: Scope) -> None:
        self.lowering: Final = lowering
        self.location: Final = location
        self.scope: Final = scope

    @property
    def keywords(self) -> dict[str, Json]:
        """The keywords that restrict values, by name."""
        return self.location.keywords

    @property
    def formulas(self) -> Formulas:
        """The factory of all formulas."""
        return self.lowering.formulas

    def pointer(self, *tokens: str | int) -> str:
        """Return the JSON pointer of a value inside this schema."""
        return child_pointer(self.location.pointer, *tokens)

    def inner(self, schema: Json) -> SchemaContext | bool:
        """Return the context of a schema inside this one; a Boolean schema is returned as it is."""
        if isinstance(schema, bool):
            return schema
        return self._enter(self.lowering.index.locations[id(schema)])

    def target(self, keyword: str) -> SchemaContext | bool:
        """Return the context of the target of a reference keyword; a Boolean if it is one."""
        bound = {} if keyword == "$ref" else self.lowering.bound(self.scope)
        found = resolve_reference(self.lowering.index, self.location, keyword, bound)
        return found if isinstance(found, bool) else self._enter(found)

    def apply(self, schema: Json) -> Formula:
        """Return the formula of a schema inside this one."""
        return self.formula(self.inner(schema))

    def formula(self, context: SchemaContext | bool) -> Formula:
        """Return the formula of a schema in its scope."""
        if isinstance(context, bool):
            return TRUE if context else FALSE
        return self.lowering.node(context) if context.keywords else TRUE

    def in_place_applicators(self) -> Iterator[tuple[Formula, SchemaContext | bool]]:
        """Yield the schemas that this one applies to the same value, each with its condition.

        A schema holds of every value that fits this one and its condition. For ``unevaluatedItems``
        and ``unevaluatedProperties``: which schemas may have evaluated items or members, and when.
        A branch of anyOf or oneOf counts if it holds. ``not`` evaluates nothing, and neither do
        Booleans, of which there may be very many: most are left out. A schema without a condition
        has TRUE, which ``unevaluated`` compares by identity. A new keyword that applies schemas in
        place has to be added here.
        """
        for keyword, value in self.keywords.items():
            if keyword in REFERENCES:
                yield TRUE, self.target(keyword)
            elif keyword == "allOf":
                spend(len(value) // _PARTS_PER_UNIT)
                for schema in value:
                    if not isinstance(schema, bool):
                        yield TRUE, self.inner(schema)
            elif keyword in ("anyOf", "oneOf"):
                spend(len(value) // _PARTS_PER_UNIT)
                for schema in value:
                    if not isinstance(schema, bool):
                        yield self.apply(schema), self.inner(schema)
            elif keyword == "if":
                condition = self.apply(value)
                yield condition, self.inner(value)
                yield condition, self.inner(self.keywords.get("then", True))
                opposite = self.formulas.negate(condition)
                yield opposite, self.inner(self.keywords.get("else", True))
            elif keyword in ("dependentSchemas", "dependencies"):
                spend(len(value) // _PARTS_PER_UNIT)
                for name, schema in value.items():
                    if not isinstance(schema, list | bool):
                        # "HasMember" alone also holds of values that are no objects.
                        leaf = self.formulas.leaf
                        condition = self.formulas.all_of(
                            [leaf(Types(_OBJECT)), leaf(HasMember(name))]
                        )
                        yield condition, self.inner(schema)

    def _enter(self, location: Location) -> SchemaContext:
        return SchemaContext(
            self.lowering, location, self.lowering.enter(self.scope, location.resource)
        )


def count_formula(
    min_keyword: str, max_keyword: str, assertion: Callable[[int, int | None], Assertion]
) -> Callable[[SchemaContext], Formula]:
    """Return a function that makes one assertion of two keywords about a count.

    ``assertion`` is called with the lower and the upper bound. Register the same function for both
    keywords: ``lower`` calls each function once.
    """

    def count(context: SchemaContext) -> Formula:
        low = int(context.keywords.get(min_keyword, 0))
        high = context.keywords.get(max_keyword)
        if low == 0 and high is None:
            return TRUE
        return context.formulas.leaf(assertion(low, None if high is None else int(high)))

    return count
