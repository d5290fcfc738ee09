"""The recogniser of stack-free grammars: a network of automata, run for all its readings at once.

A *configuration* is a set of states of the network, each with the continuation that follows its
rule. Split into the states (a row, see ``grammar_rows``) and the continuations (a stack, see
``continuations``) it is a state as all recognisers have them: bytes move the row by a table look-up
and only where rules are entered or left Python works out the row and the stack behind, once.
"""

from __future__ import annotations

import heapq
from typing import Final, TypeAlias

from guided.errors import LimitExceededError
from guided.grammar.machine.continuations import (
    CUT,
    END,
    ROOT,
    UNKNOWN,
    Continuations,
    GrammarStacks,
)
from guided.grammar.machine.grammar_rows import Both, Enter, GrammarRows, Return
from guided.grammar.machine.state_sets import item_of
from guided.grammar.network.first_and_follow import call_order
from guided.grammar.network.network import Network
from guided.machine.limits import RecognizerLimits
from guided.machine.recognizer import State, state_of
from guided.machine.stack_transitions import EMPTY_SLOT, EXACT, KEY, ROW, TARGET, StackTransitions
from guided.machine.table import TransitionTable
from guided.regular.dfa import DEAD
from guided.runtime.fuel import spend

__all__ = ["MAX_SHORTEST_BYTES", "GrammarMachine"]

MAX_SHORTEST_BYTES: Final = 1_000_000
"""Length of a way out that is still written."""


_BegunCall: TypeAlias = tuple[int, list[tuple[int, int]]]
"""The first state of a rule, and the states that call it with those that each call returns to."""


class _KeptStates:
    """The states of a set that are kept in its row, and the rows by the slots of each of them."""

    def __init__(self, states: list[int], may_end: bool) -> None:
        self.states: Final = states
        self.may_end: Final = may_end
        self.rows: Final[dict[tuple[int, ...], int]] = {}


class GrammarMachine:
    """Recognises the texts of a network, byte by byte.

    Not thread-safe. Raises LimitExceededError, from any method that may lay down rows, past
    ``limits``, and where the shortest text is longer than MAX_SHORTEST_BYTES.
    """

    def __init__(
        self,
        network: Network,
        limits: RecognizerLimits | None = None,
        table: TransitionTable | None = None,
    ) -> None:
        limits = limits or RecognizerLimits()
        self.network = network
        self.table = TransitionTable(limits.max_cells) if table is None else table
        self.transitions = StackTransitions()
        self.stacks = GrammarStacks(limits.max_stacks)
        self.continuations = Continuations(network, limits.max_stacks)
        self.rows = GrammarRows(network, self.table)
        self._ranks = {network.starts[rule]: rank for rank, rule in enumerate(call_order(network))}
        # Plain lists: transitions ask about few states, and numpy takes long to answer for one.
        reads = (network.moves != DEAD).any(axis=1)
        self._accepting: list[bool] = network.accepting.tolist()
        self._is_kept: list[bool] = (network.accepting | reads).tolist()
        self._only_ends: list[bool] = (network.accepting & ~reads & ~self.rows.calling).tolist()
        self._resolved: dict[tuple[int, int], tuple[int, int]] = {}
        self._begun: dict[tuple[int, ...], list[_BegunCall]] = {}
        """By states the calls that begin in them."""
        self._kept: dict[tuple[int, ...], _KeptStates] = {}
        """By states those that their row has."""
        self._tops: dict[tuple[int, int], int] = {}
        """By stack and depth the stack with what is further away cut off."""
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
        self.start = self._settled(*self._entered(first))

    # --- moving ---------------------------------------------------------------------------

    def step(self, state: State, byte: int) -> State | None:
        """The state behind ``byte``, ``None`` where it is not allowed; may lay down rows."""
        at: State | None = state
        while at is not None:
            target = self.table.step(at.row, byte)
            if target != DEAD:
                return self._settled(at.stack, target)
            # The byte may belong to what follows the rules that end here, however many.
            at = self._behind_label_of(at)
        return None

    def advance(self, state: State, text: bytes) -> State | None:
        """The state behind all bytes of ``text``, ``None`` where one is not allowed."""
        current: State | None = state
        for byte in text:
            if current is None:
                return None
            current = self.step(current, byte)
        return current

    def beneath(self, state: State, row: int) -> State:
        """The state in another row of the same stack."""
        return state._replace(row=row)

    def readings(self, state: State) -> tuple[State, ...]:  # noqa: ARG002 - there is but one
        """None: a state is gone on from by itself."""
        return ()

    def top(self, stack: int, depth: int) -> int:
        """The stack with only the innermost ``depth`` callers known."""
        top = self._tops.get((stack, depth))
        if top is None:
            continuations = self.stacks.frames[stack]
            cut = tuple([self.continuations.cut(each, depth) for each in continuations])
            top = self._tops[stack, depth] = self.stacks.of(cut)
        return top

    def beyond(self, state: State) -> State:
        """The state behind the label of a row that has one."""
        label = self.table.label.item(state.row)
        return self._settled(*self.resolve(state.stack, label))

    def is_complete(self, state: State) -> bool:
        """Whether the text is complete and nothing may follow."""
        return state.row == self.rows.end

    def is_accepting(self, state: State) -> bool:
        """Whether the text may end here."""
        at: State | None = state
        while at is not None and at.row not in self.rows.may_end:
            at = self._behind_label_of(at)
        return at is not None

    def only_byte(self, state: State) -> int | None:
        """The one byte that may follow, ``None`` where there is a choice or the text may end."""
        only = int(self.table.only[state.row])
        return None if only == DEAD or self.table.label[state.row] != DEAD else only

    def num_readings(self, state: State) -> int:
        """How many states of the network the text may be in, its end counted as one."""
        return max(1, len(self.rows.items(state.row)))

    def free_keys_of(self, stack: int) -> set[bytes]:  # noqa: ARG002 - no stack has any
        """Names that must not come again: a grammar knows none."""
        return set()

    @property
    def incomplete(self) -> int:
        """Nothing is searched for, so no text can be missing."""
        return 0

    @property
    def fullness(self) -> float:
        """The share of its limits that the machine has grown to; it never shrinks."""
        return max(
            self.table.num_cells / self.table.max_cells,
            len(self.stacks) / self.stacks.most,
            len(self.continuations) / self.continuations.most,
        )

    @property
    def is_half_full(self) -> bool:
        """Whether the machine has grown to half of its limits; asked for every mask."""
        return (
            2 * self.table.num_cells > self.table.max_cells
            or 2 * len(self.stacks.frames) > self.stacks.most
            or 2 * len(self.continuations.frames) > self.continuations.most
        )

    def check_room(self) -> None:
        """Raise LimitExceededError when the rest of the limits is needed to end texts."""
        if self.is_half_full:
            raise LimitExceededError(
                f"the recogniser has {self.table.num_cells} cells, {len(self.stacks)} stacks"
                f" and {len(self.continuations)} continuations, and may have half of"
                f" {self.table.max_cells}, {self.stacks.most} and {self.continuations.most}",
                limit=self.table.max_cells,
                field="constraint",
                hint="nest less deeply, or make the grammar less ambiguous",
            )

    # --- transitions ---------------------------------------------------------------------------

    def remember_transition(self, stack: int, label: int) -> None:
        """Enter what ``resolve`` says into the table that walks read."""
        settled = self._settled(*self.resolve(stack, label))
        self.transitions.put(stack, label, settled.stack, settled.row)

    def _settled(self, stack: int, row: int) -> State:
        """The state in a row, behind all labels that have to be taken at once."""
        while self.table.exits[row]:
            stack, row = self.resolve(stack, int(self.table.label[row]))
        return state_of(stack, row)

    def _behind_label_of(self, state: State) -> State | None:
        """The state behind the label of a row, ``None`` where it has none."""
        label = int(self.table.label.item(state.row))
        return None if label == DEAD else state_of(*self.resolve(state.stack, label))

    def resolve(self, stack: int, label: int) -> tuple[int, int]:
        """The stack and the row behind a label."""
        found = self._resolved.get((stack, label))
        if found is None:
            found = self._resolved[stack, label] = self._resolved_anew(stack, label)
        return found

    def _resolved_anew(self, stack: int, label: int) -> tuple[int, int]:
        meaning = self.rows.meaning(label)
        continuations = self.stacks.frames[stack]
        match meaning:
            case Return(slots):
                reached = self._returned([continuations[slot] for slot in slots])
            case Enter(items):
                reached = {}
                for state, slot in items:
                    self.continuations.add(reached, state, continuations[slot])
            case Both(items, byte):
                reached = self._behind_byte(
                    [(state, continuations[slot]) for state, slot in items], byte
                )
        return self._entered(reached)

    def _returned(self, ended: list[int]) -> dict[int, int]:
        """Where rules with these continuations return to."""
        reached: dict[int, int] = {}
        for continuation in ended:
            for state, behind in self.continuations.frames[continuation].items():
                self.continuations.add(reached, state, behind)
        return reached

    def _behind_byte(self, items: list[tuple[int, int]], byte: int) -> dict[int, int]:
        """Where a byte leads from the items, and from what may follow those that end."""
        reached: dict[int, int] = {}
        column = self.network.byte_class.item(byte)
        seen = set(items)
        while items:
            state, continuation = items.pop()
            target = self.network.moves.item(state, column)
            if target != DEAD:
                self.continuations.add(reached, target, continuation)
            if not self._accepting[state]:
                continue
            returned = self._returned([continuation])
            if UNKNOWN in returned:
                return {UNKNOWN: CUT}
            for item in self._with_calls(returned).items():
                if item not in seen and item[0] != END:
                    seen.add(item)
                    items.append(item)
        return reached

    def _entered(self, configuration: dict[int, int]) -> tuple[int, int]:
        """Stack and row of a configuration, calls that begin in it included.

        In place of the stack EXACT where the configuration is not known.
        """
        if UNKNOWN in configuration:
            return EXACT, self.rows.end
        return self._placed(self._with_calls(configuration))

    def _placed(self, closed: dict[int, int]) -> tuple[int, int]:
        """Stack and row of a configuration in which no call is still to begin."""
        key = tuple(closed)
        kept = self._kept.get(key)
        if kept is None:
            states = sorted(state for state in key if state != END and self._is_kept[state])
            kept = self._kept[key] = _KeptStates(states, END in closed)
        slots: dict[int, int] = {}
        pattern = tuple([slots.setdefault(closed[state], len(slots)) for state in kept.states])
        row = kept.rows.get(pattern)
        if row is None:
            items = [item_of(*item) for item in zip(kept.states, pattern, strict=True)]
            row = kept.rows[pattern] = self.rows.row(tuple(items), may_end=kept.may_end)
        return self.stacks.of(tuple(slots)), row

    def _with_calls(self, configuration: dict[int, int]) -> dict[int, int]:
        """A configuration with the rules that are called in it before another byte is read.

        All who call a rule share its continuation.
        """
        spend(5 + len(configuration))
        key = tuple(configuration)
        begun = self._begun.get(key)
        if begun is None:
            begun = self._begun[key] = self._calls_begun(key)
        continuations, closed = self.continuations, dict(configuration)
        for start, callers in begun:
            frames: dict[int, int] = {}
            for caller, target in callers:
                behind = closed[caller]
                if self._only_ends[target]:
                    # The caller ends with the call: what follows it follows the call.
                    for frame in continuations.frames[behind].items():
                        continuations.add(frames, *frame)
                else:
                    continuations.add(frames, target, behind)
            continuations.add(closed, start, continuations.of(frames))
        return closed

    def _calls_begun(self, states: tuple[int, ...]) -> list[_BegunCall]:
        """The calls that begin in a set of states, each rule's behind all who may call it."""
        ranks = self._ranks
        begun: list[_BegunCall] = []
        callers: dict[int, list[tuple[int, int]]] = {}
        starts = [(ranks[state], state) for state in states if state in ranks]
        heapq.heapify(starts)
        for state in states:
            if state != END and state not in ranks:
                self._call(state, callers, starts)
        done: set[int] = set()
        while starts:
            _, start = heapq.heappop(starts)
            if start not in done:
                done.add(start)
                if start in callers:
                    begun.append((start, callers[start]))
                self._call(start, callers, starts)
        return begun

    def _call(
        self, state: int, callers: dict[int, list[tuple[int, int]]], starts: list[tuple[int, int]]
    ) -> None:
        """Begin the calls of a state: note it among the callers of each rule."""
        network = self.network
        for rule, target in network.calls[state]:
            start = network.starts[rule]
            if start not in callers:
                callers[start] = []
                heapq.heappush(starts, (self._ranks[start], start))
            callers[start].append((state, target))

    # --- the way out ----------------------------------------------------------------------

    def bytes_left(self, state: State) -> int:
        """The length of ``shortest_end``."""
        if state.row in self.rows.may_end:
            return 0
        left = self.continuations.left_behind
        return min(left(*item) for item in self._configuration(state))

    def _configuration(self, state: State) -> list[tuple[int, int]]:
        continuations = self.stacks.frames[state.stack]
        return [(at, continuations[slot]) for at, slot in self.rows.items(state.row)]

    def shortest_end(self, state: State) -> bytes:
        """The fewest bytes that complete the text from here."""
        if state.row in self.rows.may_end:
            return b""
        left = self.continuations.left_behind
        return self._way_out(*min(self._configuration(state), key=lambda item: (left(*item), item)))

    def _way_out(self, at: int, continuation: int) -> bytes:
        """The fewest bytes from a state to the end of the text."""
        network, continuations = self.network, self.continuations
        text = bytearray()
        returns: list[int] = []
        while at != END:
            way = network.way(at)
            if at >= network.first_hole:
                text += self._hole_text(at)
            if way is None and returns:
                at = returns.pop()
            elif way is None:
                at, continuation = continuations.best(continuation)
            elif way.rule is not None:
                returns.append(way.target)
                at = network.starts[way.rule]
            else:
                assert way.byte is not None, at
                text.append(way.byte)
                at = way.target
            spend(1)
        return bytes(text)

    def _hole_text(self, state: int) -> bytes:
        """The shortest text that fills a hole."""
        raise AssertionError(f"nobody fills the hole at {state}")

    # --- parts ----------------------------------------------------------------------------

    def check(self) -> None:
        """Raise AssertionError unless network, table, stacks and transitions agree."""
        self.network.check()
        self.table.check()
        self.rows.check()
        slots = self.transitions.slots
        used = slots[slots[:, KEY] != EMPTY_SLOT]
        assert len(used) == len(self.transitions), (len(used), len(self.transitions))
        assert (used[:, TARGET] < len(self.stacks)).all()
        assert (used[:, ROW] < self.table.num_rows).all()
        for frames in self.continuations.frames[1:]:
            assert all(UNKNOWN <= state < len(self.network) for state in frames)
