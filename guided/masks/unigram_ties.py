"""Where Unigram tokenizers have several best spellings.

They take the spelling with the greatest sum of scores. ``.`` and ``..`` have the same sum as ``..``
and ``.``: then rounding decides, which depends on all the text before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["UnigramTies"]

_ROUNDING: Final = 1e-6
"""Sums that differ by less count as equal: far more than thousands of sums lose by rounding."""
_UNKNOWN_PENALTY: Final = 10.0
"""How much worse an unknown character is than the worst piece."""


class UnigramTies:
    """Finds ties by the scores of all pieces, of which there is at least one."""

    def __init__(self, scores: Iterable[tuple[str, float]]) -> None:
        self._scores = dict(scores)
        self._longest = max(map(len, self._scores))
        """In characters."""
        self._unknown = min(self._scores.values()) - _UNKNOWN_PENALTY

    def agreed_length(self, text: str) -> int:
        """Return how many characters of a text all best spellings agree on.

        What comes after the first tie is not examined, even if they agree again; 0 if the
        first pieces already differ.
        """
        ends_by_begin = self._best_segmentations(text)
        at = 0
        while len(ends := ends_by_begin.get(at, [])) == 1:
            at = ends[0]
        return at

    def _best_segmentations(self, text: str) -> dict[int, list[int]]:
        """Return the ends of the pieces of all best segmentations, by where the pieces begin.

        This is the Viterbi lattice of the text, reduced to its best paths.

        Every text has a spelling, since a character that is no piece counts as an unknown one. The
        end of the text has no pieces.
        """
        size = len(text)
        best = [0.0] + [-float("inf")] * size
        before: list[list[tuple[int, float]]] = [[] for _ in range(size + 1)]
        for begin in range(size):
            for end in range(begin + 1, min(begin + self._longest, size) + 1):
                score = self._scores.get(text[begin:end])
                if score is None and end == begin + 1:
                    score = self._unknown
                if score is not None:
                    before[end].append((begin, best[begin] + score))
                    best[end] = max(best[end], best[begin] + score)
        # Backwards from the end, only along best segmentations: places at which none of them has a
        # boundary never get into ``ends_by_begin``.
        ends_by_begin: dict[int, list[int]] = {size: []}
        for end in range(size, 0, -1):
            if end not in ends_by_begin:
                continue
            for begin, total in before[end]:
                if total >= best[end] - _ROUNDING:
                    ends_by_begin.setdefault(begin, []).append(end)
        return ends_by_begin
