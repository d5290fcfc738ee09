"""Loads the tokenizer in the folder of a model as transformers would, without transformers.

``tokenizer.json`` does not list all special tokens: some are named only in
``tokenizer_config.json``. A mask that took such a token for text would allow it in answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from guided.errors import ModelError
from guided.masks.described_tokenizer import Description, is_tokenizer_error

if TYPE_CHECKING:
    from tokenizers import AddedToken, Tokenizer

__all__ = ["TokenizerFolder", "read_tokenizer_folder"]

_TOKENIZER = "tokenizer.json"
_TOKENIZER_CONFIG = "tokenizer_config.json"
_SPECIAL_TOKENS_MAP = "special_tokens_map.json"
"""In this file, versions of transformers before 5 wrote which tokens are special."""
_MODEL_CONFIGS = ("generation_config.json", "config.json")
"""Where a model says which tokens end its answers."""
_TOKEN_LISTS = ("additional_special_tokens", "extra_special_tokens")
_ADDED_TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_FETCH_HINT = "fetch the model again"


class TokenizerFolder(NamedTuple):
    """What the files of a folder say about its tokenizer."""

    description: Description
    """``tokenizer.json``, with the tokens added that only the other files contain."""
    special_ids: frozenset[int]
    """The tokens that are special by name; the description marks the others."""
    end_ids: tuple[int, ...]


def read_tokenizer_folder(folder: Path) -> TokenizerFolder:
    """Return what a folder says; raises ModelError without a tokenizer or for a malformed file."""
    file = folder / _TOKENIZER
    if not file.is_file():
        raise ModelError(
            f"{folder} has no {_TOKENIZER}", hint="name the folder of a model with a fast tokenizer"
        )
    tokenizer = _load_tokenizer(file)
    config = _read_json_object(folder / _TOKENIZER_CONFIG)
    # What a file says about a known token replaces what was known; the token keeps its id.
    tokenizer.add_tokens(_read_added_tokens(config, folder / _TOKENIZER_CONFIG))
    if "added_tokens_decoder" not in config:
        config |= _read_json_object(folder / _SPECIAL_TOKENS_MAP)
    named = dict(_special_token_texts(config))
    ids = _add_special_tokens(tokenizer, named)
    ends = [end for name in _MODEL_CONFIGS for end in _read_end_ids(folder / name)]
    ends += [ids[text] for text in named.get("eos_token", ())]
    special = frozenset(ids[text] for texts in named.values() for text in texts)
    return TokenizerFolder(json.loads(tokenizer.to_str()), special, tuple(ends))


def _load_tokenizer(file: Path) -> Tokenizer:
    """Load ``tokenizer.json``; raises ModelError if it is malformed."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except BaseException as error:
        if not isinstance(error, Exception) and not is_tokenizer_error(error):
            raise
        raise ModelError(f"{file} describes no tokenizer: {error}", hint=_FETCH_HINT) from error


def _read_json_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty if the file is missing."""
    if not file.is_file():
        return {}
    try:
        read = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ModelError(f"{file} is not JSON: {error}", hint=_FETCH_HINT) from error
    if not isinstance(read, dict):
        raise ModelError(f"{file} holds no JSON object", hint=_FETCH_HINT)
    return read


def _read_added_tokens(config: dict[str, Any], file: Path) -> list[AddedToken]:
    """Return the tokens of ``added_tokens_decoder``, ordered by id."""
    from tokenizers import AddedToken

    try:
        listed = config.get("added_tokens_decoder", {})
        return [
            AddedToken(
                listed[token]["content"],
                **{
                    name: bool(listed[token][name])
                    for name in _ADDED_TOKEN_FLAGS
                    if name in listed[token]
                },
            )
            for token in sorted(listed, key=int)
        ]
    except (TypeError, ValueError, LookupError) as error:
        raise ModelError(
            f"{file} lists added tokens that are none: {error}", hint=_FETCH_HINT
        ) from error


def _add_special_tokens(tokenizer: Tokenizer, named: dict[str, list[str]]) -> dict[str, int]:
    """Add the named tokens that are missing, as special; returns all added tokens' ids by text."""
    from tokenizers import AddedToken

    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    new = [text for texts in named.values() for text in texts if text not in added]
    tokenizer.add_tokens([AddedToken(text, special=True) for text in dict.fromkeys(new)])
    return {token.content: number for number, token in tokenizer.get_added_tokens_decoder().items()}


def _special_token_texts(config: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the entries of a config that name special tokens, each with the texts of its tokens."""
    for name, value in config.items():
        if name in _TOKEN_LISTS:
            tokens = [*value.values()] if isinstance(value, dict) else value
            if isinstance(tokens, list):
                yield name, [text for each in tokens if (text := _text_of(each))]
        elif name.endswith("_token") and (text := _text_of(value)):
            yield name, [text]


def _text_of(token: object) -> str | None:
    """Return the text of a token; some versions of transformers write it inside an object."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def _read_end_ids(file: Path) -> list[int]:
    """Return the end-of-sequence tokens that a config names: none, one or a list."""
    named = _read_json_object(file).get("eos_token_id")
    if named is None:
        return []
    ends = named if isinstance(named, list) else [named]
    for end in ends:
        if type(end) is not int:
            raise ModelError(
                f"{file} names {json.dumps(end)} as eos_token_id, which is no number of a token",
                hint="correct the file, or fetch the model again",
            )
    return ends
