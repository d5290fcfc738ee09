"""A schema object as lowering reaches it: its keywords, and the formulas of what it names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Final

from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import Assertion, Has, JsonType, Types
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Formulas, SchemaNode
from guided.json_schema.formulas.values import Json
from guided.json_schema.reader.survey import Location, Resource, Scope, Survey, enter, referenced
from guided.json_schema.reader.text import child
from guided.regular.expression import Regular
from guided.regular.patterns import parse_regex
from guided.runtime.fuel import spend
from guided.spec import JsonOptions

__all__ = ["REFERENCES", "Lowering", "Visit", "counting"]

_OBJECT: Final = frozenset({JsonType.OBJECT})
REFERENCES: Final = ("$ref", "$recursiveRef", "$dynamicRef")


MAX_NODES: Final = 50_000
_BINDING_BYTES: Final = 56
"""A pair of a name and what a scope binds it to."""
_NODE_BYTES: Final = 600
"""About what a node takes, with what lowers it."""


class Lowering:
    """The nodes that were met so far, and what all visits share.

    ``lower`` makes the formula of a visit. A node calls it when its own formula is first needed.
    Going through ``nodes``, which grow meanwhile, lowers all that the root leads to.
    """

    def __init__(
        self, survey: Survey, options: JsonOptions, lower: Callable[[Visit], Formula]
    ) -> None:
        self.survey: Final = survey
        self.options: Final = options
        self.formulas: Final = Formulas()
        self.nodes: Final[list[SchemaNode]] = []
        self._lower: Final = lower
        self._known: dict[tuple[int, Scope], SchemaNode] = {}
        """By schema and scope. The survey keeps the schemas, so that identities stay theirs."""
        self._scopes: dict[tuple[Scope, Resource, int], Scope] = {}
        """By scope, the resource that is entered from there, and how many names it has so far."""
        self._regulars: dict[str, Regular] = {}

    def root(self) -> Formula:
        """Return the formula of the whole schema.

        This lowers nothing: the node makes its formula later.
        """
        resource = self.survey.root
        if isinstance(resource.root, bool):
            return TRUE if resource.root else FALSE
        location = self.survey.locations[id(resource.root)]
        return self.node(Visit(self, location, self.entered(frozenset(), location.resource)))

    def entered(self, scope: Scope, resource: Resource) -> Scope:
        """Return the scope inside a resource, see ``enter``; made once, as each place has it."""
        key = (scope, resource, len(resource.dynamic))
        found = self._scopes.get(key)
        if found is None:
            found = self._scopes[key] = enter(scope, resource)
            if found is not scope:
                bound = _BINDING_BYTES * (len(found) - len(scope))
                self.survey.count_place(sys.getsizeof(found) + bound)
        return found

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes besides its formulas, with the schema."""
        return self.survey.nbytes + _NODE_BYTES * len(self.nodes)

    def node(self, visit: Visit) -> SchemaNode:
        """Return the node that belongs to a visit, which may be a new one.

        One for each schema and scope: the formula depends on nothing else, as the scope determines
        what dynamic references are bound to. A node is made before its formula, so schemas that
        refer to themselves find themselves here.
        """
        key = (id(visit.location.schema), visit.scope)
        found = self._known.get(key)
        if found is None:
            number, pointer = len(self.nodes), visit.location.pointer
            if number >= MAX_NODES:
                raise LimitExceededError(
                    f"the schema has more than {MAX_NODES} places", limit=MAX_NODES, pointer=pointer
                )
            # Before anything is recorded: the work may end here, and another attempt begins with
            # what was recorded so far.
            spend(5)
            lower = self._lower
            found = self._known[key] = SchemaNode(number, pointer, lambda: lower(visit))
            self.nodes.append(found)
        return found

    def regular(self, pattern: str, pointer: str) -> Regular:
        """Return the regular expression of a pattern, parsed once; ``pointer`` is only for errors.

        The same object each time: ``MemberRules`` finds the automaton of a pattern by identity, as
        hashing a large one takes long.
        """
        found = self._regulars.get(pattern)
        if found is None:
            found = self._regulars[pattern] = parse_regex(pattern, pointer=pointer)
        return found


class Visit:
    """A schema object in the dynamic scope through which it was reached.

    Made for each look at a schema: it holds no results, which belong to ``Lowering``.
    """

    __slots__ = ("location", "lowering", "scope")

    def __init__(self, lowering: Lowering, location: Location, scope: Scope) -> None:
        self.lowering: Final = lowering
        self.location: Final = location
        self.scope: Final = scope

    @property
    def keywords(self) -> dict[str, Json]:
        """The keywords that ask something of values."""
        return self.location.keywords

    @property
    def formulas(self) -> Formulas:
        """What makes the formulas."""
        return self.lowering.formulas

    def pointer(self, *tokens: str | int) -> str:
        """Return the JSON pointer of something in this schema."""
        return child(self.location.pointer, *tokens)

    def inner(self, schema: Json) -> Visit | bool:
        """Return the visit of a schema inside this one, which the survey has met.

        For a Boolean schema, the Boolean itself.
        """
        if isinstance(schema, bool):
            return schema
        return self._to(self.lowering.survey.locations[id(schema)])

    def target(self, keyword: str) -> Visit | bool:
        """Return the visit of what a reference names."""
        found = referenced(self.lowering.survey, self.location, keyword, self.scope)
        return found if isinstance(found, bool) else self._to(found)

    def apply(self, schema: Json) -> Formula:
        """Return the formula of a schema inside this one."""
        return self.formula(self.inner(schema))

    def formula(self, visit: Visit | bool) -> Formula:
        """Return the formula of a visit."""
        if isinstance(visit, bool):
            return TRUE if visit else FALSE
        return self.lowering.node(visit) if visit.keywords else TRUE

    def in_place(self) -> Iterator[tuple[Formula, Visit]]:
        """Yield the schemas that this one applies to the same value, each with its condition.

        Under its condition a schema holds wherever this one does.
        """
        for condition, visit in self._applied():
            if not isinstance(visit, bool):
                yield condition, visit

    def _applied(self) -> Iterator[tuple[Formula, Visit | bool]]:
        """Yield the subschemas that apply to the same value, each with its condition.

        For ``unevaluatedItems`` and ``unevaluatedProperties``: which subschemas may have evaluated
        items or members, and when. A branch of anyOf or oneOf counts where it holds. ``not``
        evaluates nothing, and a list in ``dependencies`` is a list of names and no schema. A schema
        without a condition has TRUE, compared by identity in ``unevaluated``. A keyword that later
        applies schemas in place has to be added here.
        """
        for keyword, value in self.keywords.items():
            if keyword in REFERENCES:
                yield TRUE, self.target(keyword)
            elif keyword == "allOf":
                yield from ((TRUE, self.inner(schema)) for schema in value)
            elif keyword in ("anyOf", "oneOf"):
                yield from ((self.apply(schema), self.inner(schema)) for schema in value)
            elif keyword == "if":
                condition = self.apply(value)
                yield condition, self.inner(value)
                yield condition, self.inner(self.keywords.get("then", True))
                opposite = self.formulas.negate(condition)
                yield opposite, self.inner(self.keywords.get("else", True))
            elif keyword in ("dependentSchemas", "dependencies"):
                for name, schema in value.items():
                    if not isinstance(schema, list):
                        # "Has" alone also holds of values that are no objects.
                        leaf = self.formulas.leaf
                        condition = self.formulas.all_of([leaf(Types(_OBJECT)), leaf(Has(name))])
                        yield condition, self.inner(schema)

    def _to(self, location: Location) -> Visit:
        return Visit(self.lowering, location, self.lowering.entered(self.scope, location.resource))


def counting(
    least: str, most: str, made: Callable[[int, int | None], Assertion]
) -> Callable[[Visit], Formula]:
    """Return what two keywords together ask of a count: one function, so that it is asked once.

    Register the one result for both keywords: ``lower._one_by_one`` calls a function once.
    """

    def count(visit: Visit) -> Formula:
        low = int(visit.keywords.get(least, 0))
        high = visit.keywords.get(most)
        if low == 0 and high is None:
            return TRUE
        return visit.formulas.leaf(made(low, None if high is None else int(high)))

    return count
