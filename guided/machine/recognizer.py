"""The pushdown machine that all recognisers are: automata over bytes, and a stack around them.

A *state* of a machine is a stack and a row of its transition table::

    stack ── what is open around the place in the text, a number (``StackTable``)
    row ──── the state of an automaton, a row of the table (``TransitionTable``)
      ├ byte ──────── another row of the same automaton; the stack stays
      └ exit action ─ the automaton may end here: (stack, action) → (stack, row), a *transition*

A byte moves the row by a table look-up. Where an automaton ends, its exit action pushes or pops the
stack and determines the row where the next automaton begins.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from guided.machine.parts import MachineParts
from guided.machine.table import CLOSE_STRING, CODE_POINT_END, START, UNCOUNTED, TransitionTable
from guided.regular.dfa import DEAD

__all__ = ["Recognizer", "State", "StateSharing", "state_of"]


class State(NamedTuple):
    """A position in a text; equal states have equal continuations."""

    stack: int
    row: int
    count: int = 0  # type: ignore[assignment]  # hides a method of tuples that nobody needs
    """Code points so far in a string of bounded length, or characters of white space."""
    texts: tuple[bytes, ...] = ()
    """The beginnings of texts that are being written and have to be remembered: array items that
    must differ from others, the outermost first, then a member name that must not occur twice."""


_new: Final = tuple.__new__


def state_of(stack: int, row: int, count: int = 0, texts: tuple[bytes, ...] = ()) -> State:
    """Construct a ``State`` in half the time, as every token needs one."""
    return _new(State, (stack, row, count, texts))


class StateSharing:
    """Relates the states of a machine whose masks have parts in common.

    This class knows of nothing in common; machines that know more override its methods.
    """

    def parses(self, state: State) -> tuple[State, ...]:  # noqa: ARG002 - there is but one
        """Return the parses of an ambiguous state: states that together allow what it allows.

        Empty, as for most states, if its mask is best made as a whole. Callers divide each of them
        again, so the parses of a parse must be empty at last.
        """
        return ()

    def overlaid_state(self, state: State, row: int) -> State:
        """Return the state in ``row``, which the row of ``state`` is an overlay of.

        Its stack has the same continuations from there.
        """
        return state._replace(row=row)

    def truncate(self, stack: int) -> int:
        """Return the stack with only the innermost callers, the same for many stacks.

        What a walk finds certain there also holds in ``stack``, except for the end of the text. If
        nothing is cut off, this is ``stack`` itself: there is nothing more to look for then.
        """
        return stack


_NOTHING_SHARED: Final = StateSharing()


class Recognizer:
    """A machine whose states are a stack and a row of its table.

    Subclasses set ``start``, define the frames of a stack, and implement the abstract methods.
    Where a row reads a byte, its exit action is not tried: a byte that what follows reads as well
    needs a row of its own, whose exit action resolves both.

    Not thread-safe: it may grow with every call, and raises LimitExceededError if it would grow
    too large.
    """

    start: State

    def __init__(self, parts: MachineParts) -> None:
        self.parts = parts
        self.table: TransitionTable = parts.table

    # --- abstract -----------------------------------------------------------------------------

    def transition(self, stack: int, action: int) -> tuple[int, int]:
        """Return the stack and the row that an exit action leads to, where the count is 0.

        The row is DEAD if the action must not be taken, and never one that only has an exit action
        itself: such rows are followed to their end here. NEEDS_EXACT_STATE in place of the stack
        means that the result depends on a text that was written, needs another count, or depends on
        what was cut off a truncated stack: callers look at this first. The row beside it then reads
        every byte that may follow, and is DEAD if none is known to. The result is cached, so it
        must depend on stack and action alone.
        """
        raise NotImplementedError

    def after_exit(self, state: State) -> State | None:
        """Return the state after the exit action of the row, which may have an exit action, too.

        ``None`` if the row has none, or its action must not be taken.
        """
        raise NotImplementedError

    def is_accepting(self, state: State) -> bool:
        """Return whether the text may end here."""
        raise NotImplementedError

    def bytes_left(self, state: State) -> int:
        """Return an upper bound on the length of ``shortest_completion``."""
        raise NotImplementedError

    def shortest_completion(self, state: State) -> bytes:
        """Return bytes that complete the text from here, close to as few as possible."""
        raise NotImplementedError

    def _enter_row(self, before: State, row: int, byte: int) -> State | None:
        """Return the state after ``byte``, which leads from the row of ``before`` to ``row``.

        ``None`` if the byte must not be read. In ``before`` the exit actions before the byte are
        taken. Overrides update the count (``_update_count``; ``None`` refuses the byte) and the
        texts, where their machine has any, and leave rows that read no byte (``table.exits``) by
        their exit action.
        """
        raise NotImplementedError

    @property
    def sharing(self) -> StateSharing:
        """How masks of its states are shared; overridden by machines that know of a way."""
        # Made anew each time where it refers to the machine, which would otherwise hold itself.
        return _NOTHING_SHARED

    # --- shared -------------------------------------------------------------------------------

    def _update_count(self, row: int, count: int) -> int | None:
        """Return the count after a byte that leads to a row, ``None`` past its bounds.

        Rows without a count return 0, so that states which differ in nothing else are equal.
        """
        table = self.table
        high = int(table.high[row])
        if high == UNCOUNTED:
            return 0
        event = table.count_event[row]
        if event == CLOSE_STRING:
            return 0 if count >= table.low[row] else None
        if event == START:
            count = 0
        elif event == CODE_POINT_END:
            count += 1
        # The code points that must still come (MIN_REMAINING) would make the string too long.
        return count if count + int(table.min_remaining[row]) <= high else None

    def step(self, state: State, byte: int) -> State | None:
        """Return the state after ``byte``, ``None`` if it is not allowed; may add rows.

        Raises LimitExceededError if that would take too many.

        ``machine_kernels.after_byte`` does the same in compiled code, and ``CompositeMachine.step``
        repeats the loop: change all or none.
        """
        at: State | None = state
        while at is not None:
            target = self.table.step(at.row, byte)
            if target != DEAD:
                return self._enter_row(at, target, byte)
            # The automaton may end here, and the byte may belong to what follows it.
            at = self.after_exit(at)
        return None

    def advance(self, state: State, text: bytes) -> State | None:
        """Return the state after all bytes of ``text``, ``None`` if one is not allowed."""
        current: State | None = state
        for byte in text:
            if current is None:
                return None
            current = self.step(current, byte)
        return current

    def only_byte(self, state: State) -> int | None:
        """Return the one byte that may follow, ``None`` if there is a choice or the text may end.

        ``None`` may be wrong, a byte never is: forced runs consist of these bytes.
        """
        table, row = self.table, state.row
        # The row has an exit action: the text may end here, or a byte of what follows may come.
        if table.label[row] != DEAD:
            return None
        only = int(table.only[row])
        if only != DEAD:
            return only
        # ONLY of an overlay may be DEAD though one byte is left; that is not searched for.
        high = int(table.high[row])
        if high == UNCOUNTED or state.count < high:
            return None
        # The row counts and the string is as long as it may be. The row still has edges that
        # would make it longer, which ``step`` refuses: often only the closing quote is left.
        live = [byte for byte in table.edges(row) if self.step(state, byte) is not None]
        return live[0] if len(live) == 1 else None

    def check(self) -> None:
        """Raise AssertionError unless the parts agree with each other."""
        self.parts.check()
