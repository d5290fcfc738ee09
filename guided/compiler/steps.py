"""One token further, where that is allowed: what matchers and draft trees move by."""

from __future__ import annotations

from guided.errors import TokenRejectedError
from guided.masks.compiled import ConstraintMatcher
from guided.spec import TokenId

__all__ = ["after", "is_end"]


def after(at: ConstraintMatcher, token: int) -> ConstraintMatcher | None:
    """The position after a token of text, ``None`` where it is not allowed.

    Hosts offer whatever their model has a logit for, which may be more than there are tokens.
    """
    if not 0 <= token < len(at.constraint.binding.vocabulary):
        return None
    try:
        return at.advance(TokenId(token))
    except TokenRejectedError:
        return None


def is_end(at: ConstraintMatcher, token: int) -> bool:
    """Whether a token ends the answer here."""
    return at.is_accepting and token in at.constraint.binding.vocabulary.end_ids
