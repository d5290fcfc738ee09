"""Whether a model can draft for another: both have to mean the same by a token."""

from __future__ import annotations

from itertools import zip_longest
from typing import Final

from guided.errors import ModelError
from guided.masks.vocabulary import Vocabulary

__all__ = ["require_same_tokens"]

_SHOWN: Final = 3


def require_same_tokens(
    target: Vocabulary, draft: Vocabulary, *, name: str, known: int, readable: int
) -> None:
    """Raise ``ModelError`` unless the draft model called ``name`` has the target's tokens.

    Every token has to stand for the same bytes in both, or for none. Models of one family often pad
    their vocabulary to different widths; so ids that stand for nothing may be missing, but of the
    ids ``known`` to the target's tokenizer, which a prompt may hold, all have to be among the
    ``readable`` ones of the draft model. Which tokens end a text may differ, as none of them is
    drafted.
    """
    pairs = zip_longest(target.token_bytes, draft.token_bytes)
    differing = [(token, *pair) for token, pair in enumerate(pairs) if pair[0] != pair[1]]
    if differing:
        shown = ", ".join(
            f"{token} is {_told(own)} to the model and {_told(its)} to the draft model"
            for token, own, its in differing[:_SHOWN]
        )
        more = f", and {len(differing) - _SHOWN} more differ" if len(differing) > _SHOWN else ""
        raise ModelError(
            f"the draft model {name} has another vocabulary: token {shown}{more}",
            hint="choose a draft model of the same family, with the same tokenizer",
        )
    if known > readable:
        raise ModelError(
            f"the draft model {name} reads tokens up to {readable - 1}, but the tokenizer of the "
            f"model has tokens up to {known - 1}",
            hint="choose a draft model of the same family, with the same tokenizer",
        )


def _told(text: bytes | None) -> str:
    return "special or unused" if text is None else repr(text)
