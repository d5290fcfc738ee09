"""Advance a position by one token if that is allowed; matchers and draft trees use this."""

from __future__ import annotations

from guided.errors import TokenRejectedError
from guided.masks.compiled import ConstraintMatcher
from guided.spec import TokenId

__all__ = ["after", "is_end"]


def after(at: ConstraintMatcher, token: int) -> ConstraintMatcher | None:
    """Return the position after a token of text, ``None`` if the token is not allowed.

    Hosts offer any token that their model has a logit for, and there may be more logits than
    tokens.
    """
    if not 0 <= token < len(at.constraint.binding.vocabulary):
        return None
    try:
        return at.advance(TokenId(token))
    except TokenRejectedError:
        return None


def is_end(at: ConstraintMatcher, token: int) -> bool:
    """Return whether a token ends the answer here."""
    return at.is_accepting and token in at.constraint.binding.vocabulary.end_ids
