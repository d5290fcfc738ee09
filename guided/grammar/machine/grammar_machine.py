"""The recogniser of grammars: it runs a network for all parses of the text at once.

A *configuration* is a set of parses: states of the network, each with the continuation of its rule.
Its states become a row (``grammar_rows``) and its continuations a stack (``continuations``), the
form of a state in all recognisers. Bytes move the row by a table look-up. Only when rules are
entered or left does Python compute the next row and stack; the results are cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.errors import LimitExceededError
from guided.grammar.machine.calls import Calls
from guided.grammar.machine.completions import Completions
from guided.grammar.machine.continuations import (
    END,
    ROOT,
    TRUNCATED,
    UNKNOWN,
    Continuations,
    GrammarStacks,
)
from guided.grammar.machine.grammar_rows import AmbiguousByte, Enter, GrammarRows, Return
from guided.grammar.machine.holes import Holes
from guided.grammar.machine.state_sets import make_item
from guided.grammar.network.network import Network
from guided.machine.parts import MachineParts, Pool, RecognizerLimits
from guided.machine.recognizer import Recognizer, State, StateSharing, state_of
from guided.machine.stack_transitions import NEEDS_EXACT_STATE
from guided.machine.table import TransitionTable
from guided.regular.dfa import DEAD

__all__ = ["MAX_SHORTEST_BYTES", "GrammarMachine"]

MAX_SHORTEST_BYTES: Final = 1_000_000
"""The greatest length in bytes of a grammar's shortest text."""
_KNOWN_CALLERS: Final = 2
"""Callers that a truncated stack keeps: knowing more would leave fewer tokens uncertain, and make
fewer states the same."""


class _KeptStates:
    """The states of a configuration that its rows contain, and these rows by slots."""

    def __init__(self, states: list[int], may_end: bool) -> None:
        self.states: Final = states
        """Sorted, without END: those for which ``Calls.is_kept``."""
        self.may_end: Final = may_end
        """Whether the configuration has END."""
        self.rows: Final[dict[tuple[int, ...], int]] = {}
        """Rows by the slots of ``states``, in their order; a cache of ``_place``."""


class GrammarMachine(Recognizer):
    """Recognises the texts of a network, byte by byte.

    ``table`` may be shared with other machines and has a limit of its own; ``stacks`` is for a
    subclass with other frames, made with ``limits.max_stacks``. ``inner`` are the parts of the
    machines that fill the ``holes`` of the network. Caches stay valid, as the network never
    changes, and rows, labels, stacks and continuations keep their numbers.

    Any method that may add rows raises LimitExceededError past ``limits``; so does the constructor
    if the shortest text is longer than MAX_SHORTEST_BYTES.
    """

    def __init__(
        self,
        network: Network,
        limits: RecognizerLimits | None = None,
        table: TransitionTable | None = None,
        stacks: GrammarStacks | None = None,
        inner: Sequence[MachineParts] = (),
        holes: Holes | None = None,
    ) -> None:
        limits = limits or RecognizerLimits()
        table = TransitionTable(limits.max_cells) if table is None else table
        stacks = GrammarStacks(limits.max_stacks) if stacks is None else stacks
        continuations = Continuations(network, limits.max_stacks)
        pools = [
            Pool("stacks", stacks.frames, limits.max_stacks),
            Pool("continuations", continuations.frames, limits.max_stacks),
        ]
        if holes is not None:
            # As many as a table of ``max_cells`` may take, four bytes a cell.
            pools.append(Pool("KB of names", holes.remembered, limits.max_cells // 250))
        parts = MachineParts(
            table,
            stacks,
            pools,
            "nest less deeply, or make the grammar less ambiguous",
            inner,
            extra_nbytes=lambda: network.nbytes,
        )
        super().__init__(parts)
        self.network = network
        self.stacks = stacks
        self.continuations = continuations
        self.rows = GrammarRows(network, table)
        self.calls = self._make_calls()
        self._resolve_cache: dict[tuple[int, int], tuple[int, int]] = {}
        """Results of ``resolve``, by stack and exit action."""
        self._kept_by_states: dict[tuple[int, ...], _KeptStates] = {}
        """By the states of a configuration, in order."""
        self._truncated = _TruncatedStacks(stacks, continuations)
        self._completions = Completions(network, continuations, holes)
        first = {network.starts[0]: ROOT} if network.starts else {}
        if network.accepts_empty:
            first[END] = ROOT
        elif network.distance[network.starts[0]] > MAX_SHORTEST_BYTES:
            raise LimitExceededError(
                f"the shortest text has {network.distance[network.starts[0]]} bytes,"
                f" more than {MAX_SHORTEST_BYTES}",
                limit=MAX_SHORTEST_BYTES,
                field="constraint",
                hint="lower the least numbers of repeats",
            )
        self.start = self._settle(*self._close_and_place(first))

    def _make_calls(self) -> Calls:
        """Make ``calls``; a subclass may use what ``__init__`` sets before."""
        return Calls(self.network, self.continuations, self.rows)

    @property
    def sharing(self) -> StateSharing:
        """How masks are shared: tokens rarely reach beyond the innermost callers."""
        return self._truncated

    def is_accepting(self, state: State) -> bool:
        """Return whether the text may end here; only for stacks that are not truncated.

        Follows exit actions, as several rules may end one after another.
        """
        at: State | None = state
        while at is not None and at.row not in self.rows.may_end:
            at = self.after_exit(at)
        return at is not None

    def num_states_at_once(self, state: State) -> int:
        """Return how many states of the network the text may be in, at least 1.

        For reports alone (``constraint/inspection.py``).
        """
        return max(1, len(self.rows.items(state.row)))

    # --- transitions ---------------------------------------------------------------------------

    def transition(self, stack: int, action: int) -> tuple[int, int]:
        """Return the stack and the row that an exit action leads to; see ``Recognizer``."""
        settled = self._settle(*self.resolve(stack, action))
        # Beside NEEDS_EXACT_STATE only a row that reads all that may follow would do.
        return settled.stack, DEAD if settled.stack == NEEDS_EXACT_STATE else settled.row

    def after_exit(self, state: State) -> State | None:
        """Return the state after the exit action of the row, ``None`` if it has none."""
        action = int(self.table.label.item(state.row))
        return None if action == DEAD else state_of(*self.resolve(state.stack, action))

    def _enter_row(self, before: State, row: int, byte: int) -> State | None:  # noqa: ARG002
        """Return the state after a byte that leads to ``row``."""
        return self._settle(before.stack, row)

    def _settle(self, stack: int, row: int) -> State:
        """Return the state in a row, after the exit actions of rows that read no byte.

        Results of ``step`` and ``transition`` are settled; those of ``after_exit`` may not be.
        """
        while self.table.exits[row]:
            stack, row = self.resolve(stack, int(self.table.label[row]))
        return state_of(stack, row)

    def resolve(self, stack: int, action: int) -> tuple[int, int]:
        """Return stack and row after an exit action, not settled (``_settle``); cached.

        NEEDS_EXACT_STATE in place of the stack if the result depends on what was truncated.
        """
        found = self._resolve_cache.get((stack, action))
        if found is None:
            found = self._resolve_cache[stack, action] = self._resolve_anew(stack, action)
        return found

    def _resolve_anew(self, stack: int, action: int) -> tuple[int, int]:
        """Compute ``resolve``: an action has slots, and the stack their continuations.

        ``action`` is the label by which the table knows it.
        """
        continuations = self.stacks.frames[stack]
        match self.rows.exit_action(action):
            case Return(slots):
                reached = self.continuations.return_from([continuations[slot] for slot in slots])
            case Enter(items):
                reached = {}
                for state, slot in items:
                    self.continuations.add(reached, state, continuations[slot])
            case AmbiguousByte(items, byte):
                reached = self._after_byte(
                    [(state, continuations[slot]) for state, slot in items], byte
                )
        return self._close_and_place(reached)

    def _after_byte(self, items: list[tuple[int, int]], byte: int) -> dict[int, int]:
        """Return the configuration after a byte, read by the items or after those that end.

        ``items`` are states and continuations, closed under calls; the list is emptied. The result
        is not closed under calls. It is UNKNOWN alone if a continuation was truncated.
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
            returned = self.continuations.return_from([continuation])
            # With a truncated part the whole result is unknown.
            if UNKNOWN in returned:
                return {UNKNOWN: TRUNCATED}
            for item in self.calls.call_closure(returned).items():
                if item not in seen and item[0] != END:
                    seen.add(item)
                    items.append(item)
        return reached

    def _close_and_place(self, configuration: dict[int, int]) -> tuple[int, int]:
        """Return stack and row of a configuration, whose calls are added here.

        NEEDS_EXACT_STATE in place of the stack if the configuration has UNKNOWN; the row is then
        one without an exit action, so that ``_settle`` stops there.
        """
        if UNKNOWN in configuration:
            return NEEDS_EXACT_STATE, self.rows.end
        return self._place(self.calls.call_closure(configuration))

    def _place(self, closure: dict[int, int]) -> tuple[int, int]:
        """Return stack and row of a configuration that is closed under calls.

        The row has the states, sorted, each with the slot of its continuation. Slots are numbered
        in the order of first occurrence, and the stack has the continuations by slot. So
        configurations that differ only in their continuations share a row.
        """
        key = tuple(closure)
        kept = self._kept_by_states.get(key)
        if kept is None:
            states = sorted(state for state in key if state != END and self.calls.is_kept[state])
            kept = self._kept_by_states[key] = _KeptStates(states, END in closure)
        slots: dict[int, int] = {}
        pattern = tuple([slots.setdefault(closure[state], len(slots)) for state in kept.states])
        row = kept.rows.get(pattern)
        if row is None:
            items = [make_item(*item) for item in zip(kept.states, pattern, strict=True)]
            row = kept.rows[pattern] = self.rows.row(tuple(items), may_end=kept.may_end)
        return self.stacks.intern(tuple(slots)), row

    # --- shortest completions ---------------------------------------------------------------

    def bytes_left(self, state: State) -> int:
        """Return an upper bound on the length of ``shortest_completion``."""
        return (
            0
            if state.row in self.rows.may_end
            else self._completions.bytes_left(self.parses(state))
        )

    def shortest_completion(self, state: State) -> bytes:
        """Return the fewest bytes that complete the text; not for truncated stacks."""
        if state.row in self.rows.may_end:
            return b""
        return self._completions.shortest_completion(self.parses(state))

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
    """Shares masks between stacks with the same innermost callers."""

    def __init__(self, stacks: GrammarStacks, continuations: Continuations) -> None:
        self._stacks = stacks
        self._continuations = continuations
        self._cache: dict[int, int] = {}
        """Results of ``truncate``."""

    def truncate(self, stack: int) -> int:
        """Return the stack with only the innermost callers of each continuation."""
        found = self._cache.get(stack)
        if found is None:
            frames, truncate = self._stacks.frames[stack], self._continuations.truncate
            frame = tuple([truncate(continuation, _KNOWN_CALLERS) for continuation in frames])
            found = self._cache[stack] = self._stacks.intern(frame)
        return found
