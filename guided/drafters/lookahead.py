"""Lookahead decoding: the model's own guesses of later tokens, made in the same call.

Beside the drafted tree some *scouts* ride along in a model call: tokens that stand for later
places, a window of several columns, each with the guesses of the last calls one below the other.
The model's output after the last row is a new guess for every column; a column and the new guess
are an n-gram, which is drafted when its first token comes (Fu et al., *Break the Sequential
Dependency of LLM Inference Using Lookahead Decoding*, arXiv 2402.02057)::

    root ─ a0 ─ a1 ─ a2 ─ a3       the guesses of the call before last, one after the other
           │    │    │    │
           b0   b1   b2   b3       those of the last call: b1 follows a0 a1
           ↓    ↓    ↓    ↓
           c0   c1   c2   c3       this call's output; pooled: a0 b0 c0, a1 b1 c1, ...

    next   root ─ b0 ─ b1 ─ b2 ─ b3     with c0 to c3 below

This is Jacobi iteration: b1 was guessed after a0 and a1, c1 after b1. See docs/lookahead.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

from guided.decoding.draft_budget import AcceptanceRates
from guided.decoding.drafter import DraftBuilder, DraftContext, DraftRequest, VerifiedStep
from guided.decoding.judged_proposals import JudgedProposals
from guided.drafters.best_first import draft_best_first
from guided.spec import TokenId

__all__ = ["LookaheadDraftState", "LookaheadDrafter", "NgramPool"]

_COLUMNS: Final = 5
_NGRAM: Final = 3
_MAX_NGRAMS: Final = 4
"""N-grams that are kept for one first token."""
_MAX_TOKENS: Final = 1024
"""First tokens for which n-grams are kept."""
_WINDOW: Final = -1
"""A separate kind, beside the ranks of n-grams: a step with a window, which is right if an n-gram
was."""
_ASSUMED_OF_WINDOW: Final = 0.5
_ASSUMED: Final = 0.3

Ngram: TypeAlias = tuple[TokenId, ...]


class NgramPool:
    """The n-grams that the model has guessed, by their first token; the latest first."""

    def __init__(self) -> None:
        self._rests: dict[TokenId, list[Ngram]] = {}
        """The first token whose n-grams grew last comes last."""

    def __len__(self) -> int:
        return len(self._rests)

    def add(self, first: TokenId, rest: Ngram) -> None:
        """Keep an n-gram, and forget the oldest beyond the limits."""
        rests = [other for other in self._rests.pop(first, []) if other != rest]
        self._rests[first] = [rest, *rests[: _MAX_NGRAMS - 1]]
        if len(self._rests) > _MAX_TOKENS:
            del self._rests[next(iter(self._rests))]

    def after(self, first: TokenId) -> list[Ngram]:
        """Return what followed a token, the latest first."""
        return self._rests.get(first, [])


class LookaheadDraftState:
    """The window and the n-grams of one sequence; independent of other sequences."""

    def __init__(self, columns: int, ngram: int) -> None:
        self.pool = NgramPool()
        self.rates = AcceptanceRates[int](
            dict.fromkeys(range(_MAX_NGRAMS), _ASSUMED) | {_WINDOW: _ASSUMED_OF_WINDOW}
        )
        """How often an n-gram's token was right, by how many later n-grams there were."""
        self.drafted = JudgedProposals[int](self.rates)
        """The tokens of the latest tree; their kind is their rank."""
        self._columns = columns
        self._num_levels = ngram - 1
        self._levels: list[list[TokenId]] = []
        """The guesses of the latest calls, by call, the oldest first; equally many in each."""
        self._guess_nodes: list[int] = []
        """The scouts of the latest tree after which the next guesses come."""

    @property
    def num_scouts(self) -> int:
        """The number of nodes that the window takes."""
        return sum(map(len, self._levels))

    def begin_tree(self, tokens: Sequence[TokenId]) -> None:
        """Begin a tree; before the first, fill the window with ``tokens``."""
        self.drafted.clear()
        self._guess_nodes = []
        if not self._levels:
            # The first guesses are worth nothing, so any tokens will do: those of the text. One is
            # lost with each call that adds a level.
            count = self._columns + self._num_levels - 1
            self._levels = [[tokens[index % len(tokens)] for index in range(count)]]

    def add_window(self, builder: DraftBuilder) -> None:
        """Add the window's scouts to the tree, if that pays."""
        levels = self._levels
        deepest = len(levels[0]) + len(levels) - 1
        chance = self.rates.rate(_WINDOW)
        if builder.tokens_left(builder.root) < deepest:
            return
        # Nothing is drafted after a scout.
        if not builder.pays(self.num_scouts, chance, max_following=0):
            return
        above: list[int] = []
        for number, level in enumerate(levels, start=1):
            nodes: list[int] = []
            for column, token in enumerate(level):
                # The oldest guesses are a chain, the later ones hang below them.
                before = above[column] if above else nodes[-1] if nodes else builder.root
                nodes.append(builder.add_scout(before, token, wants_logits=number == len(levels)))
            above = nodes
        self._guess_nodes = above

    def learn(self, verified: VerifiedStep) -> None:
        """Record which n-grams were right, and the model's new guesses."""
        self._record_rates(verified)
        guesses = [verified.scout_logits.get(node) for node in self._guess_nodes]
        self._guess_nodes = []
        # A window that was given up for lack of room is tried again as it is.
        new_guesses = [TokenId(int(logits.argmax())) for logits in guesses if logits is not None]
        if new_guesses and len(new_guesses) == len(guesses):
            self._advance(new_guesses)

    def _record_rates(self, verified: VerifiedStep) -> None:
        self.rates.decay()
        was_right = self.drafted.learn(verified)
        was_given_up = verified.tree.trunk_length == len(verified.tree)  # for lack of room
        # A step pays for its window with what earlier windows gained.
        if self._guess_nodes and len(self.pool) and not was_given_up:
            self.rates.add(_WINDOW, 1.0, is_hit=was_right)

    def _advance(self, new_guesses: list[TokenId]) -> None:
        """Make the model's new guesses the last level, and pool the n-grams that they complete."""
        levels = self._levels
        if len(levels) == self._num_levels:
            for column, token in enumerate(new_guesses):
                first, *rest = [level[column] for level in levels]
                self.pool.add(first, (*rest, token))
            self._levels = [*levels[1:], new_guesses]
        else:
            # The text moves on by a token, so the first guess of each level is passed.
            self._levels = [level[1:] for level in (*levels, new_guesses)]

    def end(self, tokens: Sequence[TokenId]) -> None:
        """Do nothing: nothing is held."""


_Rests: TypeAlias = list[tuple[int, Ngram]]
"""The next tokens by n-grams, each n-gram with its rank."""


class LookaheadDrafter:
    """Drafts n-grams that the model itself guessed in earlier calls of the same sequence."""

    name: Final = "lookahead"
    wants_hidden_states: Final = False
    widths: Final = ()

    def __init__(self, columns: int = _COLUMNS, ngram: int = _NGRAM) -> None:
        """A window of ``columns`` columns, for n-grams of ``ngram`` tokens, at least two."""
        assert columns >= 1 and ngram >= 2, f"a window of {columns} columns for {ngram} tokens"
        self._columns = columns
        self._ngram = ngram

    def open(self, context: DraftContext) -> LookaheadDraftState:  # noqa: ARG002 - drafts for all
        """Begin a sequence."""
        return LookaheadDraftState(self._columns, self._ngram)

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        """Add a window to each tree where it pays, and n-grams as long as they pay."""
        for draft in drafts:
            draft_state = draft.draft_state
            assert isinstance(draft_state, LookaheadDraftState), (
                f"{draft_state!r} is of another drafter"
            )
            draft_state.begin_tree(draft.tokens)
            draft_state.add_window(draft.builder)
            begin: _Rests = list(enumerate(draft_state.pool.after(draft.tokens[-1])))
            draft_best_first(
                draft.builder,
                begin,
                partial(_next_tokens, draft_state),
                partial(_continue_rests, draft_state.pool),
            )


def _next_tokens(
    draft_state: LookaheadDraftState, node: int, rests: _Rests
) -> list[tuple[TokenId, float]]:
    """Return the tokens that n-grams predict after a node, each with its chance."""
    found: dict[TokenId, float] = {}
    for rank, rest in rests:
        if rest[0] not in found:
            found[rest[0]] = draft_state.rates.rate(rank)
            draft_state.drafted.record(node, rest[0], rank)
    return list(found.items())


def _continue_rests(pool: NgramPool, rests: _Rests, tokens: list[TokenId]) -> _Rests:
    """Return n-grams after more tokens: those that predicted these, then those of the last."""
    for token in tokens:
        rests = [(rank, rest[1:]) for rank, rest in rests if rest[0] == token and len(rest) > 1]
        rests += enumerate(pool.after(token))
    return rests
