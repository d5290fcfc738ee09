"""Makes a tokenizer from what ``tokenizer.json`` holds.

Reading a large BPE model from its text takes most of the time to load a vocabulary. Here that model
is made from the description's own objects, in a third of the time, and only the rest, which is
small, goes through the text form.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

__all__ = ["ADDED_FLAGS", "Description", "is_tokenizer_error", "tokenizer_from"]

Description: TypeAlias = dict[str, Any]
"""A part of what ``tokenizer.json`` holds."""

_SETTINGS: Final = (
    *("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"),
    *("fuse_unk", "byte_fallback", "ignore_merges"),
)
_EMPTY: Final = {"type": "BPE", "vocab": {}, "merges": []}
ADDED_FLAGS: Final = ("single_word", "lstrip", "rstrip", "normalized", "special")
"""The settings of an added token, as attributes and in the description."""


def is_tokenizer_error(error: BaseException) -> bool:
    """Return whether the library of tokenizers raised an error, which has no class of its own.

    A file that contradicts itself may end in a fault of the library, which is no ``Exception``.
    """
    return type(error) is Exception or type(error).__name__ == "PanicException"


def tokenizer_from(description: Description) -> Tokenizer:
    """Make the tokenizer that ``Tokenizer.from_str`` would make of the same description.

    ``description`` is that of a whole tokenizer; it is not changed.
    """
    from tokenizers import AddedToken, Tokenizer

    if description["model"]["type"] != "BPE":
        return Tokenizer.from_str(json.dumps(description))
    added = description["added_tokens"]
    without = {**description, "model": _EMPTY, "added_tokens": []}
    tokenizer: Tokenizer = Tokenizer.from_str(json.dumps(without))
    tokenizer.model = _bpe(description["model"])
    # After the model, and in the order of the list: tokens that the model does not know get the
    # next ids. Like ``from_str``, this ignores the ids that the entries name.
    tokenizer.add_tokens(
        [
            AddedToken(entry["content"], **{flag: entry[flag] for flag in ADDED_FLAGS})
            for entry in added
        ]
    )
    return tokenizer


def _bpe(model: Description) -> BPE:
    from tokenizers.models import BPE

    settings = {name: model[name] for name in _SETTINGS if model.get(name) is not None}
    # Older files join the two parts of a merge by a space.
    merges = [
        tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model["merges"]
    ]
    return BPE(model["vocab"], merges, **settings)
