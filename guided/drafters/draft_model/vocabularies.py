"""Whether a token means the same to a draft model as to the target."""

from __future__ import annotations

from itertools import zip_longest
from typing import Final

from guided.masks.vocabulary import Vocabulary

__all__ = ["describe_difference"]

_SHOWN: Final = 3


def describe_difference(
    target: Vocabulary, draft: Vocabulary, *, known: int, readable: int
) -> str | None:
    """Return which tokens two models understand differently; ``None`` if they are the same.

    Every token has to stand for the same bytes in both, or for none. Models of one family often pad
    their vocabulary to different widths; so ids that stand for nothing may be missing. But all ids
    ``known`` to the target's tokenizer, which a prompt may hold, have to be among the ``readable``
    ones of the draft model. Tokens that end a text may differ, because none of them is drafted.
    """
    pairs = zip_longest(target.token_bytes, draft.token_bytes)
    differing = [(token, *pair) for token, pair in enumerate(pairs) if pair[0] != pair[1]]
    if differing:
        shown = ", ".join(
            f"{token} is {_describe(own)} and {_describe(its)}"
            for token, own, its in differing[:_SHOWN]
        )
        more = f", and {len(differing) - _SHOWN} more differ" if len(differing) > _SHOWN else ""
        return f"token {shown}{more}"
    if known > readable:
        return f"there are tokens up to {known - 1} and {readable - 1}"
    return None


def _describe(text: bytes | None) -> str:
    return "special or unused" if text is None else repr(text)
