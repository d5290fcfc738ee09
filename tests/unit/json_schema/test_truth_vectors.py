"""Truth vectors of values, the formulas that stand for them, and counts that go down."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from guided.json_schema.formulas.assertions import (
    Assertion,
    Contains,
    ItemCount,
    JsonType,
    Length,
    MemberCount,
    Numbers,
    Types,
)
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Formulas, pack_truth_vector
from guided.json_schema.machine.containers import decrement_count
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.search import Searches
from guided.json_schema.machine.shortest_values import ShortestValues
from guided.json_schema.machine.truth_vectors import MAX_ENUMERATED_FORMULAS, TruthVectors
from guided.spec import JsonOptions

_F = Formulas()
_STRING = _F.leaf(Types(frozenset({JsonType.STRING})))
_SHORT = _F.leaf(Length(0, 2))
_WHOLE = _F.leaf(Numbers(integer=True))


def _vectors() -> TruthVectors:
    restriction, scalars = Restriction(_F), Scalars(_F, JsonOptions(), frozenset(), 4)
    return TruthVectors(restriction, scalars, ShortestValues(restriction, scalars, Searches()))


def test_a_bit_says_for_each_formula_whether_it_holds() -> None:
    assert pack_truth_vector([]) == 0
    assert pack_truth_vector([True, False, True]) == 0b101


@pytest.mark.parametrize(
    ("value", "expected"),
    [("ab", 0b111), ("abc", 0b101), (None, 0b110), (Decimal("1.5"), 0b010), (Decimal(2), 0b110)],
)
def test_a_value_has_a_truth_vector(value: Any, expected: int) -> None:
    assert _vectors().of_value((_STRING, _SHORT, _WHOLE), value) == expected


@pytest.mark.parametrize(
    ("truth_vectors", "expected"),
    [
        ((3,), _F.all_of([_STRING, _SHORT])),
        ((0,), _F.all_of([_F.negate(_STRING), _F.negate(_SHORT)])),
        ((1, 3), _STRING),
        ((1, 2, 3), _F.any_of([_STRING, _SHORT])),
        ((0, 1, 2, 3), TRUE),
        ((), FALSE),
    ],
)
def test_truth_vectors_become_a_formula_without_needless_negations(
    truth_vectors: tuple[int, ...], expected: Formula
) -> None:
    assert _vectors().as_formula((_STRING, _SHORT), truth_vectors) is expected


def test_few_formulas_may_hold_in_any_combination() -> None:
    assert _vectors().possible_vectors((_STRING, _SHORT)) == [3, 2, 1, 0]


def test_of_many_formulas_the_likely_combinations_are_tried() -> None:
    formulas = tuple(_F.leaf(Length(0, high)) for high in range(MAX_ENUMERATED_FORMULAS + 1))
    possible = _vectors().possible_vectors(formulas)
    # For strings the vectors of their lengths, for all other values the one that fits everything.
    assert set(possible) == {
        pack_truth_vector(n <= h for h in range(len(formulas))) for n in range(9)
    }


@pytest.mark.parametrize(
    ("assertion", "left"),
    [
        (ItemCount(2, 3), _F.leaf(ItemCount(1, 2))),
        (MemberCount(0, 1), _F.leaf(MemberCount(0, 0))),
        (MemberCount(1, None), TRUE),
        (ItemCount(0, 0), FALSE),
        (Contains(_SHORT, 0, 5), _F.leaf(Contains(_SHORT, 0, 4))),
    ],
)
def test_a_count_goes_down(assertion: Assertion, left: Formula) -> None:
    assert isinstance(assertion, ItemCount | MemberCount | Contains)
    assert decrement_count(assertion, _F) is left
