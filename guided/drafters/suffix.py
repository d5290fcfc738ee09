"""Drafts what followed the same tokens in earlier answers to the same constraint.

An answer is remembered when its request ends, only for requests with the same ``cache_salt`` and
the same constraint. The longest end of the text that an earlier answer contains predicts the next
tokens; where that was wrong before, shorter ends count, as in prediction by partial matching::

    text  ... "status":"open","team":"          chance
    8 tokens, seen once      billing            of billing: r of such contexts
    5 tokens, seen 9 times   billing 6, it 3    of it: (1 - r) · r' of such contexts

Texts are matched in tokens: under one constraint keys and punctuation are always spelled alike, so
a value begins at the same token as before. See docs/suffix-cache.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from guided.decoding.choice import ChosenToken
from guided.decoding.drafter import DraftContext, DraftRequest, VerifiedStep
from guided.drafters.best_first import draft_best_first
from guided.drafters.suffix_pools import (
    MAX_BYTES,
    ContextKind,
    PoolKey,
    SuffixPool,
    SuffixPools,
    kind_of,
)
from guided.drafters.suffix_trie import MAX_CONTEXT, Contexts
from guided.runtime.digest import digest_with_pauses
from guided.spec import TokenId

__all__ = ["SuffixDraftState", "SuffixDrafter"]

_MAX_TOKENS: Final = 2048
"""A longer answer is remembered only up to this many tokens."""
_MAX_FOLLOWERS: Final = 32
"""A context that more tokens have followed says little of the next."""
_MAX_KINDS: Final = 3
"""The most contexts that count at one place."""
_MIN_REMAINDER: Final = 0.06
"""Below this chance that longer contexts are wrong, shorter ones are not used."""


class _Prediction:
    """The tokens that one context predicts at a node."""

    __slots__ = ("kind", "tokens")

    def __init__(self, kind: ContextKind, tokens: frozenset[TokenId]) -> None:
        self.kind = kind
        self.tokens = tokens
        """Those that longer contexts did not predict."""


class SuffixDraftState:
    """One sequence: whose answers it shares, and how much of it the model has confirmed."""

    def __init__(self, pools: SuffixPools, key: PoolKey, prompt_length: int) -> None:
        self.pools = pools
        self.key = key
        self.predictions: dict[int, list[_Prediction]] = {}
        """Those made for the latest tree, by node, the longest context first."""
        self._prompt_length = prompt_length
        # Tokens of the prompt, and those that the model confirmed or chose: without the
        # completion of an answer that was cut short.
        self._num_confirmed = prompt_length

    def learn(self, verified: VerifiedStep) -> None:
        """Record which contexts predicted the tokens that the model chose."""
        acceptance = verified.acceptance
        num_confirmed = verified.first + len(acceptance.path)
        if isinstance(acceptance.choice, ChosenToken) and acceptance.choice.matcher is not None:
            num_confirmed += 1
        # A sequence that starts over reads again what was confirmed already.
        self._num_confirmed = max(self._num_confirmed, num_confirmed)
        predictions, self.predictions = self.predictions, {}
        pool = self.pools.find(self.key)
        if pool is None or not predictions:
            return
        pool.rates.decay()
        for node, token in verified.choice_by_node.items():
            for each in predictions.get(node, ()):
                is_hit = token in each.tokens
                pool.rates.add(each.kind, 1.0, is_hit=is_hit)
                if is_hit:
                    break

    def end(self, tokens: Sequence[TokenId]) -> None:
        """Remember what the model confirmed, even of an answer that was cut short or cancelled."""
        begin = self._prompt_length
        # A stop string may have removed confirmed tokens.
        end = min(self._num_confirmed, len(tokens), begin + _MAX_TOKENS)
        if end > begin:
            # The end of the prompt goes with it, because it shows how answers begin.
            self.pools.add(self.key, tokens[max(0, begin - MAX_CONTEXT) : end])


class SuffixDrafter:
    """Drafts for all sequences of an engine from the answers that it has made."""

    name: Final = "suffix"
    wants_hidden_states: Final = False
    widths: Final = ()

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self.pools: Final = SuffixPools(most_bytes)

    def open(self, context: DraftContext) -> SuffixDraftState:
        """Begin a sequence."""
        digest = "" if context.constraint is None else digest_with_pauses(context.constraint)
        key = PoolKey(context.cache_salt, digest)
        self.pools.use(key)
        return SuffixDraftState(self.pools, key, context.prompt_length)

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        """Add tokens to each tree as long as they pay."""
        for draft in drafts:
            draft_state = draft.draft_state
            assert isinstance(draft_state, SuffixDraftState), (
                f"{draft_state!r} is of another drafter"
            )
            draft_state.predictions = {}
            pool = self.pools.find(draft_state.key)
            if pool is not None:
                trie = pool.trie
                draft_best_first(
                    draft.builder,
                    trie.contexts(draft.tokens),
                    partial(_predict, draft_state, pool),
                    trie.follow,
                )


def _predict(
    draft_state: SuffixDraftState, pool: SuffixPool, node: int, contexts: Contexts
) -> list[tuple[TokenId, float]]:
    """Return the tokens that followed some contexts, each with its chance after ``node``."""
    chances: dict[TokenId, float] = {}
    predictions: list[_Prediction] = []
    left, seen = 1.0, 0
    for context in contexts:
        if not context.length or context.num_followers > _MAX_FOLLOWERS:
            break
        # As frequent as the longer one before it, so always followed by the same.
        if context.count == seen:
            continue
        seen = context.count
        new = [(token, times) for token, times in context.followers() if token not in chances]
        if not new:
            continue
        kind = kind_of(context)
        rate, total = pool.rates.rate(kind), sum([times for _, times in new])
        for token, times in new:
            chances[token] = left * rate * times / total
        predictions.append(_Prediction(kind, frozenset([token for token, _ in new])))
        left *= 1.0 - rate
        if left < _MIN_REMAINDER or len(predictions) == _MAX_KINDS:
            break
    draft_state.predictions[node] = predictions
    return list(chances.items())
