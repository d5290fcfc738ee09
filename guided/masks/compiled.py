"""A constraint bound to a vocabulary, and the matchers that walk it."""

from __future__ import annotations

import threading
from typing import Final

import numpy as np

from guided.errors import TokenRejectedError
from guided.machine.recognizer import Recognizer, State
from guided.masks.binding import TokenBinding
from guided.masks.endings import Endings
from guided.masks.forced import BoundMachine
from guided.masks.held_mask import HeldMask
from guided.masks.limits import ConstraintLimits
from guided.masks.mask import Mask, mask_of
from guided.masks.mask_delta import MaskDelta
from guided.masks.mask_keys import MaskKeys
from guided.masks.mask_store import MaskStore
from guided.masks.packed import PackedMachine
from guided.masks.state_masks import StateMasks
from guided.masks.token_steps import TokenSteps
from guided.masks.walker import Walker
from guided.runtime.fuel import LimitedSteps, limited_work, take_lock
from guided.spec import Forcing, TokenId

__all__ = ["CompiledConstraint", "ConstraintMatcher", "Position"]

_LEAST_BYTES: Final = 50_000
"""What one holds however small it is, beside what is counted of it."""
_POSITION_BYTES: Final = 500
_NO_LIMIT: Final = 2**60
_MAX_RUNS: Final = 8
"""Runs remembered in one position."""
_MAX_UNREAD: Final = 16
"""Tokens that a matcher keeps before it looks what they mean for the spelling of a run."""


class Position:
    """A state with its mask and the positions after it, as far as somebody asked for them.

    Equal when the states are. The rest follows from the state and only saves work: it may be
    forgotten, or be worked out by two threads at once, and comes out the same.
    """

    __slots__ = ("after", "forces", "held", "is_accepting", "is_complete", "runs", "state")

    def __init__(self, state: State, is_accepting: bool, is_complete: bool) -> None:
        self.state = state
        self.is_accepting = is_accepting
        self.is_complete = is_complete
        self.forces: bool | None = None
        """Whether a byte has to follow that there is no choice about; ``None`` for not known."""
        self.held: HeldMask | None = None
        """The mask, if one was asked for; the store may have emptied it since."""
        self.after: dict[TokenId, Position] = {}
        """By token; only tokens that are allowed, and that somebody has gone on by."""
        self.runs: dict[bytes, tuple[TokenId, ...]] = {}
        """Canonical runs, by what the text before them means for their spelling."""

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
        """Take over ``machine``: no other constraint may have it, as ``PackedMachine`` writes to
        its facts what only this vocabulary tells. ``binding`` and ``store`` are shared with
        others.
        """
        self.machine = machine
        self.binding = binding
        # One lock for all that may make the machine grow: masks, steps and completions.
        self.lock = threading.RLock()
        """Held while the machine may grow."""
        work = limits.step_work, "going on from one position", self.lock
        # Each of these holds the lock while it is entered.
        self._working = limited_work(*work)
        # Tokens and masks, most of which take no work: it is counted from ``begin`` on.
        self._stepping = LimitedSteps(*work)
        # Counted all the same, so that it can be done in slices.
        self._closing = limited_work(_NO_LIMIT, "closing", self.lock)
        packed = PackedMachine(machine, binding.texts.quoted, self._stepping.begin)
        keys = MaskKeys(packed, binding.independent)
        self.walker = Walker(
            machine,
            packed,
            keys,
            binding.texts,
            binding.independent,
            binding.white_space,
            binding.scratch,
        )
        self.steps = TokenSteps(machine, packed, binding.texts, binding.trie, binding.scratch)
        ends = np.array(sorted(binding.vocabulary.end_ids), dtype=np.int32)
        self._masks = StateMasks(machine, self.walker, keys, store, ends, self._stepping)
        self._endings = Endings(
            machine,
            self.steps,
            binding.trie,
            lambda state: self._masks.mask(state)[1],
            limits.max_positions,
        )
        self._bound = BoundMachine(machine, self.steps, self.walker)
        self._limits = limits
        self._positions: dict[State, Position] = {}

    def start(self) -> ConstraintMatcher:
        """The position before the first token."""
        return ConstraintMatcher(self, self.position(self.machine.start))

    @property
    def nbytes(self) -> int:
        """What it holds in bytes, about; masks are in the store that all constraints share."""
        positions = _POSITION_BYTES * len(self._positions)
        return _LEAST_BYTES + self.machine.parts.nbytes + positions + self._endings.nbytes

    @property
    def incomplete(self) -> int:
        """Places where the search for an end ran out of fuel, so that documents may be missing."""
        return self.machine.parts.num_given_up

    # --- positions ------------------------------------------------------------------------

    def position(self, state: State) -> Position:
        """The position of a state, mostly the one that is there.

        Another one, which is equal, is made once too many have been asked for, and where two
        threads ask for a new one at once.

        At ``max_positions`` all of them are forgotten at once, with all walks; positions that
        matchers hold live on and stay right.
        """
        # Without the lock first: most positions are known, and a dictionary is read at once.
        position = self._positions.get(state)
        if position is None:
            machine = self.machine
            take_lock(self.lock)
            try:
                if len(self._positions) >= self._limits.max_positions:
                    self._positions.clear()
                    self._masks.clear()
                position = self._positions[state] = Position(
                    state, machine.is_accepting(state), machine.parts.table.is_end(state.row)
                )
            finally:
                self.lock.release()
        return position

    def after(self, position: Position, token: TokenId) -> Position:
        """The position after ``token``; raises TokenRejectedError where it is not allowed.

        End-of-sequence tokens lead nowhere, so they are rejected even where a mask has them. Raises
        LimitExceededError where the machine would grow too large.

        What it finds is remembered in ``position.after``, which callers look at first.
        """
        stepping = self._stepping
        stepping.enter()
        try:
            reached = self.steps.advance(position.state, token)
        finally:
            stepping.leave()
        if reached is None:
            text = self.binding.vocabulary.token_bytes[token]
            spelled = "a special token" if text is None else repr(text)
            raise TokenRejectedError(f"token {token} ({spelled}) is not allowed here", token=token)
        found = position.after[token] = self.position(reached)
        return found

    # --- masks ----------------------------------------------------------------------------

    def mask(self, position: Position) -> MaskDelta:
        """The tokens that may follow, out of the store where it has them; not to be changed.

        ``position.held`` is set then, though the store may empty it at once.
        """
        held = position.held
        if held is not None and (delta := held.delta) is not None:
            held.used = True
            return delta
        stepping = self._stepping
        stepping.enter()
        try:
            held, delta = self._masks.mask(position.state)
        finally:
            stepping.leave()
        position.held = held
        return delta

    def lone_token(self, position: Position) -> int | None:
        """The token that alone is allowed, ``None`` where there are more or none."""
        delta = self.mask(position)
        assert position.held is not None, position
        return position.held.lone(delta)

    # --- the end --------------------------------------------------------------------------

    def mask_within(self, position: Position, budget: int) -> Mask:
        """``mask`` without the tokens after which more than ``budget - 1`` are needed to end.

        May leave out a few that would do: see ``Endings``. What it returns is the caller's own.

        ``budget`` counts the next token, and has to be one that ``fits``. Raises LimitExceededError
        where it takes too much work.
        """
        state, mask = position.state, self.mask(position).mask()
        vocabulary = self.binding.vocabulary
        with self._working:
            kept = self._endings.tokens_within(state, mask, budget)
            ends = [*vocabulary.end_ids] if position.is_accepting else []
            if not position.is_accepting:
                # The shortest end stays open even where the bound was too careful about it.
                ends = [*self._endings.kept_shortest(state)[:1]]
            tokens = np.concatenate([*kept, np.array(ends, dtype=np.int64)])
            return mask_of(len(vocabulary), tokens)

    def fits(self, state: State, budget: int) -> bool:
        """Whether at most ``budget`` tokens end the document."""
        working = self._working
        if state == self.machine.start:
            # The first end is part of compiling, put off until somebody asks how long an answer is.
            working = limited_work(self._limits.compile_work, lock=self.lock)
        working.enter()
        try:
            return self._endings.fits(state, budget)
        finally:
            working.leave()

    def shortest_end(self, state: State) -> tuple[TokenId, ...]:
        """Tokens that end the document, close to as few as can be.

        Work on it is not limited, so that an answer can be closed in any case; ``fits`` did it
        before, within the limit.
        """
        with self._closing:
            return self._endings.shortest(state)

    # --- forced runs ----------------------------------------------------------------------

    def canonical_run(self, position: Position, left: bytes) -> tuple[TokenId, ...]:
        """The forced tokens from a position on as the tokenizer spells them.

        ``left`` is a left context (``left_context.py``), on which alone the spelling depends
        besides the state. Runs are remembered in the position; they are all forgotten where there
        are ``_MAX_RUNS``, which costs time alone.
        """
        run = position.runs.get(left)
        if run is None:
            with self._working:
                run = self.binding.speller.run(self._bound, position.state, left)
            if len(position.runs) >= _MAX_RUNS:
                position.runs.clear()
            position.runs[left] = run
        return run

    def forces(self, position: Position) -> bool:
        """Whether one byte alone may follow; False may be wrong, see ``Recognizer.only_byte``."""
        if position.forces is None:
            self._working.enter()
            try:
                position.forces = self.machine.only_byte(position.state) is not None
            finally:
                self._working.leave()
        return position.forces

    def likely_run(self, position: Position, left: bytes) -> tuple[TokenId, ...]:
        """The tokenizer's spelling of the bytes that must follow, to their end."""
        with self._working:
            return self.binding.speller.spelling(self._bound, position.state, left)


class ConstraintMatcher:
    """A position in a document; two are equal when the same may follow them."""

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
        """The left context (``left_context.py``) of the first tokens of the answer, and the later
        tokens, which have not been worked into it yet."""

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
        """What the answer so far means for the spelling of a run."""
        known, unread = self._answer
        if unread:
            known = self.constraint.binding.speller.left_context(known, unread)
            # One assignment: other threads see the old pair or the new one, which mean the same.
            self._answer = known, ()
        return known

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

    def fill(self, out: Mask) -> None:
        self.constraint.mask(self.position).fill(out)

    def allows(self, token: TokenId) -> bool:
        return self.constraint.mask(self.position).allows(token)

    def advance(self, token: TokenId) -> ConstraintMatcher:
        """See ``Matcher``. What the token means for spelling is worked out later, for several."""
        constraint, position = self.constraint, self.position
        reached = position.after.get(token) or constraint.after(position, token)
        known, unread = self._answer
        if len(unread) == _MAX_UNREAD:
            known, unread = self.left_context, ()
        answer = known, unread + (token,)  # noqa: RUF005 - half the time
        return ConstraintMatcher(constraint, reached, answer)

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:
        """See ``Matcher``: the canonical run if there is one, else tokens allowed alone."""
        if forcing is Forcing.OFF or self.position.is_complete:
            return ()
        if forcing is Forcing.CANONICAL:
            # Where there is a choice of bytes there is one of tokens: every byte is a token. The
            # last of a few names may be alone, but looking for it would take a mask everywhere.
            if not self.constraint.forces(self.position):
                return ()
            run = self.constraint.canonical_run(self.position, self.left_context)
            if run:
                return run
        return self._lone_tokens()

    def likely_run(self) -> tuple[TokenId, ...]:
        if not self.constraint.forces(self.position):
            return ()
        return self.constraint.likely_run(self.position, self.left_context)

    def _lone_tokens(self) -> tuple[TokenId, ...]:
        """The chain of tokens each of which is the only one that its mask holds.

        It ends: a position that is not complete has a completion, and where one token alone may
        follow, that is the way there. End tokens are not in it.
        """
        run: list[TokenId] = []
        constraint, position = self.constraint, self.position
        while not position.is_complete and (token := constraint.lone_token(position)) is not None:
            run.append(TokenId(token))
            position = constraint.after(position, run[-1])
        return tuple(run)

    def shortest_end(self) -> tuple[TokenId, ...]:
        return self.constraint.shortest_end(self.state)

    def fits(self, budget: int) -> bool:
        return self.constraint.fits(self.state, budget)

    def mask_within(self, budget: int) -> Mask:
        return self.constraint.mask_within(self.position, budget)
