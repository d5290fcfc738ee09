"""Which tokens two models understand differently, and how one reads the other's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from guided.drafters.draft_model import Respelling, describe_difference
from guided.drafters.draft_model.respelling import RespelledText
from guided.errors import ModelError
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, spell, spell_bytes
from tests.kit.built_tokenizers import BUILT, built_vocabulary


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
def test_the_same_tokens_do_not_differ(draft: Vocabulary) -> None:
    assert describe_difference(TARGET, draft, known=SIZE, readable=SIZE) is None
    assert describe_difference(draft, TARGET, known=SIZE, readable=SIZE) is None


def test_the_tokens_that_differ_are_told() -> None:
    other = list(TOKEN_BYTES)
    other[-1], other[-2] = other[-2], other[-1]
    assert describe_difference(TARGET, vocabulary(other), known=SIZE, readable=SIZE) == (
        f"token {SIZE - 2} is b'12' and b'cdna', {SIZE - 1} is b'cdna' and b'12'"
    )
    many = (*TOKEN_BYTES[:258], *[bytes([65, 65, n]) for n in range(SIZE - 258)])
    told = describe_difference(TARGET, vocabulary(many), known=SIZE, readable=SIZE)
    assert told is not None
    assert told.endswith(", and 10 more differ")


def test_a_token_that_a_prompt_may_hold_has_to_be_readable() -> None:
    target = vocabulary((*TOKEN_BYTES, None))
    told = describe_difference(target, TARGET, known=SIZE + 1, readable=SIZE)
    assert told == f"there are tokens up to {SIZE} and {SIZE - 1}"


def respelling(target: Vocabulary, draft: Vocabulary) -> Respelling:
    return Respelling(
        target,
        draft,
        special={TokenId(0): "<end>", TokenId(1): "<turn>"},
        known_special={"<end>": TokenId(1)},
    )


@pytest.mark.parametrize("draft", BUILT)
@pytest.mark.parametrize("target", ["built like GPT-4", "built unigram"])
def test_every_token_is_read_as_the_same_bytes(target: str, draft: str) -> None:
    own, its = built_vocabulary(target), built_vocabulary(draft)
    between = respelling(own, its)
    for token, text in enumerate(own.token_bytes):
        spelled = between.spell(TokenId(token))
        assert spelled
        if text is not None:
            assert its.decode(spelled) == text
            assert len(spelled) == 1 or text not in its.token_bytes


def test_special_tokens_are_read_by_their_names() -> None:
    between = respelling(TARGET, TARGET)
    assert between.spell(TokenId(0)) == (TokenId(1),)
    assert TARGET.decode(between.spell(TokenId(1))) == b"<turn>"


def test_logits_are_those_of_the_tokens_with_the_same_bytes() -> None:
    draft = vocabulary((None, None, *[bytes([255 - byte]) for byte in range(256)], b"na", b"zz"))
    between = respelling(TARGET, draft)
    assert between.num_common == 257
    rows = np.random.default_rng(0).normal(size=(2, len(draft))).astype(np.float32)
    found = between.logits(rows)
    for token, text in enumerate(TOKEN_BYTES):
        if text is not None and text in draft.token_bytes:
            assert (found[:, token] == rows[:, draft.token_bytes.index(text)]).all()
        else:
            assert (found[:, token] < -1e29).all()


def test_a_draft_model_that_does_not_know_every_byte_is_refused() -> None:
    draft = vocabulary(TOKEN_BYTES[:200])
    with pytest.raises(ModelError, match=r"has no token for byte 0xc6 and 57 more"):
        respelling(TARGET, draft)


def test_a_text_is_spelled_as_it_grows() -> None:
    between = respelling(TARGET, vocabulary(TOKEN_BYTES[:258]))
    text = RespelledText(between)
    for end in range(1, 9):
        tokens = spell_bytes(b"name abc 12")[:end]
        expected = b"".join(TOKEN_BYTES[token] or b"" for token in tokens)
        assert TARGET.decode(text.update(tokens)) == expected
    assert TARGET.decode(text.update(spell_bytes(b"abcd"))) == b"abcd"
