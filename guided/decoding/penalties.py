"""Changes to logits before the temperature: bias, penalties, and the ban on repeats.

Each step is a function of the allowed tokens (ascending ids, ``[allowed]``), their logits and the
history. Tokens that end the answer are exempt: a chat template may have put one into the prompt,
and penalising the answer's own end for that would make answers run on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.decoding.partial_match import PartialMatch
from guided.spec import TokenId
from guided.spec.sampling import Sampling

__all__ = [
    "NO_HISTORY",
    "GrowingTokenArray",
    "History",
    "add_bias",
    "adjust_logits",
    "find_repeating_tokens",
    "penalise_answer",
    "penalise_repetition",
]

Tokens = NDArray[np.int64]
Logits = NDArray[np.float64]

_LONG_NGRAM: Final = 512
"""Longer n-grams are searched for token by token: comparing all windows would take the product of
the lengths of n-gram and text, which is seconds for a long text."""


def adjust_logits(
    tokens: Tokens, logits: NDArray[np.float32], sampling: Sampling, history: History
) -> tuple[Tokens, Logits]:
    """Return the tokens that may be chosen, and their logits, after all steps."""
    adjusted = logits.astype(np.float64)
    if sampling.logit_bias:
        add_bias(tokens, adjusted, sampling.logit_bias)
    if sampling.repetition_penalty != 1.0:
        penalise_repetition(tokens, adjusted, sampling.repetition_penalty, history)
    if sampling.presence_penalty != 0.0 or sampling.frequency_penalty != 0.0:
        penalise_answer(
            tokens, adjusted, sampling.presence_penalty, sampling.frequency_penalty, history
        )
    if sampling.no_repeat_ngram_size is None:
        return tokens, adjusted
    # The ban comes last: it considers what penalties have left possible.
    repeats = find_repeating_tokens(sampling.no_repeat_ngram_size, history)
    banned, _ = _find(tokens, repeats[_is_penalisable(repeats, history)])
    if len(banned) == 0:
        return tokens, adjusted
    left = np.delete(np.arange(len(tokens)), banned)
    # If every token would repeat, or no other is possible, the ban is lifted.
    if not (adjusted[left] > -np.inf).any():
        return tokens, adjusted
    return tokens[left], adjusted[left]


def add_bias(tokens: Tokens, logits: Logits, bias: tuple[tuple[int, float], ...]) -> None:
    """Add each token's bias to its logit, in place."""
    # Biased tokens that the mask does not allow stay out, however large their bias is.
    biased = np.array([token for token, _ in bias], dtype=np.int64)
    added = np.array([amount for _, amount in bias])
    found, is_there = _find(tokens, biased)
    logits[found] += added[is_there]


def penalise_repetition(tokens: Tokens, logits: Logits, penalty: float, history: History) -> None:
    """Divide the positive logits of tokens seen before, and multiply the others, in place.

    Prompt and answer count, as in CTRL (arXiv:1909.05858) and transformers.
    """
    seen, _ = _count_in_text(tokens, history.tokens, history)
    # Dividing a negative logit would make the token likelier.
    before = logits[seen]
    logits[seen] = np.where(before < 0, before * penalty, before / penalty)


def penalise_answer(
    tokens: Tokens, logits: Logits, presence: float, frequency: float, history: History
) -> None:
    """Subtract ``presence`` and ``count * frequency`` from tokens of the answer, in place.

    Forced tokens count and the prompt does not, as the OpenAI API defines it.
    """
    seen, counts = _count_in_text(tokens, history.answer, history)
    logits[seen] -= presence + frequency * counts


def find_repeating_tokens(ngram_size: int, history: History) -> Tokens:
    """Return the tokens that would complete an n-gram that occurred before, ascending.

    ``a b c a b`` and size 3 → ``c``. Tokens that end the answer are included: the caller exempts
    them.
    """
    tokens = history.tokens
    # Compare all windows of ngram_size - 1 tokens with the last one, an offset at a time.
    num_windows = len(tokens) - ngram_size + 1
    if num_windows <= 0:
        return tokens[:0]
    if ngram_size > _LONG_NGRAM:
        last = tokens[num_windows:].tolist()
        match = PartialMatch(last)
        ends = [end for end, token in enumerate(tokens[:-1].tolist(), 1) if match.read(token)]
        return np.unique(tokens[ends])
    matches = np.ones(num_windows, dtype=np.bool_)
    for offset in range(ngram_size - 1):
        matches &= tokens[offset : offset + num_windows] == tokens[num_windows + offset]
    return np.unique(tokens[ngram_size - 1 :][matches])


def _count_in_text(
    tokens: Tokens, text: Tokens, history: History
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of the ``tokens`` that occur in a text, and how often each does.

    Tokens that end an answer are left out.
    """
    # With counts numpy sorts, which is many times faster than its hashing.
    seen, counts = np.unique(text, return_counts=True)
    is_penalised = _is_penalisable(seen, history)
    found, is_there = _find(tokens, seen[is_penalised])
    return found, counts[is_penalised][is_there]


def _is_penalisable(seen: Tokens, history: History) -> NDArray[np.bool_]:
    """Return which of these tokens penalties and the ban apply to: those that end no answer."""
    is_no_end = np.ones(len(seen), dtype=np.bool_)
    for end in history.end_ids:
        is_no_end &= seen != end
    return is_no_end


def _find(tokens: Tokens, wanted: Tokens) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the indices of wanted tokens among ascending ``tokens``, and which are present."""
    # A token above the last one would have an index beyond the array.
    found = np.minimum(np.searchsorted(tokens, wanted), len(tokens) - 1)
    is_there: NDArray[np.bool_] = tokens[found] == wanted
    return found[is_there], is_there


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Prompt and answer up to the place where a token is to be chosen."""

    tokens: NDArray[np.int64]
    prompt_length: int
    end_ids: frozenset[TokenId]
    """Tokens that end an answer; a chat template puts them into the prompt as well."""

    @property
    def answer(self) -> NDArray[np.int64]:
        """The part that is not the prompt."""
        return self.tokens[self.prompt_length :]

    def after(self, path: Sequence[TokenId]) -> History:
        """Return the history at a node of a draft tree; ``path`` has the tokens up to there."""
        if not path:
            return self
        # A copy: siblings in the tree continue from the same history.
        return replace(self, tokens=np.concatenate((self.tokens, np.array(path, dtype=np.int64))))


NO_HISTORY = History(np.empty(0, dtype=np.int64), 0, frozenset())
"""For an empty prompt, or for sampling that does not read the history."""


class GrowingTokenArray:
    """A growing sequence of tokens as an array, each token converted once."""

    def __init__(self) -> None:
        self._buffer = np.empty(256, dtype=np.int64)
        self._count = 0

    def as_array(self, tokens: Sequence[TokenId]) -> NDArray[np.int64]:
        """Return all of ``tokens`` as an array; they must begin with those of the last call."""
        if len(tokens) > len(self._buffer):
            # Views that were handed out keep the old memory, whose tokens are the same.
            self._buffer = np.resize(self._buffer, 2 * len(tokens))
        self._buffer[self._count : len(tokens)] = tokens[self._count :]
        self._count = len(tokens)
        return self._buffer[: self._count]
