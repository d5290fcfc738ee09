"""The search for assertions that can be kept together."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import Contains, HasMember, ItemCount, MemberCount
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Formulas, Leaf, evaluate
from guided.json_schema.machine.search import MAX_TRIES, Literals, Searches, _Search, satisfy
from guided.runtime.work_budget import limited_work, units_left
from tests.kit.evaluate import exactly_one

_F = Formulas()
_LEAVES = [_F.leaf(HasMember(name)) for name in "abcd"]
_A, _B, _C, _D = _LEAVES


def _found(
    formula: Formula, refused: frozenset[tuple[Leaf, bool]] = frozenset()
) -> Literals | None:
    def realise(literals: Literals) -> Literals | None:
        return None if refused & set(literals.items()) else dict(literals)

    searches = Searches()
    found = satisfy(formula, _F, realise, searches)
    assert not searches.num_incomplete
    return found


def test_literals_are_found() -> None:
    assert _found(TRUE) == {}
    assert _found(FALSE) is None
    assert _found(_A) == {_A: True}
    assert _found(_F.negate(_A)) == {_A: False}
    assert _found(_F.all_of([_A, _F.negate(_B)])) == {_A: True, _B: False}
    assert _found(_F.any_of([_A, _B])) == {_A: True}


def test_an_alternative_that_is_refused_is_passed_over() -> None:
    formula = _F.all_of([_F.any_of([_A, _B]), _F.any_of([_C, _D])])
    assert _found(formula, frozenset({(_A, True), (_C, True)})) == {_B: True, _D: True}
    assert _found(formula, frozenset({(_A, True), (_B, True)})) is None


def test_literals_that_contradict_one_another_are_not_offered() -> None:
    formula = _F.all_of([_F.any_of([_A, _B]), _F.any_of([_F.negate(_A), _C]), _F.negate(_B)])
    assert _found(formula) == {_A: True, _B: False, _C: True}


def test_many_choices_are_collected_once() -> None:
    choices: list[Formula] = [_F.any_of([_A, _B])] * 80_000
    search = _Search(_F, dict[Leaf, bool], Searches(), tries=1, checks_partial=False)
    began = time.process_time()
    assert search.search(choices, [], {}) == {_A: True}
    # A tenth of a second; if they are copied for each, it takes many.
    assert time.process_time() - began < 3


def test_the_literals_are_counted_for_each_alternative_that_is_tried() -> None:
    leaves = [_F.leaf(HasMember(str(number))) for number in range(1_000)]
    formula = _F.all_of([*leaves, _F.any_of(map(_F.negate, leaves))])
    with limited_work(10**6):
        assert _found(formula) is None
        left = units_left()
    assert left is not None
    assert 10**6 - left > 7_000


COUNTS = [
    (MemberCount(2, 4), {MemberCount(0, 1), MemberCount(5, None)}),
    (MemberCount(0, 4), {MemberCount(5, None)}),
    (ItemCount(3, None), {ItemCount(0, 2)}),
    (Contains(TRUE, 1, 2), {Contains(TRUE, 0, 0), Contains(TRUE, 3, None)}),
]


@pytest.mark.parametrize(("counted", "outside"), COUNTS, ids=[repr(c) for c, _ in COUNTS])
def test_a_count_that_must_fail_is_one_outside(
    counted: MemberCount | ItemCount | Contains, outside: set[object]
) -> None:
    offered: list[object] = []

    def realise(literals: Literals) -> None:
        assert all(literals.values())
        offered.extend(leaf.assertion for leaf in literals)

    assert satisfy(_F.negate(_F.leaf(counted)), _F, realise, Searches()) is None
    assert set(offered) == outside


_FORMULAS = st.recursive(
    st.sampled_from([*_LEAVES, TRUE, FALSE]),
    lambda inner: st.one_of(
        inner.map(_F.negate),
        st.lists(inner, max_size=3).map(_F.all_of),
        st.lists(inner, max_size=3).map(_F.any_of),
        st.lists(inner, max_size=2).map(lambda parts: exactly_one(_F, parts)),
    ),
    max_leaves=10,
)
_REFUSED = st.frozensets(st.tuples(st.sampled_from(_LEAVES), st.booleans()), max_size=4)


@given(_FORMULAS, _REFUSED)
def test_the_search_is_right_and_finds_what_there_is(
    formula: Formula, refused: frozenset[tuple[Leaf, bool]]
) -> None:
    """Compared with every assignment: literals that are not refused, and under all of whose
    completions the formula holds.
    """
    assignments = [
        dict(zip(_LEAVES, values, strict=True))
        for values in itertools.product((False, True), repeat=len(_LEAVES))
    ]
    found = _found(formula, refused)
    if found is not None:
        assert not refused & set(found.items())
        for truth in assignments:
            assert evaluate(formula, ({**truth, **found}).__getitem__)
    elif all((leaf, not value) not in refused for leaf, value in refused):
        assert not any(
            evaluate(formula, truth.__getitem__) and not refused & set(truth.items())
            for truth in assignments
        )


def test_a_search_that_gives_up_is_counted() -> None:
    rows = [[_F.leaf(HasMember(f"{i}{j}")) for j in range(3)] for i in range(8)]
    tries = 0

    def refuse_whole(literals: Literals) -> Literals | None:
        nonlocal tries
        tries += 1
        return literals if len(literals) < len(rows) else None

    searches = Searches()
    formula = _F.all_of(_F.any_of(row) for row in rows)
    assert satisfy(formula, _F, refuse_whole, searches) is None
    assert searches.num_incomplete == 1
    assert tries <= 2 * MAX_TRIES


def test_choices_that_nobody_is_asked_about_are_not_all_tried() -> None:
    """The last choice contradicts the formula, whatever was chosen from the sixteen pairs."""
    leaves = [_F.leaf(HasMember(str(number))) for number in range(32)]
    pairs = [_F.any_of(leaves[number : number + 2]) for number in range(0, 32, 2)]
    denied = _F.any_of(_F.all_of([_F.negate(_A), other]) for other in (_B, _C, _D))
    with limited_work(20_000):
        assert _found(_F.all_of([_A, *pairs, denied])) is None


def test_a_search_draws_on_the_tank() -> None:
    formula = _F.all_of(_F.leaf(HasMember(str(n))) for n in range(100))
    with limited_work(50), pytest.raises(LimitExceededError):
        satisfy(formula, _F, lambda literals: literals, Searches())
