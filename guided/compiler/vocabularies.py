"""The vocabulary of whatever a host has its tokenizer in; loads neither torch nor transformers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from guided.errors import ModelError, RequestError
from guided.masks.huggingface import (
    Description,
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

_TOKENIZER = "tokenizer.json"
_CONFIGS = ("generation_config.json", "config.json")
"""Where a model says by which tokens its answers end."""


def vocabulary_of(
    tokenizer: AnyTokenizer, end_ids: Iterable[int] = (), num_logits: int | None = None
) -> Vocabulary:
    """The vocabulary, with ``end_ids`` beside the end-of-sequence tokens that the tokenizer knows.

    Tokens from ``num_logits`` on can never be chosen and are left out. Raises ModelError for a
    tokenizer that cannot be used, and where no token would end an answer.
    """
    ends = tuple(map(int, end_ids))
    if isinstance(tokenizer, Vocabulary):
        if ends or num_logits is not None:
            raise RequestError(
                "a vocabulary says itself which tokens there are and which end an answer",
                field="end_ids",
                hint="pass end_ids and num_logits with a tokenizer",
            )
        vocabulary = tokenizer
    elif isinstance(tokenizer, str | Path):
        vocabulary = _of_folder(Path(tokenizer), ends, num_logits)
    elif _is_of_transformers(tokenizer):
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


def _is_of_transformers(
    tokenizer: PreTrainedTokenizerBase | Tokenizer,
) -> TypeGuard[PreTrainedTokenizerBase]:
    """Told without loading transformers: theirs alone say whether they are fast."""
    return hasattr(tokenizer, "is_fast")


def _of_folder(folder: Path, end_ids: tuple[int, ...], num_logits: int | None) -> Vocabulary:
    file = folder / _TOKENIZER
    if not file.is_file():
        raise ModelError(
            f"{folder} has no {_TOKENIZER}", hint="name the folder of a model with a fast tokenizer"
        )
    description: Description = _read(file)
    own = [end for name in _CONFIGS for end in _ends_in(folder / name)]
    named = _named_end(folder / "tokenizer_config.json")
    if named is not None:
        own += [entry["id"] for entry in description["added_tokens"] if entry["content"] == named]
    return vocabulary_from_description(
        description, end_ids=(*own, *end_ids), logits_width=num_logits
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        read = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ModelError(f"{file} is not JSON: {error}", hint="fetch the model again") from error
    if not isinstance(read, dict):
        raise ModelError(f"{file} holds no JSON object", hint="fetch the model again")
    return read


def _ends_in(file: Path) -> list[int]:
    """The end-of-sequence tokens that a config names: none, one or a list."""
    named = _read(file).get("eos_token_id") if file.is_file() else None
    if named is None:
        return []
    return [int(end) for end in (named if isinstance(named, list) else [named])]


def _named_end(file: Path) -> str | None:
    """The text of the end-of-sequence token; earlier versions of transformers write more of it."""
    named = _read(file).get("eos_token") if file.is_file() else None
    text = named.get("content") if isinstance(named, dict) else named
    return None if text is None else str(text)
