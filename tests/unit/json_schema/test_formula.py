"""Formulas: simplified as they are made, and equal ones the same object."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import HasMember
from guided.json_schema.formulas.formula import (
    FALSE,
    TRUE,
    AllOf,
    AnyOf,
    Constant,
    Formula,
    Formulas,
    Leaf,
    Not,
    SchemaNode,
)

_F = Formulas()
_A, _B, _C = _LEAVES = tuple(_F.leaf(HasMember(name)) for name in "abc")
_NOT_A = _F.negate(_A)
_NODE = SchemaNode(0, "", lambda: TRUE)

SAME: list[tuple[Formula, Formula]] = [
    (_F.leaf(HasMember("a")), _A),
    (_F.negate(_NOT_A), _A),
    (_F.negate(TRUE), FALSE),
    (_F.negate(FALSE), TRUE),
    (_F.all_of([]), TRUE),
    (_F.any_of([]), FALSE),
    (_F.all_of([_A]), _A),
    (_F.any_of([_A]), _A),
    (_F.all_of([_A, TRUE, _A]), _A),
    (_F.all_of([_A, FALSE]), FALSE),
    (_F.any_of([_A, TRUE]), TRUE),
    (_F.any_of([FALSE, _A]), _A),
    (_F.all_of([_A, _NOT_A]), FALSE),
    (_F.any_of([_B, _NOT_A, _A]), TRUE),
    (_F.all_of([_F.all_of([_A, _B]), _C]), _F.all_of([_A, _B, _C])),
    (_F.any_of([_A, _F.any_of([_B, _A])]), _F.any_of([_A, _B])),
]


@pytest.mark.parametrize(("made", "expected"), SAME)
def test_formulas_are_simplified_and_interned(made: Formula, expected: Formula) -> None:
    assert made is expected


def test_formulas_keep_the_order_in_which_they_are_written() -> None:
    assert isinstance(joined := _F.all_of([_B, _A]), AllOf)
    assert joined.parts == (_B, _A)
    assert isinstance(joined := _F.any_of([_C, _A]), AnyOf)
    assert joined.parts == (_C, _A)


def test_different_assertions_make_different_formulas() -> None:
    other = SchemaNode(1, "/a", lambda: TRUE)
    assert len({_A, _B, _C, _NOT_A, _NODE, other, _F.all_of([_A, _B])}) == 7


def _formulas() -> st.SearchStrategy[Formula]:
    return st.recursive(
        st.sampled_from([_A, _B, _C, TRUE, FALSE]),
        lambda inner: st.one_of(
            inner.map(_F.negate),
            st.lists(inner, max_size=3).map(_F.all_of),
            st.lists(inner, max_size=3).map(_F.any_of),
        ),
        max_leaves=8,
    )


def _value(formula: Formula, truth: dict[Formula, bool]) -> bool:
    if isinstance(formula, Constant):
        return formula.value
    if isinstance(formula, Not):
        return not _value(formula.item, truth)
    if isinstance(formula, AllOf):
        return all(_value(part, truth) for part in formula.parts)
    if isinstance(formula, AnyOf):
        return any(_value(part, truth) for part in formula.parts)
    return truth[formula]


_TRUTHS: list[dict[Formula, bool]] = [
    dict(zip(_LEAVES, values, strict=True)) for values in itertools.product((False, True), repeat=3)
]


@given(st.lists(_formulas(), max_size=4))
def test_joined_formulas_mean_what_they_say(parts: list[Formula]) -> None:
    for truth in _TRUTHS:
        values = [_value(part, truth) for part in parts]
        assert _value(_F.all_of(parts), truth) == all(values)
        assert _value(_F.any_of(parts), truth) == any(values)


@given(_formulas(), st.sampled_from([_A, _B, _C]), st.sampled_from([TRUE, FALSE, _B, _NOT_A]))
def test_replacing_a_leaf_is_deciding_it(formula: Formula, old: Leaf, new: Formula) -> None:
    replaced = _F.replace(formula, lambda leaf: new if leaf is old else leaf)
    for truth in _TRUTHS:
        decided = {**truth, old: _value(new, truth)}
        assert _value(replaced, truth) == _value(formula, decided)


def test_a_formula_in_which_nothing_is_replaced_is_the_same() -> None:
    formula = _F.any_of([_F.all_of([_A, _NOT_A, _B]), _F.negate(_F.all_of([_B, _C])), _NODE])
    assert _F.replace(formula, lambda leaf: leaf) is formula


def test_nodes_are_replaced_like_leaves() -> None:
    formula = _F.all_of([_A, _NODE])
    found = _F.replace(formula, lambda node: _B if isinstance(node, SchemaNode) else node)
    assert found is _F.all_of([_A, _B])


def test_the_formula_of_a_node_is_made_once_and_again_where_that_failed() -> None:
    results: list[Formula | None] = [None, _A]

    def lower() -> Formula:
        made = results.pop(0)
        if made is None:
            raise LimitExceededError("out of fuel", limit=1)
        return made

    node = SchemaNode(0, "", lower)
    with pytest.raises(LimitExceededError):
        _ = node.formula
    assert node.formula is node.formula is _A
