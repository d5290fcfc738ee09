"""The bytes of all tokens in a row, for compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations

import numpy as np
from numpy.typing import NDArray

__all__ = ["TokenTexts"]


@dataclass(frozen=True, slots=True, eq=False)
class TokenTexts:
    """Token ``t`` stands for ``joined[bounds[t]:bounds[t + 1]]``, nothing where it is special."""

    token_bytes: Sequence[bytes | None]
    joined: NDArray[np.uint8]
    bounds: list[int]
    quoted: frozenset[bytes]
    """What stands between two quotes of a token: names that one token may begin and close."""

    @classmethod
    def of(cls, token_bytes: Sequence[bytes | None]) -> TokenTexts:
        """Lay the tokens out in a row."""
        texts = [text or b"" for text in token_bytes]
        # A copy, since what numpy makes of bytes is read-only, which is another type to numba.
        joined = np.frombuffer(b"".join(texts), dtype=np.uint8).copy()
        return cls(token_bytes, joined, [0, *accumulate(map(len, texts))], _quoted(texts))


def _quoted(texts: Sequence[bytes]) -> frozenset[bytes]:
    pieces = (text.split(b'"')[1:-1] for text in texts if text.count(b'"') > 1)
    return frozenset(
        b'"'.join(between[first:last])
        for between in pieces
        for first, last in combinations(range(len(between) + 1), 2)
    )
