"""A constraint bound to a vocabulary, and the matchers that walk it."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass

import numpy as np

from guided.constraint.walk_cache import WalkCache
from guided.errors import TokenRejectedError
from guided.recognizer.contexts import KNOWN, UNKNOWN
from guided.recognizer.json_machine import JsonMachine, State
from guided.recognizer.shortest_values import NEW_KEY_BYTES
from guided.recognizer.table import IN_KEY, PLAIN
from guided.spec import Forcing, TokenId
from guided.tokens.binding import TokenBinding
from guided.tokens.forced import CONTEXT_TOKENS
from guided.tokens.mask import Mask, clear, lone_token, tokens_of, with_tokens
from guided.tokens.walk import Walk, walk_trie

__all__ = ["CompiledConstraint", "ConstraintMatcher"]

_serial_numbers = itertools.count()


class CompiledConstraint:
    """Shared by all requests with the same constraint; safe to use from several threads."""

    def __init__(self, machine: JsonMachine, binding: TokenBinding, walks: WalkCache) -> None:
        self.machine = machine
        self.binding = binding
        self.lock = threading.RLock()
        """Held while the machine may grow."""
        self._walks = walks
        self._serial = next(_serial_numbers)

    def start(self) -> ConstraintMatcher:
        """The position before the first token."""
        return ConstraintMatcher(self, self.machine.start)

    def mask(self, state: State) -> Mask:
        """The tokens that may follow ``state``, out of the cache where it holds them."""
        # Which text a free key has so far matters to few tokens, so most states share a walk.
        place = (state.context, state.row, state.key is not None)
        walk = self._walks.get((self._serial, place), lambda: self._walk(state))
        repeating = self._repeating(state)
        if not repeating and not len(walk.uncertain):
            return walk.mask
        exact = (self._serial, state)
        return self._walks.get(exact, lambda: self._made_exact(walk, state, repeating)).mask

    def _walk(self, state: State) -> Walk:
        with self.lock:
            self.machine.check_room()
            walk = walk_trie(self.binding.trie, self.machine, state)
        if self.machine.is_accepting(state):
            with_tokens(walk.mask, self.binding.vocabulary.end_ids)
        return walk

    def _made_exact(self, walk: Walk, state: State, repeating: list[int]) -> Walk:
        """The walk with the tokens decided that depend on which keys were written."""
        mask = clear(walk.mask.copy(), repeating)
        for node in walk.uncertain.tolist():
            below = self.binding.trie.tokens_below(node).tolist()
            with_tokens(mask, [t for t in below if self._advance(state, t) is not None])
        return Walk(mask, walk.uncertain[:0])

    def _repeating(self, state: State) -> list[int]:
        """The tokens that would close the free key being written as one that is taken."""
        if self.machine.table.role[state.row] != IN_KEY:
            return []
        assert state.key is not None, state
        tokens: list[int] = []
        for key in self.machine.free_keys(state):
            if key.startswith(state.key):
                node = self.binding.trie.find(key[len(state.key) :] + b'"')
                if node is not None:
                    tokens += self.binding.trie.tokens_below(node).tolist()
        return tokens

    def mask_within(self, state: State, budget: int) -> Mask:
        """``mask`` without the tokens after which more than ``budget - 1`` are needed to end."""
        mask = self.mask(state)
        with self.lock:
            walk = walk_trie(self.binding.trie, self.machine, state, destinations=True)
            assert walk.contexts is not None and walk.rows is not None
            fitting: dict[tuple[int, int], bool] = {}
            kept = []
            for token in tokens_of(mask).tolist():
                place = (int(walk.contexts[token]), int(walk.rows[token]))
                if token in self.binding.vocabulary.end_ids:
                    fits = True
                elif place not in fitting and self._known_by_place(place[0]):
                    fits = fitting[place] = self._place_fits(*place, budget - 1)
                elif place in fitting:
                    fits = fitting[place]
                else:
                    reached = self._advance(state, token)
                    assert reached is not None, token
                    fits = self.fits(reached, budget - 1)
                if fits:
                    kept.append(token)
            # The way out stays open even where the bound for a place was too careful about it.
            way_out = self.shortest_end(state)[:1]
            return with_tokens(np.zeros_like(mask), [*kept, *way_out])

    def _known_by_place(self, context: int) -> bool:
        """Whether the place alone tells how the document can end from there."""
        return context >= 0 and self.machine.contexts.key_knowledge[context] != UNKNOWN

    def _place_fits(self, context: int, row: int, budget: int) -> bool:
        # A free key's text is not known here. It, and the names of members that the object still
        # owes, may take some bytes more to be new ones.
        spare = 0
        if self.machine.table.role[row] != PLAIN:
            owed = self.machine.owed_members(context)
            if owed or self.machine.contexts.key_knowledge[context] == KNOWN:
                spare = NEW_KEY_BYTES * (1 + owed)
        return self.fits(State(context, row), budget - spare)

    def fits(self, state: State, budget: int) -> bool:
        """Whether at most ``budget`` tokens end the document."""
        if self.machine.bytes_left(state) <= budget:
            return True
        return len(self.shortest_end(state)) <= budget

    def shortest_end(self, state: State) -> tuple[TokenId, ...]:
        """Tokens that end the document, close to as few as can be."""
        with self.lock:
            return self.binding.cover.cover(self.machine.shortest_end(state))

    def canonical_run(self, state: State, recent: tuple[TokenId, ...]) -> tuple[TokenId, ...]:
        """The forced tokens from ``state`` on as the tokenizer spells them."""
        with self.lock:
            return self.binding.speller.run(self.machine, state, recent)

    def _advance(self, state: State, token: int) -> State | None:
        text = self.binding.vocabulary.token_bytes[token]
        with self.lock:
            return None if text is None else self.machine.advance(state, text)

    def advance(self, state: State, token: TokenId) -> State:
        """The state behind ``token``; raises TokenRejectedError where it is not allowed."""
        reached = self._advance(state, token)
        if reached is None:
            text = self.binding.vocabulary.token_bytes[token]
            spelled = "a special token" if text is None else repr(text)
            raise TokenRejectedError(f"token {token} ({spelled}) is not allowed here", token=token)
        return reached


@dataclass(frozen=True, slots=True)
class ConstraintMatcher:
    """A position in a document; two are equal when the same may follow them."""

    constraint: CompiledConstraint
    state: State
    recent: tuple[TokenId, ...] = ()
    """The latest tokens of the answer, as far as the spelling of a forced run looks back."""

    @property
    def is_complete(self) -> bool:
        return self.constraint.machine.is_complete(self.state)

    @property
    def is_accepting(self) -> bool:
        return self.constraint.machine.is_accepting(self.state)

    def mask(self) -> Mask:
        return self.constraint.mask(self.state)

    def advance(self, token: TokenId) -> ConstraintMatcher:
        reached = self.constraint.advance(self.state, token)
        recent = (*self.recent, token)[-CONTEXT_TOKENS:]
        return ConstraintMatcher(self.constraint, reached, recent)

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:
        if forcing is Forcing.OFF or self.is_complete:
            return ()
        if forcing is Forcing.CANONICAL:
            run = self.constraint.canonical_run(self.state, self.recent)
            if run:
                return run
        return self._lone_tokens()

    def _lone_tokens(self) -> tuple[TokenId, ...]:
        """The chain of tokens each of which is the only one that its mask holds."""
        run: list[TokenId] = []
        matcher = self
        while not matcher.is_complete and (token := lone_token(matcher.mask())) is not None:
            run.append(TokenId(token))
            matcher = matcher.advance(run[-1])
        return tuple(run)

    def shortest_end(self) -> tuple[TokenId, ...]:
        return self.constraint.shortest_end(self.state)

    def fits(self, budget: int) -> bool:
        return self.constraint.fits(self.state, budget)

    def mask_within(self, budget: int) -> Mask:
        return self.constraint.mask_within(self.state, budget)
