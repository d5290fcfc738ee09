"""The shapes of united locations put together, type by type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from guided.errors import InvalidConstraintError, UnsupportedFeatureError
from guided.frontends.json_schema.location import Location
from guided.grammar.json_grammar import ValueShape

__all__ = ["unite"]


def unite(locations: Sequence[Location], number: int) -> ValueShape:
    """The shape of a location together with all that is united with it, directly or not.

    Raises InvalidConstraintError where nothing but references to itself is found, and
    UnsupportedFeatureError where two alternatives of one type cannot be kept apart.
    """
    start = locations[number]
    leaves = list(_leaves(locations, number))
    if not leaves:
        raise InvalidConstraintError(
            "the schema refers to nothing but itself", pointer=start.pointer
        )
    shape = leaves[0].own
    for leaf in leaves[1:]:
        shape = _merge(shape, leaf.own, start.pointer)
    if start.exclusive:
        _check_disjoint(locations, start)
    return shape


def _leaves(locations: Sequence[Location], number: int) -> Iterator[Location]:
    """Every location with keywords of its own that the unions of ``number`` lead to, once."""
    seen = {number}
    stack = [number]
    while stack:
        location = locations[stack.pop()]
        if not location.united:
            yield location
        for other in reversed(location.united):
            if other not in seen:
                seen.add(other)
                stack.append(other)


def _merge(left: ValueShape, right: ValueShape, pointer: str) -> ValueShape:
    for kind in ("object", "array"):
        a, b = getattr(left, kind), getattr(right, kind)
        if a is not None and b is not None and a != b:
            raise UnsupportedFeatureError(
                f"more than one alternative is an {kind}",
                pointer=pointer,
                hint=f"keep one {kind} among the alternatives, or ask for one of them at a time",
            )
    return replace(
        left,
        null=left.null or right.null,
        booleans=left.booleans | right.booleans,
        numbers=tuple(dict.fromkeys(left.numbers + right.numbers)),
        strings=tuple(dict.fromkeys(left.strings + right.strings)),
        object=left.object or right.object,
        array=left.array or right.array,
    )


def _check_disjoint(locations: Sequence[Location], location: Location) -> None:
    """Refuse ``oneOf`` unless no value can fit two of its branches: they differ in type."""
    seen: dict[str, int] = {}
    for index, number in enumerate(location.united):
        for kind in _kinds(unite(locations, number)):
            if seen.setdefault(kind, index) != index:
                raise UnsupportedFeatureError(
                    f"branches {seen[kind]} and {index} of oneOf both allow {kind}",
                    pointer=location.pointer + "/oneOf",
                    hint="use anyOf if a value may fit both",
                )


def _kinds(shape: ValueShape) -> Iterator[str]:
    if shape.null:
        yield "null"
    for value in sorted(shape.booleans):
        yield f"the boolean {str(value).lower()}"
    if all(number.choices is not None for number in shape.numbers):
        yield from (f"the number {c}" for n in shape.numbers for c in n.choices or ())
    else:
        yield "numbers"
    if all(string.choices is not None for string in shape.strings):
        yield from (f"the string {c!r}" for s in shape.strings for c in s.choices or ())
    else:
        yield "strings"
    if shape.object is not None:
        yield "objects"
    if shape.array is not None:
        yield "arrays"
