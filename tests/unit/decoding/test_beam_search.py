"""Beam search alone: what is given up in the middle of a round has changed nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from guided.decoding.beam_search import BeamSearch
from guided.spec import Beams, FinishReason, Forcing
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, WordMatcher, spell_bytes


class _GivenUpError(BaseException):
    pass


class StuckMatcher:
    """Never finds the run after any token but the last of a word."""

    def __init__(self, inner: WordMatcher) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def advance(self, token: Any) -> StuckMatcher:
        return StuckMatcher(self._inner.advance(token))

    def forced_run(self, forcing: Forcing) -> Any:
        if b"bd" in self._inner.rests:
            raise _GivenUpError
        return self._inner.forced_run(forcing)


def test_a_round_that_was_given_up_is_closed_as_if_it_had_not_begun() -> None:
    matcher: Any = StuckMatcher(WordMatcher.of(("a", "xbd")))
    search = BeamSearch(
        Beams(2),
        matcher,
        max_tokens=9,
        forcing=Forcing.OFF,
        end_ids=END_IDS,
        is_constrained=True,
    )
    search.read_logits(0, 0, np.zeros(len(TOKEN_BYTES), np.float32))
    with pytest.raises(_GivenUpError):
        search.advance()
    search.close_for_deadline()
    assert [(each.tokens, each.finish_reason) for each in search.answers] == [
        (spell_bytes(b"a"), FinishReason.DEADLINE_CLOSED)
    ]
