"""The shapes of united locations put together, type by type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from guided.automata.fuel import spend
from guided.errors import InvalidConstraintError, UnsupportedFeatureError
from guided.frontends.json_schema.location import Location
from guided.grammar.json_grammar import NumberShape, StringShape, ValueShape

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
    shape = _merged([leaf.own for leaf in leaves], start.pointer)
    if start.exclusive:
        _check_disjoint(locations, start)
    return shape


def _leaves(locations: Sequence[Location], number: int) -> Iterator[Location]:
    """Every location with keywords of its own that the unions of ``number`` lead to, once."""
    seen = {number}
    stack = [number]
    while stack:
        spend(1)
        location = locations[stack.pop()]
        if not location.united:
            yield location
        for other in reversed(location.united):
            if other not in seen:
                seen.add(other)
                stack.append(other)


def _merged(shapes: Sequence[ValueShape], pointer: str) -> ValueShape:
    if len(shapes) == 1:
        return shapes[0]
    return ValueShape(
        null=any(shape.null for shape in shapes),
        booleans=frozenset().union(*(shape.booleans for shape in shapes)),
        numbers=_merged_numbers(number for shape in shapes for number in shape.numbers),
        strings=_merged_strings(string for shape in shapes for string in shape.strings),
        object=_only([shape.object for shape in shapes], "object", pointer),
        array=_only([shape.array for shape in shapes], "array", pointer),
    )


def _merged_numbers(shapes: Iterable[NumberShape]) -> tuple[NumberShape, ...]:
    """Lists of numbers become one list."""
    distinct = list(dict.fromkeys(shapes))
    listed = dict.fromkeys(value for shape in distinct for value in shape.choices or ())
    ranges = [shape for shape in distinct if shape.choices is None]
    return (*ranges, *([NumberShape(choices=tuple(listed))] if listed else []))


def _merged_strings(shapes: Iterable[StringShape]) -> tuple[StringShape, ...]:
    """Lists of strings under no other condition become one list."""
    distinct = list(dict.fromkeys(shapes))
    plain = [shape for shape in distinct if _is_plain_list(shape)]
    listed = dict.fromkeys(text for shape in plain for text in shape.choices or ())
    others = [shape for shape in distinct if not _is_plain_list(shape)]
    return (*others, *([StringShape(choices=tuple(listed))] if listed else []))


def _is_plain_list(shape: StringShape) -> bool:
    return shape.choices is not None and shape == StringShape(choices=shape.choices)


_Container = TypeVar("_Container")


def _only(found: Sequence[_Container | None], kind: str, pointer: str) -> _Container | None:
    distinct = list(dict.fromkeys(container for container in found if container is not None))
    if len(distinct) > 1:
        raise UnsupportedFeatureError(
            f"more than one alternative is an {kind}",
            pointer=pointer,
            hint=f"keep one {kind} among the alternatives, or ask for one of them at a time",
        )
    return distinct[0] if distinct else None


def _check_disjoint(locations: Sequence[Location], location: Location) -> None:
    """Refuse ``oneOf`` unless no value can fit two branches: by type, or by listed values."""
    seen: dict[tuple[str, object], int] = {}
    for index, number in enumerate(location.united):
        for kind, value in _kinds(unite(locations, number)):
            clash = next((other for other in _overlapping(seen, kind, value)), None)
            if clash is not None:
                raise UnsupportedFeatureError(
                    f"branches {clash} and {index} of oneOf both allow"
                    f" {kind if value is _ALL else repr(value)}",
                    pointer=location.pointer + "/oneOf",
                    hint="use anyOf if a value may fit both",
                )
            seen[kind, value] = index
            seen.setdefault((kind, _SOME), index)


_ALL = "all"
"""Stands for every value of a kind; a listed value stands for itself, in its tuple."""
_SOME = "some"


def _overlapping(seen: Mapping[tuple[str, object], int], kind: str, value: object) -> Iterator[int]:
    """Earlier branches that allow the value as well; all of a kind overlap with any of it."""
    for other in (_ALL, value, *([_SOME] if value is _ALL else [])):
        if (kind, other) in seen:
            yield seen[kind, other]


def _kinds(shape: ValueShape) -> Iterator[tuple[str, object]]:
    if shape.null:
        yield "null", _ALL
    yield from (("booleans", (value,)) for value in sorted(shape.booleans))
    yield from _listed_or_all("numbers", [number.choices for number in shape.numbers])
    yield from _listed_or_all("strings", [string.choices for string in shape.strings])
    if shape.object is not None:
        yield "objects", _ALL
    if shape.array is not None:
        yield "arrays", _ALL


def _listed_or_all(
    kind: str, choices: Sequence[tuple[object, ...] | None]
) -> Iterator[tuple[str, object]]:
    if None in choices:
        yield kind, _ALL
    else:
        # Equal numbers are equal keys, however they are spelled.
        yield from (
            (kind, (value,)) for value in dict.fromkeys(v for c in choices for v in c or ())
        )
