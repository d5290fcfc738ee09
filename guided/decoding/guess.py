"""What may be guessed, and how much is thought of each kind before anything is known."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from guided.spec import TokenId

__all__ = ["ASSUMED_RATES", "Guess", "GuessKind"]


class GuessKind(StrEnum):
    """Where a guess comes from; rates of acceptance are kept for each kind."""

    COPY_16 = "copy behind 16 bytes"
    """The token that followed the same 16 bytes or more before, in the prompt or the answer."""
    COPY_8 = "copy behind 8 bytes"
    COPY_5 = "copy behind 5 bytes"
    COPY_3 = "copy behind 3 bytes"
    COPY_2 = "copy behind 2 bytes"
    COPY_OTHER = "another copy"
    """What followed the next best match: as long or shorter, and further back."""
    SPELLING = "spelling"
    """The tokenizer's spelling of certain bytes, where what follows could still change it."""
    SHORTER_SPELLING = "shorter spelling"
    """The same bytes in a shorter token."""
    CHOICE = "choice"
    """One of few ways on."""


class Guess:
    """One token that may come next."""

    __slots__ = ("kind", "share", "token")

    def __init__(self, token: TokenId, kind: GuessKind, share: float = 1.0) -> None:
        self.token = token
        self.kind = kind
        self.share = share
        """Of several guesses that exclude each other, how much of the kind's chance is its own."""


ASSUMED_RATES: Final[Mapping[GuessKind, float]] = MappingProxyType(
    {
        GuessKind.COPY_16: 0.9,
        GuessKind.COPY_8: 0.75,
        GuessKind.COPY_5: 0.6,
        GuessKind.COPY_3: 0.4,
        GuessKind.COPY_2: 0.3,
        GuessKind.COPY_OTHER: 0.1,
        GuessKind.SPELLING: 0.6,
        GuessKind.SHORTER_SPELLING: 0.3,
        GuessKind.CHOICE: 0.65,
    }
)
"""Where a sequence's own rates start from; ``benchmarks/model_calls.py`` prints measured ones."""
