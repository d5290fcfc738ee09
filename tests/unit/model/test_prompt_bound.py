"""A prompt refused by its bytes alone has too many tokens; one far too long is refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.errors import LimitExceededError
from guided.model.load import ModelTexts
from guided.model.prompt_bound import prompt_bound
from guided.spec import Message
from guided.spec.prompt_bound import PromptBound
from tests.kit.built_tokenizers import BUILT, built_vocabulary, loaded
from tests.kit.effort import is_long, times
from tests.kit.tokenizers import TOKENIZERS, real_tokenizer, real_vocabulary

NAMES = (
    (*TOKENIZERS, *BUILT)
    if is_long()
    else ("smollm2", "llama2", "built like GPT-4", "built with fallback", "built unigram")
)


@cache
def model(name: str) -> ModelTexts:
    if name in TOKENIZERS:
        return ModelTexts(name, real_tokenizer(name), real_vocabulary(name), 100)
    return ModelTexts(name, loaded(BUILT[name]()), built_vocabulary(name), 100)


@cache
def _bound(name: str) -> PromptBound:
    found = prompt_bound(model(name), 1)
    assert found is not None
    return found


def bound(name: str, window: int) -> PromptBound:
    return replace(_bound(name), context_window=window)


def is_refused(held: PromptBound, text: str) -> bool:
    try:
        held.check(text)
    except LimitExceededError:
        return True
    return False


@cache
def densest(name: str) -> list[str]:
    """Texts of very few tokens: long tokens, special ones, and text that normalising shortens."""
    tokens = sorted(filter(None, model(name).vocabulary.token_bytes), key=len)[-40:]
    longest = [text.decode(errors="ignore") for text in tokens]
    return [*longest, *model(name).tokenizer.all_special_tokens, *SHRINKING, *LOST]


SHRINKING = ["\u1fbe\u0308\u0301", "\u1112\u1161\u11ab", "\u212a", "e\u0301", "\u1fef"]
LOST = ["\x00", "\x01", "\x7f", " " * 50, "\u3000" * 9]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=times(20))
@given(data=st.data())
def test_nothing_is_refused_that_would_have_fitted(name: str, data: st.DataObject) -> None:
    text = "".join(data.draw(st.lists(st.sampled_from(densest(name)) | st.text(max_size=4))))
    tokens = len(model(name).tokenizer.encode(text, add_special_tokens=False))
    # The answer takes at least one token.
    assert not is_refused(bound(name, tokens + 1), text)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_far_too_long_is_refused(name: str) -> None:
    held = bound(name, 100)
    assert is_refused(held, "a" * (100 * held.bytes_per_token))
    assert held.bytes_per_token < 2000


def test_normalising_shortens_no_text_by_more_than_is_reckoned_with() -> None:
    for form, factor in (("NFC", 4), ("NFD", 3)):
        for code in range(sys.maxunicode + 1):
            if not 0xD800 <= code < 0xE000:
                text = chr(code)
                made = normalize(form, text)  # type: ignore[arg-type]
                assert len(text.encode()) <= factor * len(made.encode())


def test_messages_count_together_and_the_error_has_the_numbers() -> None:
    held = PromptBound(context_window=3, bytes_per_token=4)
    held.check((Message("user", "abcd"), Message("assistant", "efgh")))
    with pytest.raises(LimitExceededError) as caught:
        held.check((Message("user", "abcd"), Message("assistant", "éfgh")))
    assert str(caught.value) == (
        "the prompt has 9 bytes, which are 3 tokens at least, but the context window holds 3; "
        "shorten the prompt"
    )
    assert (caught.value.limit, caught.value.field) == (3, "prompt")
