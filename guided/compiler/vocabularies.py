"""The vocabulary of a host's tokenizer of any kind; loads neither torch nor transformers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from guided.compiler.integers import to_int, to_ints
from guided.compiler.tokenizer_folder import read_tokenizer_folder
from guided.errors import ModelError, RequestError
from guided.masks.described_tokenizer import Description
from guided.masks.huggingface import (
    vocabulary_from_description,
    vocabulary_from_tokenizer,
)
from guided.masks.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

__all__ = ["AnyTokenizer", "vocabulary_of"]

AnyTokenizer: TypeAlias = "Vocabulary | PreTrainedTokenizerBase | Tokenizer | str | Path"
"""A vocabulary, a tokenizer of transformers or tokenizers, or the folder of a model."""


def vocabulary_of(
    tokenizer: AnyTokenizer, end_ids: Iterable[int] = (), num_logits: int | None = None
) -> Vocabulary:
    """Return the vocabulary of a tokenizer.

    Its end-of-sequence tokens are those of the tokenizer and ``end_ids``.
    Tokens from ``num_logits`` on can never be chosen and are left out. Raises ModelError if the
    tokenizer cannot be used, or if no token would end an answer.
    """
    ends = to_ints(end_ids, "end_ids")
    if num_logits is not None and to_int(num_logits, "num_logits") < 1:
        raise RequestError(
            f"num_logits is {num_logits}",
            field="num_logits",
            hint="give how many logits the model has, or leave it out",
        )
    if isinstance(tokenizer, Vocabulary):
        if ends or num_logits is not None:
            raise RequestError(
                "a Vocabulary already says which tokens there are and which end an answer",
                field="end_ids",
                hint="pass end_ids and num_logits with a tokenizer",
            )
        vocabulary = tokenizer
    elif isinstance(tokenizer, str | Path):
        folder = read_tokenizer_folder(Path(tokenizer))
        vocabulary = vocabulary_from_description(
            folder.description,
            special_ids=folder.special_ids,
            end_ids=(*folder.end_ids, *ends),
            logits_width=num_logits,
        )
    elif _is_transformers_tokenizer(tokenizer):
        vocabulary = vocabulary_from_tokenizer(tokenizer, end_ids=ends, logits_width=num_logits)
    elif hasattr(tokenizer, "to_str"):
        description: Description = json.loads(tokenizer.to_str())
        vocabulary = vocabulary_from_description(description, end_ids=ends, logits_width=num_logits)
    else:
        raise ModelError(
            f"a {type(tokenizer).__name__} is no tokenizer",
            hint="pass a tokenizer of transformers or tokenizers, a folder with a tokenizer.json, "
            "or a Vocabulary",
        )
    if not vocabulary.end_ids:
        raise ModelError(
            "no end-of-sequence token is known, so no answer could end",
            hint="name the tokens that the host stops at, as end_ids",
        )
    return vocabulary


def _is_transformers_tokenizer(
    tokenizer: PreTrainedTokenizerBase | Tokenizer,
) -> TypeGuard[PreTrainedTokenizerBase]:
    """Check without loading transformers: only its tokenizers have ``is_fast``."""
    return hasattr(tokenizer, "is_fast")
