"""The tokens before a choice, as penalties and bans read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from guided.spec import TokenId

__all__ = ["NO_HISTORY", "History", "TokenLog"]


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Prompt and answer up to the place where a token is to be chosen."""

    tokens: NDArray[np.int64]
    prompt_length: int
    end_ids: frozenset[TokenId]
    """Tokens that end an answer; a chat template writes them into the prompt as well."""

    @property
    def answer(self) -> NDArray[np.int64]:
        """The part that is not the prompt."""
        return self.tokens[self.prompt_length :]

    def behind(self, path: Sequence[TokenId]) -> History:
        """The history at a node of a draft tree, ``path`` being the tokens that lead there."""
        if not path:
            return self
        return replace(self, tokens=np.concatenate((self.tokens, np.array(path, dtype=np.int64))))


NO_HISTORY = History(np.empty(0, dtype=np.int64), 0, frozenset())
"""Before the first token of an empty prompt, or where nobody reads it."""


class TokenLog:
    """A growing sequence of tokens as an array, each token converted once."""

    def __init__(self) -> None:
        self._held = np.empty(256, dtype=np.int64)
        self._count = 0

    def read(self, tokens: Sequence[TokenId]) -> NDArray[np.int64]:
        """All of ``tokens``; what was read before must be their beginning."""
        if len(tokens) > len(self._held):
            # Views that were handed out keep the old memory, whose tokens are the same.
            self._held = np.resize(self._held, 2 * len(tokens))
        self._held[self._count : len(tokens)] = tokens[self._count :]
        self._count = len(tokens)
        return self._held[: self._count]
