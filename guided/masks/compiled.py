"""A constraint bound to a vocabulary, and the matchers that walk it."""

from __future__ import annotations

import threading
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.errors import TokenRejectedError
from guided.machine.recognizer import Recognizer, State
from guided.machine.table import DEAD
from guided.masks.binding import TokenBinding
from guided.masks.cover import fewest_tokens
from guided.masks.forced import only_byte
from guided.masks.held_mask import HeldMask
from guided.masks.limits import ConstraintLimits
from guided.masks.mask import Mask, mask_of, tokens_of
from guided.masks.mask_delta import MaskDelta
from guided.masks.mask_store import MaskStore
from guided.masks.position import Position
from guided.masks.walk import KeptWalk, Place, Walk, Walker
from guided.runtime.fuel import LimitedSteps, limited_work
from guided.spec import Forcing, TokenId

__all__ = ["CompiledConstraint", "ConstraintMatcher"]

_FEW: Final = 64
_SPARE_BYTES: Final = 12
"""By how much texts in one place may differ in their shortest ends: a number to be a new name."""
_ANYWHERE: Final = -1
"""In place of the stack, in places of walks that are the same in all stacks."""
_TOP_DEPTHS: Final = (0, 2)
"""Callers of a state that are known at first, and where that leaves tokens open: with more of them
fewer tokens are left, and fewer states are the same."""
_MAX_SUMS: Final = 1_000
"""Masks remembered by the two that they were made of."""
_MAX_RUNS: Final = 8
"""Runs remembered in one position."""
_MAX_BEHIND: Final = 16
"""Tokens that a matcher keeps before it looks what they mean for the spelling of a run."""


class CompiledConstraint:
    """Shared by all requests with the same constraint; safe to use from several threads."""

    def __init__(
        self,
        machine: Recognizer,
        binding: TokenBinding,
        masks: MaskStore,
        limits: ConstraintLimits,
    ) -> None:
        self.machine = machine
        self.binding = binding
        self.lock = threading.RLock()
        """Held while the machine may grow."""
        work = limits.step_work, "going on from one position", self.lock
        self._working = limited_work(*work)
        self._stepping = LimitedSteps(*work)
        self.walker = Walker(
            machine,
            binding.texts,
            binding.trie,
            binding.inner,
            binding.blank,
            binding.scratch,
            self._stepping.begin,
        )
        self._ends = np.array(sorted(binding.vocabulary.end_ids), dtype=np.int32)
        self._masks = masks
        self._limits = limits
        self._by_place: dict[Place, tuple[HeldMask, NDArray[np.int32]]] = {}
        """What was walked, with the sites of whose tokens the mask says nothing."""
        self._covered: set[int] = set()
        """Rows with the walk of the one that they are like."""
        self._sums: dict[tuple[HeldMask, HeldMask], HeldMask] = {}
        """By the masks of a row and of what comes behind it, that of both together."""
        self._positions: dict[State, Position] = {}
        self._ways_out: dict[State, tuple[TokenId, ...]] = {}

    def start(self) -> ConstraintMatcher:
        """The position before the first token."""
        return ConstraintMatcher(self, self.position(self.machine.start))

    @property
    def incomplete(self) -> int:
        """Places where the search for an end ran out of fuel, so that documents may be missing."""
        return self.machine.incomplete

    # --- positions ------------------------------------------------------------------------

    def position(self, state: State) -> Position:
        """The position of a state; there is only one, until too many have been asked for."""
        position = self._positions.get(state)
        if position is None:
            machine = self.machine
            with self.lock:
                if len(self._positions) >= self._limits.max_positions:
                    self._positions.clear()
                    self._by_place.clear()
                    self._sums.clear()
                position = self._positions[state] = Position(
                    state, machine.is_accepting(state), machine.is_complete(state)
                )
        return position

    def behind(self, position: Position, token: TokenId) -> Position:
        """The position behind ``token``; raises TokenRejectedError where it is not allowed."""
        stepping = self._stepping
        stepping.enter()
        try:
            reached = self.walker.advance(position.state, token)
        finally:
            stepping.leave()
        if reached is None:
            text = self.binding.vocabulary.token_bytes[token]
            spelled = "a special token" if text is None else repr(text)
            raise TokenRejectedError(f"token {token} ({spelled}) is not allowed here", token=token)
        found = position.behind[token] = self.position(reached)
        return found

    # --- masks ----------------------------------------------------------------------------

    def mask(self, position: Position) -> MaskDelta:
        """The tokens that may follow, out of the store where it has them."""
        held = position.held
        if held is not None and (delta := held.delta) is not None:
            held.used = True
            return delta
        stepping = self._stepping
        stepping.enter()
        try:
            held, delta = self._held_mask(position.state)
        finally:
            stepping.leave()
        position.held = held
        return delta

    def lone_token(self, position: Position) -> int | None:
        """The token that alone is allowed, ``None`` where there are more or none."""
        delta = self.mask(position)
        assert position.held is not None, position
        return position.held.lone(delta)

    def _held_mask(self, state: State) -> tuple[HeldMask, MaskDelta]:
        readings = self.machine.readings(state)
        if readings:
            return self._joined(state, readings)
        # Which text a free key has so far matters to few tokens, so most states share a walk.
        held, walk = self._walked(state)
        repeating = self._repeating(state) if state.texts else []
        if repeating or len(walk.uncertain):
            return self._keep(self.walker.exact(walk, state, repeating))
        held.used = True
        return held, walk.delta

    def _keep(self, walk: Walk) -> tuple[HeldMask, MaskDelta]:
        return self._masks.keep(walk.mask, walk.fingerprint, walk.base)

    def _known(self, place: Place) -> tuple[HeldMask, KeptWalk] | None:
        """The walk of a place, where its mask is still held."""
        known = self._by_place.get(place)
        if known is None or (delta := known[0].delta) is None:
            return None
        return known[0], KeptWalk(delta, known[0].fingerprint, known[1])

    def _joined(self, state: State, readings: tuple[State, ...]) -> tuple[HeldMask, MaskDelta]:
        """What may follow any of the readings of a state."""
        place = self.walker.place(state)
        known = self._known(place)
        if known is not None:
            held, delta = known[0], known[1].delta
        else:
            # Once for all of them: each of very many has a recogniser to be asked.
            if self._stepping.begin():
                self.machine.check_room()
            (first, delta), *others = [self._held_mask(reading) for reading in readings]
            walk = self.walker.joined(delta, first.fingerprint, [delta for _, delta in others])
            if self.machine.is_accepting(state):
                walk = self.walker.with_ends(walk, self._ends)
            held, delta = self._keep(walk)
            self._by_place[place] = held, walk.uncertain
        held.used = True
        return held, delta

    def _walked(self, state: State, *, is_beyond: bool = False) -> tuple[HeldMask, KeptWalk]:
        """The walk of a state's place, and where its mask is held.

        ``is_beyond`` of a state that is asked for by one whose row it comes behind.
        """
        walker, row = self.walker, state.row
        if row in self._covered:
            return self._walked(self.machine.beneath(state, walker.like(row)))
        place = walker.place(state)
        _, _, missing, left = place
        known = self._known(place) or self._known((_ANYWHERE, row, missing, left))
        if known is not None:
            return known
        if not self._stepping.has_begun:
            self.machine.check_room()
        found = self._walked_from_tops(state, place, is_beyond)
        if found is not None:
            self._by_place[place] = found[0], found[1].uncertain
            return found
        like = walker.like(row)
        if like != DEAD:
            held, base = self._walked(self.machine.beneath(state, like))
            walk = walker.walk(state, base)
            if walk.is_local:
                self._covered.add(row)
                return held, base
        else:
            walk = walker.walk(state)
        if self.machine.is_accepting(state):
            walk = walker.with_ends(walk, self._ends)
        elif walk.is_local:
            place = (_ANYWHERE, row, missing, left)
        return self._remembered(place, walk)

    def _remembered(self, place: Place, walk: Walk) -> tuple[HeldMask, KeptWalk]:
        """The walk as that of a place from now on."""
        held, delta = self._keep(walk)
        self._by_place[place] = held, walk.uncertain
        return held, walk.kept(delta)

    def _walked_from_tops(
        self, state: State, place: Place, is_beyond: bool
    ) -> tuple[HeldMask, KeptWalk] | None:
        """The walk of a state out of those of its tops, which most tokens need no more than.

        ``None`` where it is its own top. Tops are places of their own where texts may end.
        """
        walker, found, is_accepting = self.walker, None, False
        stack, row, missing, _ = place
        for depth in _TOP_DEPTHS:
            top = self.machine.top(stack, depth)
            if top == stack:
                break
            if found is None:
                is_accepting = self.machine.is_accepting(state)
            place = (top, row, missing, int(is_accepting))
            known = self._known(place)
            if known is None:
                known = self._remembered(
                    place, self._walk_of_top(state._replace(stack=top), found, is_accepting)
                )
            found = known
            if not len(found[1].uncertain):
                return found
            if not is_beyond and walker.is_left_open(found[1]):
                return self._joined_beyond(state, *found)
        if found is None:
            return None
        walk = walker.completed(found[1], state)
        held, delta = self._keep(walk)
        return held, walk.kept(delta)

    def _joined_beyond(
        self, state: State, held: HeldMask, own: KeptWalk
    ) -> tuple[HeldMask, KeptWalk]:
        """The walk of a state out of its row's own and that of what comes behind the row.

        Which is one place for many rows, with a mask that many places have.
        """
        self._stepping.begin()
        held_behind, behind = self._walked(self.machine.beyond(state), is_beyond=True)
        joined = self._sums.get((held, held_behind))
        if joined is None or (delta := joined.delta) is None:
            joined, delta = self._keep(self.walker.going_on(own, behind))
            if len(self._sums) >= _MAX_SUMS:
                self._sums.clear()
            self._sums[held, held_behind] = joined
        return joined, KeptWalk(delta, joined.fingerprint, behind.uncertain)

    def _walk_of_top(
        self, top: State, above: tuple[HeldMask, KeptWalk] | None, is_accepting: bool
    ) -> Walk:
        """The walk of a top, out of that of one with fewer callers where there is one."""
        if above is not None:
            return self.walker.completed(above[1], top, is_top=True)
        walk = self.walker.walk(top, is_top=True)
        return self.walker.with_ends(walk, self._ends) if is_accepting else walk

    def _repeating(self, state: State) -> list[int]:
        """The tokens that would close the free key being written as one that is taken."""
        if not self.walker.is_key(state.row):
            return []
        tokens: list[int] = []
        begun = state.texts[-1]
        for key in self.machine.free_keys_of(state.stack):
            if key.startswith(begun):
                node = self.binding.trie.find(key[len(begun) :] + b'"')
                if node is not None:
                    tokens += self.binding.trie.tokens_below(node).tolist()
        return tokens

    # --- the end --------------------------------------------------------------------------

    def mask_within(self, position: Position, budget: int) -> Mask:
        """``mask`` without the tokens after which more than ``budget - 1`` are needed to end."""
        state, mask = position.state, self.mask(position).mask()
        with self._working:
            kept = self._kept_within(state, mask, budget)
            # The way out stays open even where the bound for a place was too careful about it.
            way_out = [] if position.is_accepting else self._kept_way_out(state)[:1]
            ends = self.binding.vocabulary.end_ids if position.is_accepting else ()
            allowed = np.concatenate([*kept, np.array([*ends, *way_out], dtype=np.int64)])
            return mask_of(len(self.binding.vocabulary), allowed)

    def _kept_within(self, state: State, mask: Mask, budget: int) -> list[NDArray[np.int64]]:
        """Tokens of the mask that the budget suffices for."""
        readings = self.machine.readings(state)
        if readings:
            kept = [
                self._kept_within(each, self._held_mask(each)[1].mask(), budget)
                for each in readings
            ]
            return [tokens for found in kept for tokens in found]
        groups = self.walker.by_place(state, tokens_of(mask))
        return [self._fitting(state, tokens, budget - 1) for tokens in groups]

    def _fitting(self, state: State, tokens: NDArray[np.int64], budget: int) -> NDArray[np.int64]:
        """Those of the tokens, all of which lead to one place, behind which the budget suffices."""
        first = self.walker.advance(state, int(tokens[0]))
        assert first is not None, (state, tokens[0])
        if first.texts:
            # How the document can end depends on what was written, which is another text for each.
            if len(tokens) <= _FEW:
                fits = [self._fits_behind(state, token, budget) for token in tokens.tolist()]
                fitting: NDArray[np.int64] = tokens[np.array(fits)]
                return fitting
            budget -= _SPARE_BYTES
        return tokens if self._fits(first, budget) else tokens[:0]

    def _fits_behind(self, state: State, token: int, budget: int) -> bool:
        reached = self.walker.advance(state, token)
        return reached is not None and self._fits(reached, budget)

    def fits(self, state: State, budget: int) -> bool:
        """Whether at most ``budget`` tokens end the document."""
        working = self._working
        if state == self.machine.start:
            # The first end is part of compiling, put off until somebody asks how long an answer is.
            working = limited_work(self._limits.compile_work, lock=self.lock)
        with working:
            return self._fits(state, budget)

    def _fits(self, state: State, budget: int) -> bool:
        return self.machine.bytes_left(state) <= budget or len(self.shortest_end(state)) <= budget

    def shortest_end(self, state: State) -> tuple[TokenId, ...]:
        """Tokens that end the document, close to as few as can be.

        Work on it is not limited, so that an answer can be closed in any case; ``fits`` did it
        before, within the limit.
        """
        with self.lock:
            tokens = fewest_tokens(self.binding.trie, self.machine.shortest_end(state))
            kept = self._ways_out.get(state)
            return tokens if kept is None or len(tokens) < len(kept) else kept

    def _kept_way_out(self, state: State) -> tuple[TokenId, ...]:
        """The shortest end, kept for the states along it.

        Fewer bytes can be more tokens: whoever follows it must not be led on to another one.
        """
        tokens = self.shortest_end(state)
        if len(self._ways_out) >= self._limits.max_positions:
            self._ways_out.clear()
        at: State | None = state
        for place, token in enumerate(tokens):
            assert at is not None, (state, tokens)
            known = self._ways_out.get(at)
            if known is None or len(known) > len(tokens) - place:
                self._ways_out[at] = tokens[place:]
            at = self.walker.advance(at, token)
        return tokens

    # --- forced runs ----------------------------------------------------------------------

    def canonical_run(self, position: Position, opening: bytes) -> tuple[TokenId, ...]:
        """The forced tokens from a position on as the tokenizer spells them."""
        run = position.runs.get(opening)
        if run is None:
            with self._working:
                run = self.binding.speller.run(self.walker, position.state, opening)
            if len(position.runs) >= _MAX_RUNS:
                position.runs.clear()
            position.runs[opening] = run
        return run

    def forces(self, position: Position) -> bool:
        """Whether one byte alone may follow."""
        if position.forces is None:
            with self._working:
                position.forces = only_byte(self.machine, position.state) is not None
        return position.forces

    def likely_run(self, position: Position, opening: bytes) -> tuple[TokenId, ...]:
        """The tokenizer's spelling of the bytes that must follow, to their end."""
        with self._working:
            return self.binding.speller.spelling(self.walker, position.state, opening)


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
        """What a part of the answer means for the spelling of a run, and the tokens behind it."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ConstraintMatcher)
            and self.constraint is other.constraint
            and self.position == other.position
            and self.opening == other.opening
        )

    def __hash__(self) -> int:
        return hash((self.position, self.opening))

    @property
    def opening(self) -> bytes:
        """What the answer so far means for the spelling of a run."""
        known, behind = self._answer
        if behind:
            known = self.constraint.binding.speller.opening(known, behind)
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
        constraint, position = self.constraint, self.position
        reached = position.behind.get(token) or constraint.behind(position, token)
        known, behind = self._answer
        if len(behind) == _MAX_BEHIND:
            known, behind = self.opening, ()
        answer = known, behind + (token,)  # noqa: RUF005 - half the time
        return ConstraintMatcher(constraint, reached, answer)

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:
        if forcing is Forcing.OFF or self.position.is_complete:
            return ()
        if forcing is Forcing.CANONICAL:
            # Where there is a choice of bytes there is one of tokens: every byte is a token. The
            # last of a few names may be alone, but looking for it would take a mask everywhere.
            if not self.constraint.forces(self.position):
                return ()
            run = self.constraint.canonical_run(self.position, self.opening)
            if run:
                return run
        return self._lone_tokens()

    def likely_run(self) -> tuple[TokenId, ...]:
        if not self.constraint.forces(self.position):
            return ()
        return self.constraint.likely_run(self.position, self.opening)

    def _lone_tokens(self) -> tuple[TokenId, ...]:
        """The chain of tokens each of which is the only one that its mask holds."""
        run: list[TokenId] = []
        constraint, position = self.constraint, self.position
        while not position.is_complete and (token := constraint.lone_token(position)) is not None:
            run.append(TokenId(token))
            position = constraint.behind(position, run[-1])
        return tuple(run)

    def shortest_end(self) -> tuple[TokenId, ...]:
        return self.constraint.shortest_end(self.state)

    def fits(self, budget: int) -> bool:
        return self.constraint.fits(self.state, budget)

    def mask_within(self, budget: int) -> Mask:
        return self.constraint.mask_within(self.position, budget)
