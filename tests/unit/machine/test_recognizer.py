"""The common part of all machines, on the smallest one: balanced brackets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from guided.errors import LimitExceededError
from guided.machine.parts import MachineParts, Pool
from guided.machine.recognizer import State
from guided.machine.stack_table import StackTable
from guided.machine.stack_transitions import FIRST_CONDITIONAL
from guided.machine.table import TransitionTable
from guided.regular.dfa import DEAD
from tests.kit.interpreted import interpreted

if TYPE_CHECKING:
    from guided.machine.recognizer import Recognizer
else:
    Recognizer = interpreted("guided.machine.recognizer").Recognizer

_OPEN, _CLOSE = FIRST_CONDITIONAL, FIRST_CONDITIONAL + 1
_MOST: Final = 8


class _Brackets(Recognizer):
    """Recognises ``a`` in balanced brackets, nested at most ``most`` deep."""

    def __init__(self, most: int = _MOST) -> None:
        table, depths = TransitionTable(10_000), StackTable[None]([None])
        parts = MachineParts(table, depths, [Pool("stacks", depths.frames, most)], "nest less")
        super().__init__(parts)
        self.end = table.add_row({})
        opens, closes = table.add_row({}, label=_OPEN), table.add_row({}, label=_CLOSE)
        self.closing = table.add_row({ord(")"): closes})
        # Inside of brackets the text after ``a`` is a closing bracket, outside it is the end.
        done = table.add_row({}, label=_CLOSE)
        self.row = table.add_row({ord("("): opens, ord("a"): done})
        self.start = State(0, self.row)

    def transition(self, stack: int, action: int) -> tuple[int, int]:
        depths = self.parts.stacks
        if action == _OPEN:
            if stack + 1 == len(depths):
                depths.append(None)
            return stack + 1, self.row
        return (stack - 1, self.closing) if stack else (0, self.end)

    def after_exit(self, state: State) -> State | None:
        action = int(self.table.label[state.row])
        return None if action == DEAD else State(*self.transition(state.stack, action))

    def is_accepting(self, state: State) -> bool:
        return state.row == self.end

    def bytes_left(self, state: State) -> int:
        return len(self.shortest_completion(state))

    def shortest_completion(self, state: State) -> bytes:
        inner = b"a" if state.row == self.row else b""
        closing = state.stack + (1 if state.row == self.closing else 0)
        return b"" if state.row == self.end else inner + b")" * closing

    def _enter_row(self, before: State, row: int, byte: int) -> State | None:
        assert byte in b"a()"
        at: State | None = State(before.stack, row)
        while at is not None and self.table.exits[at.row]:
            at = self.after_exit(at)
        return at


@pytest.mark.parametrize("text", [b"a", b"(a)", b"(((a)))"])
def test_bytes_and_exit_actions_lead_to_the_end(text: bytes) -> None:
    machine = _Brackets()
    state = machine.advance(machine.start, text)
    assert state is not None
    assert machine.is_accepting(state)
    assert machine.table.is_end(state.row)
    machine.check()


@pytest.mark.parametrize("text", [b")", b"(a))", b"a(", b"aa", b"()"])
def test_a_byte_that_no_row_and_no_action_takes_is_refused(text: bytes) -> None:
    machine = _Brackets()
    assert machine.advance(machine.start, text) is None


def test_every_state_has_a_shortest_end() -> None:
    machine = _Brackets()
    for text in (b"", b"(", b"((", b"((a", b"((a)", b"((a))"):
        state = machine.advance(machine.start, text)
        assert state is not None
        end = machine.shortest_completion(state)
        assert len(end) <= machine.bytes_left(state)
        ended = machine.advance(state, end)
        assert ended is not None, (text, end)
        assert machine.is_accepting(ended), (text, end)


def test_one_byte_is_forced_where_the_row_has_no_other_and_no_action() -> None:
    machine = _Brackets()
    assert machine.only_byte(machine.start) is None
    inside = machine.advance(machine.start, b"(a")
    assert inside is not None
    assert machine.only_byte(inside) == ord(")")
    end = machine.advance(inside, b")")
    assert end is not None
    assert machine.only_byte(end) is None


def test_a_string_at_its_bound_forces_the_byte_that_closes_it() -> None:
    machine = _Brackets()
    table = machine.table
    closes = table.add_row({ord('"'): machine.end}, loop_bytes=[ord("x")], bounds=(0, 2))
    assert machine.table.edges(closes).keys() == {ord('"'), ord("x")}
    assert machine.only_byte(State(0, closes, 1)) is None


def test_half_of_the_limits_is_kept_for_completions() -> None:
    machine = _Brackets(most=6)
    state = machine.start
    for _ in range(2):
        machine.parts.check_room()
        moved = machine.step(state, ord("("))
        assert moved is not None
        state = moved
    assert machine.parts.fullness == 0.5
    machine.parts.check_room()
    machine.step(state, ord("("))
    with pytest.raises(LimitExceededError, match=r"4 stacks, and may have half of 10000 and 6"):
        machine.parts.check_room()


def test_parts_inside_of_others_count_towards_their_fullness_and_what_they_gave_up() -> None:
    inner = _Brackets(most=2).parts
    depths = StackTable[None]([None])
    outer = MachineParts(
        TransitionTable(10_000), depths, [], "nest less", [inner], num_given_up=lambda: 3
    )
    assert outer.fullness == inner.fullness == 0.5
    assert outer.num_given_up == 3 + inner.num_given_up == 3


def test_a_machine_without_sharing_is_its_own_only_parse() -> None:
    machine = _Brackets()
    assert machine.sharing.parses(machine.start) == ()
    assert machine.sharing.truncate(5) == 5
    assert machine.sharing.overlaid_state(State(3, 1, 2), 7) == State(3, 7, 2)
