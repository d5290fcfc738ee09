"""Describes the mask after some tokens of an answer, for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.errors import RequestError, TokenRejectedError
from guided.masks.mask import tokens_of
from guided.masks.matcher import Matcher
from guided.masks.vocabulary import Vocabulary
from guided.runtime.work_budget import spend, with_pauses
from guided.spec import Forcing, TokenId
from guided.spec.findings import AllowedToken, MaskReport

__all__ = ["MAX_SHOWN", "describe_mask"]

MAX_SHOWN: Final = 200
"""The most allowed tokens that are listed."""


def describe_mask(start: Matcher, tokens: Sequence[TokenId], vocabulary: Vocabulary) -> MaskReport:
    """Return a report on the tokens that may follow ``tokens``, read from ``start`` on.

    Raises RequestError for a token that is not allowed or does not exist, and LimitExceededError if
    the constraint hits a limit. At most ``MAX_SHOWN`` allowed tokens are listed, those with the
    lowest ids. Each token costs one unit of work, if the caller limits work.
    """
    matcher = start
    for index, token in with_pauses(enumerate(tokens)):
        spend(1)
        if not 0 <= token < len(vocabulary):
            raise RequestError(
                f"tokens[{index}] is {token}, and the vocabulary has {len(vocabulary)} tokens",
                field="tokens",
            )
        try:
            matcher = matcher.advance(token)
        except TokenRejectedError as error:
            raise RequestError(f"tokens[{index}]: {error}", field="tokens") from error
    allowed = tokens_of(matcher.mask())
    return MaskReport(
        allowed=len(allowed),
        forbidden=len(vocabulary) - len(allowed),
        may_end=matcher.is_accepting,
        forced=vocabulary.decode(matcher.forced_run(Forcing.CANONICAL)),
        first=tuple(
            AllowedToken(TokenId(token), vocabulary.token_bytes[token] or b"")
            for token in allowed[:MAX_SHOWN].tolist()
        ),
    )
