"""The recogniser of grammars: a network of automata, run for all parses of the text at once.

A *configuration* is a set of states of the network, each with the continuation that follows its
rule. Split into the states (a row, see ``grammar_rows``) and the continuations (a stack, see
``continuations``) it is a state of the form that all recognisers have: bytes move the row by a
table look-up, and Python computes the next row and stack, once, only when rules are entered or
left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.errors import LimitExceededError
from guided.grammar.machine.calls import Calls
from guided.grammar.machine.completions import Completions
from guided.grammar.machine.continuations import (
    CUT,
    END,
    ROOT,
    UNKNOWN,
    Continuations,
    GrammarStacks,
)
from guided.grammar.machine.grammar_rows import AmbiguousByte, Enter, GrammarRows, Return
from guided.grammar.machine.state_sets import item_of
from guided.grammar.network.network import Network
from guided.machine.parts import MachineParts, Pool, RecognizerLimits
from guided.machine.pushdown import PushdownMachine
from guided.machine.recognizer import State, StateSharing, state_of
from guided.machine.stack_transitions import EXACT
from guided.machine.table import TransitionTable
from guided.regular.dfa import DEAD

__all__ = ["MAX_SHORTEST_BYTES", "GrammarMachine"]

MAX_SHORTEST_BYTES: Final = 1_000_000
"""The greatest length of a shortest completion that is still written."""


class _KeptStates:
    """The states of a set that are kept in its row, and the rows by the slots of these states."""

    def __init__(self, states: list[int], may_end: bool) -> None:
        self.states: Final = states
        """Sorted, without END: the states of the set that ``Calls.is_kept``."""
        self.may_end: Final = may_end
        """Whether END was in the set."""
        self.rows: Final[dict[tuple[int, ...], int]] = {}
        """By the slots of ``states``, in their order; filled by ``_placed``."""


class GrammarMachine(PushdownMachine):
    """Recognises the texts of a network, byte by byte.

    Raises LimitExceededError, from any method that may lay down rows, past ``limits``, and when it
    is made where the shortest text is longer than MAX_SHORTEST_BYTES. ``table`` and ``stacks`` are
    given where others use them too: what these have laid down there keeps its numbers, and the
    bounds are those that they were made with. ``inner`` are the parts of machines that read in the
    holes of the network. What is kept (``_resolved`` and others) stays right, as the network never
    changes, and rows, labels, stacks and continuations keep their numbers.
    """

    def __init__(
        self,
        network: Network,
        limits: RecognizerLimits | None = None,
        table: TransitionTable | None = None,
        stacks: GrammarStacks | None = None,
        inner: Sequence[MachineParts] = (),
    ) -> None:
        limits = limits or RecognizerLimits()
        table = TransitionTable(limits.max_cells) if table is None else table
        stacks = GrammarStacks(limits.max_stacks) if stacks is None else stacks
        continuations = Continuations(network, limits.max_stacks)
        parts = MachineParts(
            table,
            stacks,
            [
                Pool("stacks", stacks.frames, limits.max_stacks),
                Pool("continuations", continuations.frames, limits.max_stacks),
            ],
            "nest less deeply, or make the grammar less ambiguous",
            inner,
            beside=lambda: network.nbytes,
        )
        # Until ``sharing`` is set below: ``_shared`` may read what is set before it.
        super().__init__(parts, StateSharing())
        self.network = network
        self.stacks = stacks
        self.continuations = continuations
        self.rows = GrammarRows(network, table)
        self.calls = self._made_calls()
        self._resolved: dict[tuple[int, int], tuple[int, int]] = {}
        """The results of ``resolve`` by stack and exit action."""
        self._kept: dict[tuple[int, ...], _KeptStates] = {}
        """By states, those that their row has."""
        self.sharing = self._shared()
        self._completions = self._made_completions()
        first = {network.starts[0]: ROOT} if network.starts else {}
        if network.accepts_nothing:
            first[END] = ROOT
        elif network.left[network.starts[0]] > MAX_SHORTEST_BYTES:
            raise LimitExceededError(
                f"the shortest text has {network.left[network.starts[0]]} bytes,"
                f" more than {MAX_SHORTEST_BYTES}",
                limit=MAX_SHORTEST_BYTES,
                field="constraint",
                hint="lower the least numbers of repeats",
            )
        self.start = self._settled(*self._started(first))

    # Subclasses may replace these three; each may use what ``__init__`` sets before it.

    def _made_calls(self) -> Calls:
        return Calls(self.network, self.continuations, self.rows)

    def _shared(self) -> StateSharing:
        """Return what states have in common: tokens rarely reach beyond the innermost callers."""
        return _TruncatedStacks(self)

    def _made_completions(self) -> Completions:
        return Completions(self.network, self.continuations)

    def is_accepting(self, state: State) -> bool:
        """Return whether the text may end here; only for whole stacks, see ``_started``.

        It may also if exit actions lead to a row in which it may: rules that end one after
        another.
        """
        at: State | None = state
        while at is not None and at.row not in self.rows.may_end:
            at = self.after_exit(at)
        return at is not None

    def num_parses(self, state: State) -> int:
        """Return how many states of the network the text may be in, counting its end as one."""
        return max(1, len(self.rows.items(state.row)))

    # --- transitions ---------------------------------------------------------------------------

    def transition(self, stack: int, action: int) -> tuple[int, int]:
        """Return the stack and the row that an exit action leads to; see ``Recognizer``."""
        settled = self._settled(*self.resolve(stack, action))
        return settled.stack, settled.row

    def after_exit(self, state: State) -> State | None:
        """Return the state after the exit action of the row, ``None`` if it has none."""
        action = int(self.table.label.item(state.row))
        return None if action == DEAD else state_of(*self.resolve(state.stack, action))

    def _entered(self, before: State, row: int, byte: int) -> State | None:  # noqa: ARG002
        """Return the state after any byte that leads to a row of an automaton."""
        return self._settled(before.stack, row)

    def _settled(self, stack: int, row: int) -> State:
        """Return the state in a row, after all exit actions that have to be taken at once.

        Those are the actions of rows that read no byte. ``step`` and ``transition`` lead to rows
        after them; ``after_exit`` does not.
        """
        while self.table.exits[row]:
            stack, row = self.resolve(stack, int(self.table.label[row]))
        return state_of(stack, row)

    def resolve(self, stack: int, action: int) -> tuple[int, int]:
        """Return stack and row after an exit action; EXACT where the stack is truncated there.

        The row may be one that reads no byte, see ``_settled``. Results are kept for each stack and
        action.
        """
        found = self._resolved.get((stack, action))
        if found is None:
            found = self._resolved[stack, action] = self._resolved_anew(stack, action)
        return found

    def _resolved_anew(self, stack: int, action: int) -> tuple[int, int]:
        """Compute ``resolve``.

        The meaning of an action names slots; the stack says which continuation each slot holds.
        """
        meaning = self.rows.meaning(action)
        continuations = self.stacks.frames[stack]
        match meaning:
            case Return(slots):
                reached = self.continuations.returned([continuations[slot] for slot in slots])
            case Enter(items):
                reached = {}
                for state, slot in items:
                    self.continuations.add(reached, state, continuations[slot])
            case AmbiguousByte(items, byte):
                reached = self._after_byte(
                    [(state, continuations[slot]) for state, slot in items], byte
                )
        return self._started(reached)

    def _after_byte(self, items: list[tuple[int, int]], byte: int) -> dict[int, int]:
        """Return where a byte leads from the items, and from what may follow those that end.

        ``items`` are states with their continuations, in which all calls have begun; the list is
        used up. If a continuation was cut off, the result is only that it is unknown. Calls that
        begin after the byte still have to be added.
        """
        reached: dict[int, int] = {}
        column = self.network.byte_class.item(byte)
        seen = set(items)
        while items:
            state, continuation = items.pop()
            target = self.network.moves.item(state, column)
            if target != DEAD:
                self.continuations.add(reached, target, continuation)
            if not self.calls.accepting[state]:
                continue
            returned = self.continuations.returned([continuation])
            # A part of the result is cut off, so the whole of it is not known.
            if UNKNOWN in returned:
                return {UNKNOWN: CUT}
            for item in self.calls.with_calls(returned).items():
                if item not in seen and item[0] != END:
                    seen.add(item)
                    items.append(item)
        return reached

    def _started(self, configuration: dict[int, int]) -> tuple[int, int]:
        """Return stack and row of a configuration, including calls that begin in it.

        EXACT replaces the stack where the configuration is not known; the row beside it, that of
        the end, then means nothing.
        """
        if UNKNOWN in configuration:
            return EXACT, self.rows.end
        return self._placed(self.calls.with_calls(configuration))

    def _placed(self, closed: dict[int, int]) -> tuple[int, int]:
        """Return stack and row of a configuration in which all calls have begun.

        The row has the states, sorted, and for each the slot of its continuation. Slots are
        numbered as they first come up in that order, and the stack is the continuations by slot.
        So configurations that differ only in their continuations share a row, which is kept by the
        states and their slots.
        """
        key = tuple(closed)
        kept = self._kept.get(key)
        if kept is None:
            states = sorted(state for state in key if state != END and self.calls.is_kept[state])
            kept = self._kept[key] = _KeptStates(states, END in closed)
        slots: dict[int, int] = {}
        pattern = tuple([slots.setdefault(closed[state], len(slots)) for state in kept.states])
        row = kept.rows.get(pattern)
        if row is None:
            items = [item_of(*item) for item in zip(kept.states, pattern, strict=True)]
            row = kept.rows[pattern] = self.rows.row(tuple(items), may_end=kept.may_end)
        return self.stacks.of(tuple(slots)), row

    # --- shortest completions ---------------------------------------------------------------

    def bytes_left(self, state: State) -> int:
        """Return an upper bound on the length of ``shortest_completion``."""
        return 0 if state.row in self.rows.may_end else self._completions.left(self.parses(state))

    def shortest_completion(self, state: State) -> bytes:
        """Return the fewest bytes that complete the text from here; only for whole stacks."""
        if state.row in self.rows.may_end:
            return b""
        return self._completions.shortest(self.parses(state))

    def parses(self, state: State) -> list[tuple[int, int]]:
        """Return the states of the network that the text may be in, each with its continuation."""
        continuations = self.stacks.frames[state.stack]
        return [(at, continuations[slot]) for at, slot in self.rows.items(state.row)]

    # --- parts ----------------------------------------------------------------------------

    def check(self) -> None:
        """Raise AssertionError unless network, table, stacks and transitions agree."""
        self.network.check()
        self.rows.check()
        self.parts.check()
        for frames in self.continuations.frames[1:]:
            assert all(UNKNOWN <= state < len(self.network) for state in frames)


class _TruncatedStacks(StateSharing):
    """Stacks in which only the innermost callers are known: few of them, each for many stacks."""

    def __init__(self, machine: GrammarMachine) -> None:
        self._machine = machine
        self._truncated: dict[tuple[int, int], int] = {}
        """By stack and depth; what is kept stays right, as stacks never change."""

    def truncated(self, stack: int, depth: int) -> int:
        """Return the stack with only the innermost ``depth`` callers known."""
        found = self._truncated.get((stack, depth))
        if found is None:
            stacks, continuations = self._machine.stacks, self._machine.continuations
            cut = tuple([continuations.cut(each, depth) for each in stacks.frames[stack]])
            found = self._truncated[stack, depth] = stacks.of(cut)
        return found
