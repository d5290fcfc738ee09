"""A tokenizer made from its description is the one that its text would be read as."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from guided.masks.described_tokenizer import Description, tokenizer_from
from tests.kit.tokenizers import real_tokenizer


def described(tokenizer: Tokenizer) -> Description:
    description: Description = json.loads(tokenizer.to_str())
    return description


def bpe() -> Tokenizer:
    vocab = {"<unk>": 0, "a": 1, "b": 2, " ": 3, "ab": 4, "<s>": 5}
    tokenizer = Tokenizer(models.BPE(vocab, [("a", "b")], unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "_")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits()])
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(["<s>", "<late>"])
    tokenizer.add_tokens([AddedToken("<tool>", lstrip=True, normalized=False)])
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("b", -2.5)], unk_id=0))
    tokenizer.add_special_tokens(["</s>"])
    return tokenizer


@pytest.mark.parametrize("make", [bpe, unigram])
def test_all_that_is_described_comes_back(make: Callable[[], Tokenizer]) -> None:
    description = described(make())
    assert described(tokenizer_from(description)) == description


@pytest.mark.parametrize("name", ["llama2", "llama3", "gemma3", "deepseek_v3"])
def test_a_real_one_comes_back(name: str) -> None:
    description = described(real_tokenizer(name).backend_tokenizer)
    assert described(tokenizer_from(description)) == description


def test_merges_may_be_written_as_in_older_files() -> None:
    description = described(bpe())
    older = {**description["model"], "merges": ["a b"]}
    assert described(tokenizer_from({**description, "model": older})) == description


def test_settings_that_are_not_known_are_passed_over() -> None:
    """As ``Tokenizer.from_str`` does."""
    description = described(bpe())
    newer = {**description["model"], "made_by": "somebody"}
    assert described(Tokenizer.from_str(json.dumps({**description, "model": newer}))) == description
    assert described(tokenizer_from({**description, "model": newer})) == description
