"""The pushdown machine that all recognisers are: automata over bytes, and a stack around them.

A byte moves the row by a table look-up. When an automaton ends, its *exit action* is taken, which
pushes or pops the stack and determines the row where the next automaton begins. Subclasses define
the frames of a stack and what exit actions do to them; everything else is here.
"""

from __future__ import annotations

from guided.machine.parts import MachineParts
from guided.machine.recognizer import State, StateSharing
from guided.machine.table import CLOSE_STRING, CODE_POINT_END, START, UNCOUNTED, TransitionTable
from guided.regular.dfa import DEAD

__all__ = ["PushdownMachine"]


class PushdownMachine:
    """A ``Recognizer`` but for its frames: subclasses set ``start`` and the abstract methods.

    Not thread-safe: it grows while texts are read.
    """

    start: State

    def __init__(self, parts: MachineParts, sharing: StateSharing) -> None:
        self.parts = parts
        self.sharing = sharing
        self.table: TransitionTable = parts.table

    # --- abstract -----------------------------------------------------------------------------

    def transition(self, stack: int, action: int) -> tuple[int, int]:
        """Return the stack and the row that an exit action leads to; see ``Recognizer``."""
        raise NotImplementedError

    def after_exit(self, state: State) -> State | None:
        """Return the state after the exit action of the row.

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
        """Return the state after a byte that leads from the row of ``before`` to ``row``.

        Exit actions that have to be taken at once are taken.
        """
        raise NotImplementedError

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

        ``machine_kernels.after_byte`` does the same in compiled code: change both or none.
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

    def is_complete(self, state: State) -> bool:
        """Return whether the text is complete and nothing may follow."""
        return self.table.is_end(state.row)

    def check(self) -> None:
        """Raise AssertionError unless the parts agree with each other."""
        self.parts.check()
