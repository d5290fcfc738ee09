"""A constraint bound to a vocabulary, and the matchers that walk it."""

from __future__ import annotations

import functools
import threading
import time
from typing import Final

import numpy as np

from guided.errors import TokenRejectedError
from guided.machine.recognizer import Recognizer, State
from guided.masks.binding import TokenBinding
from guided.masks.held_mask import HeldMask
from guided.masks.limits import ConstraintLimits
from guided.masks.mask import Mask, mask_of
from guided.masks.mask_delta import MaskDelta
from guided.masks.mask_keys import MaskKeys
from guided.masks.mask_store import MaskStore
from guided.masks.packed import PackedMachine
from guided.masks.state_masks import StateMasks
from guided.masks.token_completions import TokenCompletions
from guided.masks.token_steps import TokenSteps
from guided.masks.walker import Walker
from guided.runtime.at_drop import AtDrop
from guided.runtime.work_budget import (
    LimitedSteps,
    limited_work,
    pause_if_due,
    take_lock,
    with_pauses,
)
from guided.spec import Forcing, TokenId

__all__ = ["CompiledConstraint", "ConstraintMatcher", "Position"]

_LEAST_BYTES: Final = 50_000
"""About how many bytes a constraint takes besides those that are counted."""
_POSITION_BYTES: Final = 500
_NO_LIMIT: Final = 2**60
_MAX_RUNS: Final = 8
"""Runs cached per position."""
_MAX_UNREAD: Final = 16
"""Tokens that a matcher keeps before it determines the left context after them."""


class Position:
    """A state with its mask and the positions after it, so far as they have been requested.

    In a complete position nothing but an end token may follow; in an accepting one it may.

    Two positions of one constraint are equal when their states are. Everything else follows from
    the state and only saves work: it may be forgotten, or worked out by two threads at once with
    the same result.
    """

    __slots__ = ("after", "has_forced_byte", "held", "is_accepting", "is_complete", "runs", "state")

    def __init__(self, state: State, is_accepting: bool, is_complete: bool) -> None:
        self.state = state
        self.is_accepting = is_accepting
        self.is_complete = is_complete
        self.has_forced_byte: bool | None = None
        """Whether exactly one byte may follow; ``None`` until known."""
        self.held: HeldMask | None = None
        """The mask, once it was requested; the store may have emptied it since."""
        self.after: dict[TokenId, Position] = {}
        """By token; only allowed tokens that were followed."""
        self.runs: dict[bytes, tuple[TokenId, ...]] = {}
        """Canonical runs, by left context (``left_context.py``)."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self.state == other.state

    def __hash__(self) -> int:
        return hash(self.state)


class CompiledConstraint:
    """Shared by all requests with the same constraint; safe to use from several threads."""

    def __init__(
        self,
        machine: Recognizer,
        binding: TokenBinding,
        store: MaskStore,
        limits: ConstraintLimits,
    ) -> None:
        """Take over ``machine``, which no other constraint may use.

        ``PackedMachine`` writes facts to it that hold for this vocabulary only. ``binding`` and
        ``store`` are shared with other constraints.
        """
        self.machine = machine
        self.binding = binding
        # One lock for everything that may make the machine grow: masks, steps and completions.
        self.lock = threading.RLock()
        """Held while the machine may grow."""
        work = limits.step_work, "going on from one position", self.lock
        # Each of these holds the lock while it is entered.
        self._work_limit = limited_work(*work)
        # Most tokens and masks take no work, so it is counted only from ``start_counting`` on.
        self._step_limit = LimitedSteps(*work)
        # Counted although it has no limit, so that it can be done in slices.
        self._completion_limit = limited_work(_NO_LIMIT, "closing", self.lock)
        packed = PackedMachine(machine, binding.texts.quoted, self._step_limit.start_counting)
        keys = MaskKeys(packed, binding.independent)
        self.walker = Walker(
            machine,
            packed,
            keys,
            binding.texts,
            binding.independent,
            binding.scratch,
        )
        self.steps = TokenSteps(machine, packed, binding.texts, binding.trie, binding.scratch)
        ends = np.array(sorted(binding.vocabulary.end_ids), dtype=np.int32)
        self._masks = StateMasks(machine, self.walker, keys, store, ends, self._step_limit)
        self._completions = TokenCompletions(
            machine,
            self.steps,
            binding.trie,
            self._masks,
            limits.max_positions,
        )
        self._counts = store.counts
        self._limits = limits
        self._positions: dict[State, Position] = {}
        # Positions lead back to each other.
        self._at_drop = AtDrop(functools.partial(_unlink, self._positions))

    def start(self) -> ConstraintMatcher:
        """Return the position before the first token."""
        return ConstraintMatcher(self, self.position(self.machine.start))

    def start_after(self, text: str) -> tuple[ConstraintMatcher, int]:
        """Return the position after as much of a text as fits, and how many bytes that is.

        The tokens of the answer follow there. Raises LimitExceededError.
        """
        machine, data = self.machine, text.encode()
        state, count = machine.start, 0
        with limited_work(self._limits.compile_work, "reading what has begun", self.lock):
            for byte in with_pauses(data):
                reached = machine.step(state, byte)
                if reached is None:
                    break
                state, count = reached, count + 1
        context = self.binding.speller.left_context_of(text)
        return ConstraintMatcher(self, self.position(state), (context, ())), count

    def ascii_after(self, state: State) -> list[str]:
        """Return the printable characters of ASCII that may follow; raises LimitExceededError."""
        step = self.machine.step
        with limited_work(self._limits.compile_work, "naming what may follow", self.lock):
            codes = with_pauses(bytes(range(0x20, 0x7F)))
            return [chr(code) for code in codes if step(state, code) is not None]

    @property
    def nbytes(self) -> int:
        """About how many bytes it holds, without masks, which are in the store."""
        positions = _POSITION_BYTES * len(self._positions)
        return _LEAST_BYTES + self.machine.parts.nbytes + positions + self._completions.nbytes

    @property
    def incomplete(self) -> int:
        """How many searches ran out of work or found only some: documents may be missing."""
        return self.machine.parts.num_given_up

    # --- positions ------------------------------------------------------------------------

    def position(self, state: State) -> Position:
        """Return the position of a state, usually the remembered one.

        Makes an equal one if ``max_positions`` made it forget, or if two threads request a
        new one at once. At ``max_positions`` it forgets all positions and walks together; positions
        that matchers hold live on and stay valid.
        """
        # Without the lock first: most positions are known, and reading a dictionary is atomic.
        position = self._positions.get(state)
        if position is None:
            machine = self.machine
            take_lock(self.lock)
            try:
                if len(self._positions) >= self._limits.max_positions:
                    _unlink(self._positions)
                    self._positions.clear()
                    self._masks.clear()
                position = self._positions[state] = Position(
                    state, machine.is_accepting(state), machine.parts.table.is_end(state.row)
                )
            finally:
                self.lock.release()
        return position

    def advance(self, position: Position, token: TokenId) -> Position:
        """Return the position after ``token``; raises TokenRejectedError if it is not allowed.

        End-of-sequence tokens lead nowhere, so they are rejected even if a mask has them. Raises
        LimitExceededError if the machine would grow too large, or the step takes too much work.

        The result is remembered in ``position.after``, where ``ConstraintMatcher.advance`` looks
        first.
        """
        limit = self._step_limit
        limit.enter()
        try:
            reached = self.steps.advance(position.state, token)
        finally:
            limit.leave()
        if reached is None:
            text = self.binding.vocabulary.token_bytes[token]
            spelled = "a special token" if text is None else repr(text)
            raise TokenRejectedError(f"token {token} ({spelled}) is not allowed here", token=token)
        found = position.after[token] = self.position(reached)
        return found

    # --- masks ----------------------------------------------------------------------------

    def mask(self, position: Position) -> MaskDelta:
        """Return the tokens that may follow, from the store if it has them; not to be changed.

        ``position.held`` is set after the call, though the store may empty it at once.
        """
        held = position.held
        if held is not None and (delta := held.delta) is not None:
            held.used = True
            self._counts.hits += 1
            return delta
        counts = self._counts
        limit = self._step_limit
        limit.enter()
        try:
            made, began = counts.made, time.perf_counter_ns()
            held, delta = self._masks.mask(position.state)
            # Most states share the mask of another.
            if counts.made == made:
                counts.hits += 1
            else:
                counts.count_computed(time.perf_counter_ns() - began)
        finally:
            limit.leave()
        position.held = held
        return delta

    # --- the end --------------------------------------------------------------------------

    def mask_within(self, position: Position, budget: int) -> Mask:
        """``mask`` without the tokens after which ending takes more than ``budget - 1`` tokens.

        May leave out a few that would fit: see ``TokenCompletions``. The caller owns the mask.

        ``budget`` counts the next token; ``can_complete_within`` it must be true. Raises
        LimitExceededError if it takes too much work.
        """
        state, mask = position.state, self.mask(position).mask()
        vocabulary = self.binding.vocabulary
        with self._work_limit:
            kept = self._completions.tokens_within(state, mask, budget)
            ends = [*vocabulary.end_ids] if position.is_accepting else []
            if not position.is_accepting:
                # Allow the shortest completion even if the bound was too careful and left it out.
                ends = [*self._completions.keep_shortest(state)[:1]]
            tokens = np.concatenate([*kept, np.array(ends, dtype=np.int64)])
            return mask_of(len(vocabulary), tokens)

    def can_complete_within(self, state: State, budget: int) -> bool:
        """Return whether a way to end within ``budget`` tokens is known, end token not counted.

        False may be wrong: only the shortest ways that were found are tried. Raises
        LimitExceededError.
        """
        limit = self._work_limit
        if state == self.machine.start:
            # The first completion is part of compiling, with its limit and its name in errors; it
            # is found when it is first needed.
            limit = limited_work(self._limits.compile_work, lock=self.lock)
        limit.enter()
        try:
            return self._completions.can_complete_within(state, budget)
        finally:
            limit.leave()

    def shortest_completion(self, state: State) -> tuple[TokenId, ...]:
        """Return tokens that end the document, close to as few as possible.

        Its work is not limited, so that an answer can always be closed. After a call of
        ``can_complete_within``, which does the search within the limit, little work is left.
        """
        with self._completion_limit:
            return self._completions.shortest(state)

    # --- forced runs ----------------------------------------------------------------------

    def canonical_run(self, position: Position, context: bytes) -> tuple[TokenId, ...]:
        """Return the forced tokens from a position on, spelled as the tokenizer spells them.

        Besides the state, the spelling depends only on ``context``, a left context
        (``left_context.py``). The position remembers runs and forgets all of them at ``_MAX_RUNS``,
        which costs only time.
        """
        run = position.runs.get(context)
        if run is None:
            with self._work_limit:
                run = self.binding.speller.run(self.walker, position.state, context)
            if len(position.runs) >= _MAX_RUNS:
                position.runs.clear()
            position.runs[context] = run
        return run

    def has_forced_byte(self, position: Position) -> bool:
        """Return whether only one byte may follow; False may be wrong, see ``only_byte``."""
        if position.has_forced_byte is None:
            self._work_limit.enter()
            try:
                position.has_forced_byte = self.machine.only_byte(position.state) is not None
            finally:
                self._work_limit.leave()
        return position.has_forced_byte

    def likely_run(self, position: Position, context: bytes) -> tuple[TokenId, ...]:
        """Return the tokenizer's spelling of the bytes that must follow, to the last of them."""
        with self._work_limit:
            return self.binding.speller.likely_run(self.walker, position.state, context)


def _unlink(positions: dict[State, Position]) -> None:
    """Have the positions forget each other."""
    for position in positions.values():
        position.after.clear()


class ConstraintMatcher:
    """A position in a document; equal ones have the same masks and runs from there on."""

    __slots__ = ("_answer", "constraint", "position")

    def __init__(
        self,
        constraint: CompiledConstraint,
        position: Position,
        answer: tuple[bytes, tuple[TokenId, ...]] = (b"", ()),
    ) -> None:
        self.constraint: Final = constraint
        self.position: Final = position
        self._answer = answer
        """The left context (``left_context.py``) after the first tokens of the answer, and the
        later tokens, which are not part of it yet."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ConstraintMatcher)
            and self.constraint is other.constraint
            and self.position == other.position
            and self.left_context == other.left_context
        )

    def __hash__(self) -> int:
        return hash((self.position, self.left_context))

    @property
    def left_context(self) -> bytes:
        """What the answer so far means for the spelling of a run; see ``left_context.py``."""
        context, unread = self._answer
        if unread:
            context = self.constraint.binding.speller.left_context(context, unread)
            # One assignment: other threads see the old pair or the new one, which mean the same.
            self._answer = context, ()
        return context

    @property
    def state(self) -> State:
        return self.position.state

    @property
    def is_complete(self) -> bool:
        return self.position.is_complete

    @property
    def is_accepting(self) -> bool:
        return self.position.is_accepting

    def mask(self) -> Mask:
        return self.constraint.mask(self.position).mask()

    def allows(self, token: TokenId) -> bool:
        return self.constraint.mask(self.position).allows(token)

    def advance(self, token: TokenId) -> ConstraintMatcher:
        """See ``Matcher``. The left context after tokens is found later, for several at once."""
        constraint, position = self.constraint, self.position
        reached = position.after.get(token) or constraint.advance(position, token)
        context, unread = self._answer
        if len(unread) == _MAX_UNREAD:
            context, unread = self.left_context, ()
        answer = context, unread + (token,)  # noqa: RUF005 - half the time
        return ConstraintMatcher(constraint, reached, answer)

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:
        """See ``Matcher``: the canonical run if there is one, else tokens allowed alone."""
        if forcing is Forcing.OFF or self.position.is_complete:
            return ()
        if forcing is Forcing.CANONICAL:
            # A choice of bytes is a choice of tokens: every byte is a token. The last of a few
            # names may be the only token, but finding that would take a mask at every position.
            if not self.constraint.has_forced_byte(self.position):
                return ()
            run = self.constraint.canonical_run(self.position, self.left_context)
            if run:
                return run
        return self._only_tokens()

    def likely_run(self) -> tuple[TokenId, ...]:
        if not self.constraint.has_forced_byte(self.position):
            return ()
        return self.constraint.likely_run(self.position, self.left_context)

    def _only_tokens(self) -> tuple[TokenId, ...]:
        """Return the chain of tokens that are each the only one in their mask.

        It stops where the answer may end: an end token may come next there, and in a vocabulary
        that has none, a loop (``a*``) would never stop. So it is finite: from a position where the
        answer may not end, the only token that is allowed leads to the nearest end.
        """
        run: list[TokenId] = []
        constraint, position = self.constraint, self.position
        while (
            not position.is_accepting
            and (token := constraint.mask(position).only_token()) is not None
        ):
            run.append(TokenId(token))
            position = position.after.get(run[-1]) or constraint.advance(position, run[-1])
            pause_if_due()
        return tuple(run)

    def shortest_completion(self) -> tuple[TokenId, ...]:
        return self.constraint.shortest_completion(self.state)

    def can_complete_within(self, budget: int) -> bool:
        return self.constraint.can_complete_within(self.state, budget)

    def mask_within(self, budget: int) -> Mask:
        return self.constraint.mask_within(self.position, budget)
