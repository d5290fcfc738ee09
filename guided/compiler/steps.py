"""One token after a position, for matchers that move in place and for draft trees."""

from __future__ import annotations

from guided.errors import TokenRejectedError
from guided.masks.compiled import ConstraintMatcher
from guided.spec import TokenId

__all__ = ["ends_answer", "try_advance"]


def try_advance(matcher: ConstraintMatcher, token: int) -> ConstraintMatcher | None:
    """Return the matcher after a token, ``None`` if the token is not allowed or ends the answer.

    Hosts offer any token that their model has a logit for, and there may be more logits than
    tokens.
    """
    if not 0 <= token < len(matcher.constraint.binding.vocabulary):
        return None
    try:
        return matcher.advance(TokenId(token))
    except TokenRejectedError:
        return None


def ends_answer(matcher: ConstraintMatcher, token: int) -> bool:
    """Return whether this is an end-of-sequence token, and the answer may end here."""
    return matcher.is_accepting and token in matcher.constraint.binding.vocabulary.end_ids
