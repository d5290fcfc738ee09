"""Which rows have the same graph."""

from __future__ import annotations

from guided.grammar.machine.isomorphic_rows import IsomorphicRows
from guided.machine.table import IN_KEY, TransitionTable

_A, _B = b"ab"
_DONE, _OTHER = 8, 9


def _loop(table: TransitionTable, label: int = _DONE, high: int = 3) -> int:
    """A row that counts a's, and ends with a b."""
    end = table.add_row({}, label=label)
    return table.add_row({_B: end}, loop_bytes=[_A], bounds=(0, high))


def test_rows_of_the_same_graph_are_isomorphic_whatever_their_exit_actions_are() -> None:
    table = TransitionTable(1000)
    left, right = _loop(table), _loop(table, _OTHER)
    found = IsomorphicRows(table).find(left, right)
    assert found is not None
    assert found.rows == {left: right, left - 1: right - 1}
    assert found.actions[_DONE] == _OTHER


def test_bounds_bytes_and_roles_tell_rows_apart() -> None:
    table = TransitionTable(1000)
    isomorphic = IsomorphicRows(table)
    left, right = _loop(table), _loop(table, high=4)
    assert isomorphic.find(left, right) is None
    end = table.add_row({}, label=_DONE)
    assert isomorphic.find(left, table.add_row({_A: end}, bounds=(0, 3))) is None
    assert isomorphic.find(left, table.add_row({_B: end}, bounds=(0, 3), label=_DONE)) is None
    key = table.add_row({_B: end}, role=IN_KEY)
    assert isomorphic.find(key, key) is None


def test_one_row_is_not_like_two() -> None:
    table = TransitionTable(1000)
    isomorphic = IsomorphicRows(table)
    end, other = table.add_row({}, label=_DONE), table.add_row({}, label=_OTHER)
    both, each = table.add_row({_A: end, _B: end}), table.add_row({_A: end, _B: other})
    assert isomorphic.find(both, each) is None
    # In the other direction both labels stand for one.
    found = isomorphic.find(each, both)
    assert found is not None
    assert found.actions[_DONE] == found.actions[_OTHER] == _DONE


def test_one_label_does_not_stand_for_two() -> None:
    table = TransitionTable(1000)
    first, second = table.add_row({}, label=_DONE), table.add_row({}, label=_DONE)
    third, fourth = table.add_row({}, label=_DONE), table.add_row({}, label=_OTHER)
    left = table.add_row({_A: first, _B: second})
    assert IsomorphicRows(table).find(left, table.add_row({_A: third, _B: fourth})) is None
