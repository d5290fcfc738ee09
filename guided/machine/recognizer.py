"""What masks, forced runs and matchers need from a machine that recognises texts byte by byte.

A *state* of a machine is a stack and a row of its transition table::

    stack ── what is open around the place in the text, a number (``StackTable``)
    row ──── the state of an automaton, a row of the table (``TransitionTable``)
      ├ byte ──────── another row of the same automaton; the stack stays
      └ exit action ─ the automaton may end here: (stack, action) → (stack, row), a *transition*

``pushdown.PushdownMachine`` implements what all machines share.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from guided.machine.parts import MachineParts

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


class Recognizer(Protocol):
    """A machine whose states are a stack and a row of its table.

    It may grow with every call, and raises LimitExceededError if it would grow too large.
    """

    start: State
    parts: MachineParts
    sharing: StateSharing

    def advance(self, state: State, text: bytes) -> State | None:
        """Return the state after all bytes of ``text``, ``None`` if one is not allowed."""
        ...

    def transition(self, stack: int, action: int) -> tuple[int, int]:
        """Return the stack and the row that an exit action leads to.

        The row is DEAD if the action must not be taken. NEEDS_EXACT_STATE in place of the stack
        means that the result depends on a text that was written, or on what was cut off a truncated
        stack: callers look at this first, and the row beside it means nothing. The result is
        cached, so it must depend on stack and action alone.
        """
        ...

    def is_accepting(self, state: State) -> bool:
        """Return whether the text may end here."""
        ...

    def only_byte(self, state: State) -> int | None:
        """Return the one byte that may follow, ``None`` if there is a choice or the text may end.

        May also be ``None`` if only looking at every byte would show that there is one.
        """
        ...

    def bytes_left(self, state: State) -> int:
        """Return an upper bound on the length of ``shortest_completion``."""
        ...

    def shortest_completion(self, state: State) -> bytes:
        """Return bytes that complete the text from here, close to as few as possible."""
        ...


class StateSharing:
    """Relates the states of a machine whose masks have parts in common.

    This class knows of nothing in common; machines that know more override its methods.
    """

    def parses(self, state: State) -> tuple[State, ...]:  # noqa: ARG002 - there is but one
        """Return the parses of an ambiguous state: states that together allow what it allows.

        Empty, as for most states, if its mask is best made as a whole.
        """
        return ()

    def overlaid_state(self, state: State, row: int) -> State:
        """Return the state in ``row``, which the row of ``state`` is an overlay of.

        Its stack has the same continuations from there.
        """
        return state._replace(row=row)

    def truncate(self, stack: int, depth: int) -> int:  # noqa: ARG002 - it is whole
        """Return the stack with only the ``depth`` innermost callers, the same for many stacks.

        What a walk finds certain there also holds in ``stack``, except for the end of the text.
        """
        return stack
