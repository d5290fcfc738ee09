"""A copy of a tokenizer that takes no text for a control token."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from guided.masks.described_tokenizer import ADDED_FLAGS, Description, tokenizer_from
from guided.masks.huggingface_spelling import hide_tokens, token_names
from guided.model.control_tokens import ControlTokens

if TYPE_CHECKING:
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.models import Model

__all__ = ["rename_entry", "without_control"]

_STEPS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")


def without_control(tokenizer: Tokenizer, control: ControlTokens) -> Tokenizer:
    """Return the tokenizer without its control tokens; the ids of all others stay.

    The model is most of a tokenizer, and a large one takes seconds to write and read: a model that
    makes no control token of any text by itself is shared with the copy.
    """
    is_apart = _makes_none_of(tokenizer.model, control.names)
    copy = _sharing(tokenizer, control) if is_apart else _rebuilt(tokenizer, control)
    # Special tokens that a text spells are text.
    copy.encode_special_tokens = True
    return copy


def rename_entry(entry: AddedToken, name: str, *, special: bool) -> AddedToken:
    """Return an added token with the settings of another, under a name of its own."""
    from tokenizers import AddedToken

    flags = {flag: getattr(entry, flag) for flag in ADDED_FLAGS}
    return AddedToken(name, **{**flags, "special": special})


def _makes_none_of(model: Model, names: Iterable[str]) -> bool:
    """Whether a model is known to make none of these tokens of any text.

    A BPE model makes a token of a text only if it makes it of the token's own name: the merges that
    lead to it are inside it, and none of them reaches beyond it. So it is enough to try the names.
    """
    from tokenizers.models import BPE

    if not isinstance(model, BPE) or model.dropout:
        return False
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        return False
    return not any(_makes(model, name) for name in names)


def _makes(model: Model, name: str) -> bool:
    if name.startswith("<0x"):
        return True  # perhaps of a byte that has no other token
    token = model.token_to_id(name)
    return token is not None and any(made.id == token for made in model.tokenize(name))


def _sharing(tokenizer: Tokenizer, control: ControlTokens) -> Tokenizer:
    """Make a copy with the same model; it does not find the model's control tokens any more."""
    from tokenizers import Tokenizer

    model = tokenizer.model
    copy = Tokenizer(model)
    for step in _STEPS:
        setattr(copy, step, getattr(tokenizer, step))
    added = sorted(tokenizer.get_added_tokens_decoder().items())
    # Others get their ids in this order.
    kept = [
        rename_entry(
            entry, entry.content, special=entry.special or entry.content in control.private
        )
        for _, entry in added
        if entry.content not in control.private or model.token_to_id(entry.content) is None
    ]
    copy.add_tokens(kept)
    return copy


def _rebuilt(tokenizer: Tokenizer, control: ControlTokens) -> Tokenizer:
    """Make a copy with a model whose control tokens have names that no text has."""
    described: Description = json.loads(tokenizer.to_str())
    return tokenizer_from(_without(described, control))


def _without(described: Description, control: ControlTokens) -> Description:
    """Return the description of a tokenizer in which no text has the control tokens' names."""
    model = described["model"]
    # Those that the model also knows could result from its merges or pieces.
    names = {name for name, _ in token_names(model) if name in control.private}
    hidden = hide_tokens(model, names, control.never)
    if model.get("unk_token") in names:
        hidden["unk_token"] = f"{control.never}{model['vocab'][model['unk_token']]}"
    added = [
        {**entry, "special": entry["special"] or entry["content"] in control.private}
        for entry in described["added_tokens"]
        if entry["content"] not in names
    ]
    return {**described, "model": hidden, "added_tokens": added}
