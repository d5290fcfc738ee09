"""How a copy of a tokenizer without control tokens reads texts that spell them."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from guided.model.control_tokens import ControlTokens
from guided.model.tokenizer_copy import without_control

LETTERS = "<s>0x41A"
VOCABULARY = {letter: token for token, letter in enumerate(dict.fromkeys(LETTERS))}


def tokenizer_of(*others: str, merges: Any = (), **options: Any) -> Tokenizer:
    """Byte pairs of a few letters, and of other texts, which are special."""
    vocabulary = VOCABULARY | {
        name: token for token, name in enumerate(others, start=len(VOCABULARY))
    }
    tokenizer = Tokenizer(models.BPE(vocabulary, [*merges], **options))
    tokenizer.add_special_tokens(["<s>", "<0x41>"])
    return tokenizer


def read(tokenizer: Tokenizer, text: str) -> list[str]:
    return list(tokenizer.encode(text, add_special_tokens=False).tokens)


def without(tokenizer: Tokenizer, *names: str) -> Tokenizer:
    return without_control(tokenizer, ControlTokens(names))


def test_a_model_that_spells_a_control_token_by_letters_is_shared() -> None:
    tokenizer = tokenizer_of("<s", "<s>", merges=[("<", "s")])
    copy = without(tokenizer, "<s>")
    assert read(copy, "A<s>A") == ["A", "<s", ">", "A"]
    assert read(tokenizer, "A<s>A") == ["A", "<s>", "A"]
    tokenizer.model.fuse_unk = True
    assert copy.model.fuse_unk


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ({"merges": [("<", "s"), ("<s", ">")]}, None),
        ({"merges": [("<", "s"), ("<s", ">")], "dropout": 1e-9}, None),
        ({"ignore_merges": True}, pre_tokenizers.Split("A", "isolated")),
    ],
)
def test_a_model_that_makes_a_control_token_of_letters_is_none_of_the_copy(
    options: dict[str, Any], step: pre_tokenizers.PreTokenizer | None
) -> None:
    tokenizer = tokenizer_of("<s", "<s>", **options)
    if step is not None:
        tokenizer.pre_tokenizer = step
    (token,) = tokenizer.model.tokenize("<s>")
    copy = without(tokenizer, "<s>")
    assert token.id not in copy.encode("A<s>A").ids
    assert "".join(read(copy, "A<s>A")) == "A<s>A"


def test_a_control_token_does_not_come_of_a_byte() -> None:
    tokenizer = tokenizer_of("<0x42>", byte_fallback=True)
    assert read(tokenizer, "B") == ["<0x42>"]
    assert "<0x42>" not in read(without(tokenizer, "<0x42>"), "B")


def test_what_is_looked_for_beside_control_tokens_still_is() -> None:
    """With their old ids, even if a control token before them is gone."""
    tokenizer = tokenizer_of("<s>")
    tokenizer.add_tokens(["<A>", "44"])
    copy = without(tokenizer, "<s>", "<A>")
    assert read(copy, "<s>44<A>") == ["<", "s", ">", "44", "<", "A", ">"]
    assert copy.token_to_id("44") == tokenizer.token_to_id("44")
