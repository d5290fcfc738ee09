"""Small tokenizers of every sort that knows all bytes, made in a second."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from tokenizers import Regex as Pattern
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.masks.vocabulary import Vocabulary

__all__ = ["BUILT", "built_vocabulary", "loaded"]

_TRAINING = [
    *("the names don't end; it's in the thing", '{"name": "städte", "a b": [1, 2024], "x": ""}'),
    *("a\n  b\n\n\t\tc   d", "</s><unk> <0x41> <|im_end|>", "北京 日本語 名前 北京"),
    *("😀😁 👩\u200d👩\u200d👧 é e\u0301", "!!! ... === -- http://a.b/?c=d"),
    *("12 123 1234 3.14", '}},{{ []] ":" "," {""}'),
] * 4  # fmt: skip
_GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Pattern(pattern), "isolated")


def _byte_level(*steps: pre_tokenizers.PreTokenizer, regex: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, last])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|im_end|>"],
    )
    tokenizer.train_from_iterator(_TRAINING, trainer)
    tokenizer.add_tokens([AddedToken("[x]", normalized=False), AddedToken("<tool_call>")])
    return tokenizer


def _byte_tokens() -> list[str]:
    return [f"<0x{byte:02X}>" for byte in range(256)]


def _fallback_bpe(
    step: pre_tokenizers.PreTokenizer | None = None,
    *,
    letter: str = "▁",
    is_written_first: bool = True,
    whole_pieces: Sequence[str] = (),
    added: Sequence[AddedToken] = (),
) -> Tokenizer:
    """A BPE model that falls back to bytes, learnt without ``step``, so tokens cross its splits.

    Unless ``is_written_first``, the ``step`` writes the ``letter`` for spaces itself. With
    ``whole_pieces``, the model has these as well and looks up whole pieces.
    """
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", letter)
    special = ["<unk>", "<s>", "</s>", *_byte_tokens()]
    trainer = trainers.BpeTrainer(vocab_size=900, show_progress=False, special_tokens=special)
    tokenizer.train_from_iterator([*_TRAINING, *map(chr, range(0x20, 0x7F))], trainer)
    if step is not None:
        tokenizer.pre_tokenizer = step
    bare = json.loads(tokenizer.to_str())
    bare["added_tokens"] = bare["added_tokens"][:3]
    if not is_written_first:
        bare["normalizer"] = None
    bare["model"]["ignore_merges"] = bool(whole_pieces)
    vocab = bare["model"]["vocab"]
    for piece in whole_pieces:
        vocab.setdefault(piece, len(vocab))
    tokenizer = Tokenizer.from_str(json.dumps(bare))
    tokenizer.add_tokens([*added])
    return tokenizer


def _unigram(*, is_split: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    step = pre_tokenizers.Metaspace(prepend_scheme="never", split=is_split)
    tokenizer.pre_tokenizer = step
    trainer = trainers.UnigramTrainer(vocab_size=300, show_progress=False, unk_token="<unk>")
    tokenizer.train_from_iterator(_TRAINING, trainer)
    learnt = json.loads(tokenizer.to_str())["model"]["vocab"]
    known = {piece for piece, _ in learnt}
    signs = [[chr(sign), -12.5] for sign in range(0x21, 0x7F) if chr(sign) not in known]
    special = [[name, 0.0] for name in ("</s>", "<s>", *_byte_tokens())]
    pieces = [*learnt, *special, *signs]
    unknown = [piece for piece, _ in pieces].index("<unk>")
    model = models.Unigram([(piece, score) for piece, score in pieces], unknown, byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = step
    tokenizer.add_special_tokens(["</s>", "<s>", "<unk>"])
    return tokenizer


BUILT: Mapping[str, Callable[[], Tokenizer]] = {
    "built like GPT-2": lambda: _byte_level(regex=True),
    "built like GPT-4": lambda: _byte_level(_split(_GPT4)),
    "built with digits": lambda: _byte_level(
        pre_tokenizers.Digits(individual_digits=True), regex=True
    ),
    "built of three splits": lambda: _byte_level(
        _split(r"\p{N}{1,3}"), _split("[一-龥]+"), _split(_GPT4)
    ),
    "built without splits": _byte_level,
    "built with fallback": _fallback_bpe,
    "built with fallback, added spaces": lambda: _fallback_bpe(
        added=[AddedToken("n▁t"), AddedToken(" ▁ x"), AddedToken("t▁e", normalized=False)]
    ),
    "built with fallback, split letters": lambda: _fallback_bpe(
        pre_tokenizers.Split("▁t", "isolated")
    ),
    "built with fallback, split spaces": lambda: _fallback_bpe(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split("e n", "isolated"),
                pre_tokenizers.Metaspace(prepend_scheme="never", split=False),
            ]
        ),
        is_written_first=False,
    ),
    "built with fallback, low lines": lambda: _fallback_bpe(
        pre_tokenizers.Punctuation(), letter="_"
    ),
    "built with fallback, whole words": lambda: _fallback_bpe(
        pre_tokenizers.Metaspace(prepend_scheme="never"),
        whole_pieces=["▁foo", "foo"],
    ),
    "built with fallback, whole texts": lambda: _fallback_bpe(whole_pieces=["foo▁foo", "foo"]),
    "built unigram": lambda: _unigram(is_split=True),
    "built whole unigram": lambda: _unigram(is_split=False),
}
"""The makers of tokenizers by name."""


@cache
def built_vocabulary(name: str) -> Vocabulary:
    """The vocabulary of a tokenizer that is made here."""
    return vocabulary_from_tokenizer(loaded(BUILT[name]()))


def loaded(tokenizer: Tokenizer) -> PreTrainedTokenizerBase:
    """A tokenizer as transformers wraps it."""
    make: Callable[..., PreTrainedTokenizerBase] = PreTrainedTokenizerFast
    return make(tokenizer_object=tokenizer)
