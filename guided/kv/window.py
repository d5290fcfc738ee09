"""How far back a sliding window reaches."""

from __future__ import annotations

__all__ = ["blocks_behind_window"]


def blocks_behind_window(num_tokens: int, window: int | None, block_size: int) -> int:
    """Leading blocks that no token after the first ``num_tokens`` can see; ``None`` sees all.

    The next token, at position ``num_tokens``, sees ``window`` positions, its own among them.
    Window 4, blocks of 2, 7 tokens: it sees 4, 5, 6 and 7, so blocks 0 and 1 are behind::

        0 1 | 2 3 | 4 5 | 6 _
        behind    | seen
    """
    if window is None:
        return 0
    return max(0, num_tokens + 1 - window) // block_size
