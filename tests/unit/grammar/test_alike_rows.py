"""Which rows lead on alike."""

from __future__ import annotations

from guided.grammar.machine.alike_rows import AlikeRows
from guided.machine.table import IN_KEY, TransitionTable

_A, _B = b"ab"
_DONE, _OTHER = 8, 9


def _loop(table: TransitionTable, label: int = _DONE, high: int = 3) -> int:
    """A row that counts a's, and ends with a b."""
    end = table.add_row({}, label=label)
    return table.add_row({_B: end}, itself=[_A], bounds=(0, high))


def test_the_same_graph_is_alike_whatever_its_labels_are() -> None:
    table = TransitionTable(1000)
    left, right = _loop(table), _loop(table, _OTHER)
    likeness = AlikeRows(table).of(left, right)
    assert likeness is not None
    assert likeness.rows == {left: right, left - 1: right - 1}
    assert likeness.labels[_DONE] == _OTHER


def test_bounds_bytes_and_roles_tell_rows_apart() -> None:
    table = TransitionTable(1000)
    alike = AlikeRows(table)
    left, right = _loop(table), _loop(table, high=4)
    assert alike.of(left, right) is None
    end = table.add_row({}, label=_DONE)
    assert alike.of(left, table.add_row({_A: end}, bounds=(0, 3))) is None
    assert alike.of(left, table.add_row({_B: end}, bounds=(0, 3), label=_DONE)) is None
    key = table.add_row({_B: end}, role=IN_KEY)
    assert alike.of(key, key) is None


def test_one_row_is_not_like_two() -> None:
    table = TransitionTable(1000)
    alike = AlikeRows(table)
    end, other = table.add_row({}, label=_DONE), table.add_row({}, label=_OTHER)
    both, each = table.add_row({_A: end, _B: end}), table.add_row({_A: end, _B: other})
    assert alike.of(both, each) is None
    # The other way round both labels stand for one.
    likeness = alike.of(each, both)
    assert likeness is not None
    assert likeness.labels[_DONE] == likeness.labels[_OTHER] == _DONE


def test_one_label_does_not_stand_for_two() -> None:
    table = TransitionTable(1000)
    first, second = table.add_row({}, label=_DONE), table.add_row({}, label=_DONE)
    third, fourth = table.add_row({}, label=_DONE), table.add_row({}, label=_OTHER)
    left = table.add_row({_A: first, _B: second})
    assert AlikeRows(table).of(left, table.add_row({_A: third, _B: fourth})) is None
