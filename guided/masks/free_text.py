"""No constraint: the matcher that allows everything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guided.errors import TokenRejectedError
from guided.masks.mask import Mask, mask_of
from guided.masks.vocabulary import Vocabulary
from guided.spec import Forcing, TokenId

__all__ = ["FreeText"]


@dataclass(frozen=True, slots=True)
class FreeText:
    """Any text; every position is the same, so there is one of these for a vocabulary."""

    allowed: Mask
    is_complete: bool = False
    is_accepting: bool = True

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> FreeText:
        """The matcher over all tokens that stand for text or end it."""
        texts = [token for token, text in enumerate(vocabulary.token_bytes) if text is not None]
        mask = mask_of(len(vocabulary), [*texts, *vocabulary.end_ids])
        mask.flags.writeable = False
        return cls(mask)

    def mask(self) -> Mask:
        return self.allowed

    def fill(self, out: Mask) -> None:
        np.copyto(out, self.allowed)

    def allows(self, token: TokenId) -> bool:
        return bool(self.allowed[token >> 5] >> (token & 31) & 1)

    def advance(self, token: TokenId) -> FreeText:
        if not self.allows(token):
            raise TokenRejectedError(f"token {token} stands for no text", token=token)
        return self

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:  # noqa: ARG002 - nothing is
        return ()

    def likely_run(self) -> tuple[TokenId, ...]:
        return ()

    def shortest_end(self) -> tuple[TokenId, ...]:
        return ()

    def fits(self, budget: int) -> bool:
        return budget >= 0

    def mask_within(self, budget: int) -> Mask:  # noqa: ARG002 - it may end anywhere
        return self.allowed
