"""A model drafts for another only where both mean the same by every token."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from guided.drafters.draft_model import require_same_tokens
from guided.errors import ModelError
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, spell


def vocabulary(tokens: Sequence[bytes | None], ends: Sequence[int] = sorted(END_IDS)) -> Vocabulary:
    return Vocabulary(tuple(tokens), frozenset(map(TokenId, ends)), spell)


TARGET = vocabulary(TOKEN_BYTES)
SIZE = len(TOKEN_BYTES)


@pytest.mark.parametrize(
    "draft",
    [
        TARGET,
        # Wider and narrower logits, and other tokens that end a text.
        vocabulary((*TOKEN_BYTES, None, None)),
        vocabulary(TOKEN_BYTES, ends=[1]),
    ],
)
def test_the_same_tokens_are_taken(draft: Vocabulary) -> None:
    require_same_tokens(TARGET, draft, name="small", known=SIZE, readable=SIZE)
    require_same_tokens(draft, TARGET, name="small", known=SIZE, readable=SIZE)


def test_others_are_refused_with_the_tokens_that_differ() -> None:
    other = list(TOKEN_BYTES)
    other[-1], other[-2] = other[-2], other[-1]
    with pytest.raises(ModelError) as caught:
        require_same_tokens(TARGET, vocabulary(other), name="small", known=SIZE, readable=SIZE)
    assert str(caught.value) == (
        f"the draft model small has another vocabulary: token {SIZE - 2} is b'12' to the model and "
        f"b'cdna' to the draft model, {SIZE - 1} is b'cdna' to the model and b'12' to the draft "
        "model; choose a draft model of the same family, with the same tokenizer"
    )


def test_only_the_first_of_many_are_named() -> None:
    other = (*TOKEN_BYTES[:258], *[bytes([65, 65, n]) for n in range(SIZE - 258)])
    with pytest.raises(ModelError, match=", and 10 more differ; choose"):
        require_same_tokens(TARGET, vocabulary(other), name="small", known=SIZE, readable=SIZE)


def test_a_token_that_a_prompt_may_hold_has_to_be_readable() -> None:
    target = vocabulary((*TOKEN_BYTES, None))
    with pytest.raises(
        ModelError, match=f"reads tokens up to {SIZE - 1}, but .* has tokens up to {SIZE};"
    ):
        require_same_tokens(target, TARGET, name="small", known=SIZE + 1, readable=SIZE)
