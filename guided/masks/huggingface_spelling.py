"""How a tokenizer spells a text that stands in the middle of another.

A tokenizer as loaded may put a space before the text, normalise it, cut it short, or read ``</s>``
in it as the end. The speller works on a copy of the tokenizer with all of that off. In the copy, no
text becomes a token that stands for no text, or one that stands for a single byte.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, count
from typing import TYPE_CHECKING, Final, TypeAlias

from guided.errors import ModelError
from guided.masks.described_tokenizer import Description, tokenizer_from
from guided.masks.huggingface_rules import added_tokens_of, splitting_of
from guided.masks.spelling_rules import UNCERTAIN, SpellingRules
from guided.masks.unigram_ties import UnigramTies
from guided.masks.vocabulary import Speller
from guided.spec import TokenId

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = [
    "bytes_of_letters",
    "hide_tokens",
    "letters_of_bytes",
    "make_speller",
    "token_names",
]

_TokenBytes: TypeAlias = Sequence[bytes | None]

_TRIAL_TEXT: Final = (
    ' a  b\n\n\t{"x": [1, 2345, -0.5e3], "é": "漢字 😀 e\u0301"} Don\'t.  \r\n \x7f'
)
"""Text of all the kinds that tokenizers are known to lose."""
_NONCHARACTERS: Final = [chr(0xFDD0 + number) for number in range(32)]
"""Those that the Unicode Standard has in one row (section 23.7)."""
_NEVER_IN_TEXT: Final = "".join([secrets.choice(_NONCHARACTERS) for _ in range(16)])
"""A text that occurs nowhere, as it is drawn when a process starts: with a number after it, it is
the name of a hidden token."""


def make_speller(
    description: Description,
    token_bytes: _TokenBytes,
    space_letter: str | None,
    *,
    is_byte_level: bool,
) -> tuple[Speller, SpellingRules]:
    """Return a speller for the tokenizer described, and its rules.

    ``space_letter`` is the letter that it writes for spaces, ``None`` if it has none. Raises
    ModelError if the tokenizer loses part of a text, or lacks the token of a byte that the speller
    needs.
    """
    byte_tokens = {} if is_byte_level else _byte_tokens(description)
    if not is_byte_level:
        # Raises if there is none: the copy writes this token for unknown text (_Spelling).
        _tokens_of_bytes("\0", byte_tokens)
    exact = _exact_description(
        description, token_bytes, space_letter, byte_tokens, is_byte_level=is_byte_level
    )
    copy = tokenizer_from(exact)
    # Special tokens in a text are text: a schema may well contain "</s>".
    copy.encode_special_tokens = True
    # The copy may still take tokens that were left out; they stand for nothing here.
    beyond = copy.get_vocab_size(with_added_tokens=True) - len(token_bytes)
    texts = [*(text or b"" for text in token_bytes), *[b""] * beyond]
    spell = _Spelling(copy, texts, byte_tokens, space_letter)
    spell(_TRIAL_TEXT)  # raises ModelError here, and not for a request later
    return spell, _rules(exact, copy, texts, byte_tokens, space_letter)


def _byte_tokens(description: Description) -> dict[int, int]:
    """Return the token of each byte that the tokenizer falls back to."""
    names = dict(token_names(description["model"]))
    found = ((byte, names.get(f"<0x{byte:02X}>")) for byte in range(256))
    return {byte: int(token) for byte, token in found if token is not None}


def _tokens_of_bytes(text: str, byte_tokens: Mapping[int, int]) -> list[int]:
    """Return the tokens of the bytes of a text; raises ModelError if a byte has none."""
    for byte in text.encode():
        if byte not in byte_tokens:
            raise ModelError(
                f"the tokenizer falls back to bytes, but has no token <0x{byte:02X}>",
                hint="choose a model whose tokenizer has one for every byte",
            )
    return [byte_tokens[byte] for byte in text.encode()]


class _Spelling:
    """Spells with the tokenizer; raises ModelError if part of the text was lost.

    ``texts`` has the bytes of every token that the tokenizer may return, empty for special ones.
    The tokenizer's token for unknown text is that of the byte 0; it is replaced by the tokens of
    the text's bytes, unless ``byte_tokens`` is empty: that is without byte fallback. A ``letter``
    that stands for a space is spelled byte by byte where a text itself contains it.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        texts: Sequence[bytes],
        byte_tokens: Mapping[int, int],
        letter: str | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._texts = texts
        self._byte_tokens = byte_tokens
        self._letter = letter
        self._letter_tokens = _tokens_of_bytes(letter or "", byte_tokens)

    def __call__(self, text: str) -> Sequence[int]:
        """Return the tokens of a text; raises ModelError if their bytes are not the text's."""
        if self._letter is None or self._letter not in text:
            return self._spell(text)
        first, *rest = text.split(self._letter)
        tokens = list(self._spell(first))
        for piece in rest:
            tokens += self._letter_tokens
            tokens += self._spell(piece)
        return tokens

    def _spell(self, text: str) -> Sequence[int]:
        tokens = self._encode(text)
        if b"".join(map(self._texts.__getitem__, tokens)) != text.encode():
            raise ModelError(
                f"the tokenizer cannot spell {text!r}: what it makes of it reads "
                f"{b''.join(map(self._texts.__getitem__, tokens))!r}"
            )
        return tokens

    def _encode(self, text: str) -> Sequence[int]:
        """Return the tokens of a text, where each unknown token is replaced by those of its bytes.

        A byte without a token is left out, which ``_spell`` then notices.
        """
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        ids: list[int] = encoding.ids
        unknown = self._byte_tokens.get(0)
        if unknown is None or unknown not in ids:
            return ids
        tokens: list[int] = []
        for token, (begin, end) in zip(ids, encoding.offsets, strict=True):
            if token == unknown:
                lost = text[begin:end].encode()
                tokens += [self._byte_tokens[byte] for byte in lost if byte in self._byte_tokens]
            else:
                tokens.append(token)
        return tokens


def _rules(
    exact: Description,
    spelling: Tokenizer,
    texts: Sequence[bytes],
    byte_tokens: Mapping[int, int],
    space_letter: str | None,
) -> SpellingRules:
    """Return the rules of the tokenizer ``spelling``, which spells; ``exact`` is its description.

    If finding an added token depends on its surroundings, splitting is left unknown, and no runs
    are forced by spelling.
    """
    added_tokens = added_tokens_of(exact, texts, space_letter)
    letter = b"" if space_letter is None else space_letter.encode()
    if letter and added_tokens is not None:
        added_tokens.insert(0, {letter: tuple([TokenId(byte_tokens[byte]) for byte in letter])})
    model = _bare_model(exact, spelling, space_letter)
    is_byte_level = not byte_tokens
    text_joiner = _TextJoiner(
        _Spelling(model, texts, byte_tokens),
        texts,
        byte_tokens,
        UnigramTies(exact["model"]["vocab"]) if exact["model"]["type"] == "Unigram" else None,
        space_letter,
    )
    look_up = partial(_look_up_piece, spelling, space_letter, is_byte_level)
    return SpellingRules(
        None if added_tokens is None else splitting_of(exact, space_letter),
        partial(_join_bytes, model, texts) if is_byte_level else text_joiner,
        added_tokens=added_tokens or [],
        whole_piece_token=look_up if exact["model"].get("ignore_merges") else None,
        space_letter=letter,
    )


def _bare_model(exact: Description, spelling: Tokenizer, space_letter: str | None) -> Tokenizer:
    """Return a tokenizer of the model alone: it joins one piece, and never looks it up as a whole.

    ``space_letter`` is how the vocabulary writes a space, ``None`` if it writes a space as it is:
    pieces come with plain spaces, so this one step stays. The model of ``spelling`` is in use
    there, so a model with another setting is made from the description, not by changing that one.
    """
    from tokenizers import Tokenizer, normalizers

    bare_model = Tokenizer(spelling.model)
    if exact["model"].get("ignore_merges"):
        model = {**exact["model"], "ignore_merges": False}
        steps = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
        bare = {**exact, "model": model, **dict.fromkeys(steps), "added_tokens": []}
        bare_model = tokenizer_from(bare)
    if space_letter is not None:
        bare_model.normalizer = normalizers.Replace(" ", space_letter)
    return bare_model


def _join_bytes(model: Tokenizer, texts: Sequence[bytes], part: bytes) -> Sequence[int] | None:
    """Join a part of a piece from bytes; it may begin and end inside characters.

    Returns ``None`` if the tokens do not spell all bytes of it, because the model lost some.
    """
    tokens: list[int] = model.encode(letters_of_bytes(part)).ids
    return tokens if b"".join([texts[token] for token in tokens]) == part else None


class _TextJoiner:
    """Returns the tokens of a part of a piece (``spelling_rules``), with byte fallback.

    ``spell`` is over the bare model (``_bare_model``), which takes the part as one piece and never
    looks it up as a whole; ``texts`` and ``byte_tokens`` are those of ``_Spelling``. The bytes of a
    character that began before the part become byte tokens. ``ties`` is ``None`` unless the model
    is Unigram. ``space_letter`` is needed to look for ties only, and ``None`` if the vocabulary
    writes a space as it is. Parts contain no byte without a token: constraints leave those out
    (``Vocabulary.missing_bytes``).
    """

    def __init__(
        self,
        spell: _Spelling,
        texts: Sequence[bytes],
        byte_tokens: Mapping[int, int],
        ties: UnigramTies | None,
        space_letter: str | None,
    ) -> None:
        self._spell = spell
        self._texts = texts
        self._byte_tokens = byte_tokens
        self._ties = ties
        self._space_letter = space_letter

    def __call__(self, part: bytes) -> Sequence[int] | None:
        """Return the tokens of a part of a piece; ``None`` if it ends inside a character."""
        # It may begin inside a character; where it ends inside one, its tokens are not known.
        size = next((at for at, byte in enumerate(part) if byte & 0xC0 != 0x80), len(part))
        try:
            text = part[size:].decode()
        except UnicodeDecodeError:
            return None
        tokens = [self._byte_tokens[byte] for byte in part[:size]]
        if self._ties is not None:
            written = text if self._space_letter is None else text.replace(" ", self._space_letter)
            num_agreed = len(text[: self._ties.agreed_length(written)].encode())
            return [*tokens, *self._cut_at_tie(self._spell(text), num_agreed)]
        return [*tokens, *self._spell(text)]

    def _cut_at_tie(self, tokens: Sequence[int], size: int) -> Sequence[int]:
        """Return the tokens of the first ``size`` bytes, then UNCERTAIN if more follow."""
        for number, token in enumerate(tokens):
            if size <= 0:
                return [*tokens[:number], UNCERTAIN]
            size -= len(self._texts[token])
        return tokens


def _look_up_piece(
    tokenizer: Tokenizer, space_letter: str | None, is_byte_level: bool, piece: bytes
) -> int | None:
    """Return the token that a whole piece is, for tokenizers that look it up before joining.

    ``space_letter`` is what the vocabulary writes for a space, ``None`` if it has no letter for it
    or is byte-level.
    """
    try:
        name = letters_of_bytes(piece) if is_byte_level else piece.decode()
    except UnicodeDecodeError:
        return None
    if space_letter is not None:
        name = name.replace(" ", space_letter)
    token: int | None = tokenizer.model.token_to_id(name)
    return token


def _exact_description(
    description: Description,
    token_bytes: _TokenBytes,
    space_letter: str | None,
    byte_tokens: Mapping[int, int],
    *,
    is_byte_level: bool,
) -> Description:
    """Return a description of a tokenizer that spells texts exactly: nothing added or lost."""
    model, hidden = _hide_textless_tokens(
        description["model"], token_bytes, byte_tokens, is_byte_level
    )
    return {
        **description,
        "model": model,
        "normalizer": _lossless_normalizer(description["normalizer"], space_letter),
        "pre_tokenizer": _without_dummy_space(description["pre_tokenizer"]),
        "post_processor": None,
        "truncation": None,
        "padding": None,
        "added_tokens": _usable_added_tokens(description, token_bytes, hidden),
    }


def _hide_textless_tokens(
    model: Description,
    token_bytes: _TokenBytes,
    byte_tokens: Mapping[int, int],
    is_byte_level: bool,
) -> tuple[Description, set[str]]:
    """Return the model without the tokens that no text may become, and the names of these.

    They are special tokens, those beyond the logits, and the tokens of bytes: where there are any,
    unknown text becomes the token of the byte 0 instead, which ``_Spelling`` replaces. BPE is kept
    from leaving out merges at random, too (``dropout``).
    """
    hidden = {token for token, text in enumerate(token_bytes) if text is None}
    hidden.update(byte_tokens.values())
    size = len(token_bytes)
    names = {name for name, token in token_names(model) if token in hidden or token >= size}
    changed = hide_tokens(model, names)
    if model["type"] == "Unigram":
        if not is_byte_level:
            changed |= {"unk_id": byte_tokens[0], "byte_fallback": False}
        return changed, names
    changed["dropout"] = None
    if not is_byte_level:
        unknown = _hidden_name(byte_tokens[0], _NEVER_IN_TEXT)
        changed |= {"unk_token": unknown, "byte_fallback": False}
    # BPE refers to its unknown token by a name, which it has no longer; Unigram by an id, which
    # stays. Text that is unknown nevertheless is noticed when it is spelled.
    elif model["unk_token"] in names:
        changed["unk_token"] = None
    return changed, names


def hide_tokens(
    model: Description, names: Collection[str], never: str = _NEVER_IN_TEXT
) -> Description:
    """Return the model without the tokens of some names, so that no text becomes one of them.

    ``never`` is what no text contains. Ids do not change: a hidden token keeps its place under a
    name that no text contains. ``model`` is left as it is.
    """
    if not names:
        return {**model}
    if model["type"] == "Unigram":
        pieces = [
            [_hidden_name(token, never) if name in names else name, score]
            for token, (name, score) in enumerate(model["vocab"])
        ]
        return {**model, "vocab": pieces}
    vocab = {
        _hidden_name(token, never) if name in names else name: token
        for name, token in model["vocab"].items()
    }
    merges = [merge for merge in model["merges"] if not _merges_any(merge, names)]
    return {**model, "vocab": vocab, "merges": merges}


def _hidden_name(token: int, never: str) -> str:
    return f"{never}{token}"


def token_names(model: Description) -> Iterable[tuple[str, int]]:
    """Return the tokens of a model, each with its id."""
    vocab = model["vocab"]
    if isinstance(vocab, dict):
        return vocab.items()
    return ((name, token) for token, (name, _) in enumerate(vocab))


def _merges_any(merge: str | Sequence[str], names: Collection[str]) -> bool:
    left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
    return left in names or right in names or left + right in names


def _lossless_normalizer(
    normalizer: Description | None, space_letter: str | None
) -> Description | None:
    """Keep only the steps of a normalizer that lose nothing: those for spaces and bytes.

    Returns ``None`` for a step that is not kept; a sequence stays, though it may be empty. Any step
    not known here counts as one that loses something.
    """
    if normalizer is None:
        return None
    if normalizer["type"] == "Sequence":
        steps = [
            kept
            for step in normalizer["normalizers"]
            if (kept := _lossless_normalizer(step, space_letter))
        ]
        return {**normalizer, "normalizers": steps}
    if normalizer["type"] == "ByteLevel":
        return normalizer
    if normalizer["type"] == "Replace" and normalizer["pattern"] == {"String": " "}:
        return normalizer if normalizer["content"] == space_letter else None
    return None


def _without_dummy_space(pre_tokenizer: Description | None) -> Description | None:
    """Return the step without the space that it would put before a text.

    The given description is not changed; unchanged parts may be shared with it.
    """
    if pre_tokenizer is None:
        return None
    if pre_tokenizer["type"] == "Sequence":
        steps = [_without_dummy_space(step) for step in pre_tokenizer["pretokenizers"]]
        return {**pre_tokenizer, "pretokenizers": steps}
    if pre_tokenizer["type"] == "ByteLevel":
        return {**pre_tokenizer, "add_prefix_space": False}
    if pre_tokenizer["type"] == "Metaspace":
        # Which of these two a description has depends on its age.
        without = {"prepend_scheme": "never", "add_prefix_space": False}
        return {**pre_tokenizer, **{k: v for k, v in without.items() if k in pre_tokenizer}}
    return pre_tokenizer


def _usable_added_tokens(
    description: Description, token_bytes: _TokenBytes, hidden: Collection[str]
) -> list[Description]:
    """Return the added tokens without those of names that are ``hidden``, and without others that
    could not be used: those that take in the white space beside them, or stand for no text.

    Tokenizers find the longest added token even if they then take it as text, and so miss shorter
    ones in it. So a token that could not be used keeps its place, which later ids depend on, under
    a name that no text contains. One that the model has too needs no place.
    """
    names = {name for name, _ in token_names(description["model"])}
    usable = []
    for entry in description["added_tokens"]:
        token, name = entry["id"], entry["content"]
        is_known = token < len(token_bytes) and token_bytes[token] is not None
        if name in hidden:
            continue
        if is_known and not entry["lstrip"] and not entry["rstrip"]:
            usable.append(entry)
        elif name not in names:
            usable.append({**entry, "content": f"{_NEVER_IN_TEXT}{token}", "special": True})
    return usable


def _unicode_to_byte() -> dict[str, int]:
    """Return the byte of each letter that byte-level tokenizers write: the inverse of GPT-2's
    ``bytes_to_unicode``.

    Printable bytes of Latin-1, without spaces and the soft hyphen, are written as themselves; the
    others as the letters from U+0100 on, in order. So a space (the 33rd of those others) is ``Ġ``.
    """
    printable = set(chain(range(0x21, 0x7F), range(0xA1, 0xAD), range(0xAE, 0x100)))
    others = count(0x100)
    return {chr(byte if byte in printable else next(others)): byte for byte in range(256)}


_UNICODE_TO_BYTE: Final = _unicode_to_byte()
_BYTE_TO_UNICODE: Final = {byte: letter for letter, byte in _UNICODE_TO_BYTE.items()}
_NO_LETTER: Final = "\u0100"
"""What a character that is no byte's letter is translated to: Latin-1 does not contain it, so that
encoding fails."""
_UNICODE_TO_LATIN_1: Final = {
    **{ord(byte): _NO_LETTER for byte in map(chr, range(256))},
    **{ord(letter): chr(byte) for letter, byte in _UNICODE_TO_BYTE.items()},
}


def letters_of_bytes(text: bytes) -> str:
    """Return how byte-level tokenizers write bytes."""
    return text.decode("latin-1").translate(_BYTE_TO_UNICODE)


def bytes_of_letters(token: str) -> bytes:
    """Return the bytes of a byte-level token; one with any other character is literal."""
    try:
        return token.translate(_UNICODE_TO_LATIN_1).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode()
