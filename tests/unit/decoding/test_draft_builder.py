"""A drafted token is added with its whole forced run, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from guided.decoding import DraftBudget, DraftBuilder, DraftTree
from guided.errors import LimitExceededError
from guided.spec import Forcing, TokenId

ROOT, CHOSEN, FORCED, LAST = map(TokenId, range(5, 9))


@dataclass(frozen=True)
class Forcer:
    """After one chosen token it forces two more, of which the last may exceed a limit."""

    is_limited: bool
    text: tuple[TokenId, ...] = ()

    def allows(self, token: TokenId) -> bool:
        return (*self.text, token) == (CHOSEN, FORCED, LAST)[: len(self.text) + 1]

    def advance(self, token: TokenId) -> Forcer:
        if token == LAST and self.is_limited:
            raise LimitExceededError("too many states", limit=1)
        return Forcer(self.is_limited, (*self.text, token))

    def forced_run(self, _: Forcing) -> tuple[TokenId, ...]:
        return (FORCED, LAST) if self.text == (CHOSEN,) else ()


@pytest.mark.parametrize(
    ("is_limited", "tokens"), [(False, (ROOT, CHOSEN, FORCED, LAST)), (True, (ROOT,))]
)
def test_a_run_that_exceeds_a_limit_is_left_out_whole(
    *, is_limited: bool, tokens: tuple[TokenId, ...]
) -> None:
    matcher: Any = Forcer(is_limited)
    builder = DraftBuilder(
        DraftTree.chain([ROOT], matcher),
        Forcing.CANONICAL,
        budget=DraftBudget(8),
        tokens_left=9,
        end_ids=frozenset(),
    )
    added = builder.add(builder.root, CHOSEN, 1.0)
    assert added == (None if is_limited else 3)
    assert builder.tree().tokens == tokens
    assert builder.room == 8 - (len(tokens) - 1)
