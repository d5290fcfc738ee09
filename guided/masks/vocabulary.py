"""The tokens of a model, as exact bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from guided.errors import ModelError
from guided.machine.special_bytes import is_readable, special_bytes
from guided.spec import TokenId

if TYPE_CHECKING:
    from guided.masks.spelling_rules import SpellingRules

__all__ = ["Speller", "TokenTexts", "Vocabulary"]

_PRINTABLE_ASCII = range(0x20, 0x7F)
"""The characters that the syntax of every supported language is written in."""


class Speller(Protocol):
    """The tokenizer's own spelling of a text that stands in the middle of another.

    No special token and no dummy space is added, and the bytes of the tokens are those of the
    text. A text that no tokens spell raises ``ModelError``.
    """

    def __call__(self, text: str, /) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Which bytes each token stands for, and which tokens end a text."""

    token_bytes: tuple[bytes | None, ...]
    """By token id; ``None`` if a token is special or unused, so never part of a text."""
    end_ids: frozenset[TokenId]
    """The end-of-sequence tokens; there may be several, or none."""
    spell: Speller
    rules: SpellingRules | None = None
    """How ``spell`` arrives at its spelling; without, it takes a text as one piece."""
    named: Mapping[str, TokenId] = field(default_factory=dict)
    """Tokens that constraints may ask for by name: special ones, and those that the tokenizer has
    besides the tokens of text, though it reads and writes them as their names."""
    digest: str = field(init=False)
    """SHA-256 of bytes, end ids and names, to recognise the same tokens again, as in files; how
    texts are spelled is not in it."""
    read_as: tuple[bytes | None, ...] = field(init=False)
    """By token, the bytes that recognisers read for it: its text, or its name by ``special_bytes``;
    ``None`` for what is never part of an answer that fits a constraint."""
    byte_ids: Mapping[int, TokenId] = field(init=False)
    """For each byte that is a token alone, that token: the one that the tokenizer would take."""
    missing_bytes: frozenset[int] = field(init=False)
    """The bytes without a token of their own; a constraint must not rely on them."""

    def __post_init__(self) -> None:
        """Set the other fields; raises ModelError for tokens that contradict each other.

        Also raises it where a printable ASCII character has no token of its own.

        This is the only place that writes to a frozen vocabulary: what is made from it
        (``TokenBinding``) relies on all fields staying as they are.
        """
        self._check_tokens()
        byte_ids = _single_bytes(self.token_bytes, self.spell)
        object.__setattr__(self, "byte_ids", MappingProxyType(byte_ids))
        object.__setattr__(self, "missing_bytes", frozenset(range(256)).difference(byte_ids))
        object.__setattr__(self, "named", MappingProxyType(dict(self.named)))
        object.__setattr__(self, "digest", _digest(self.token_bytes, self.end_ids, self.named))
        object.__setattr__(self, "read_as", self._bytes_read())
        missing = sorted(self.missing_bytes.intersection(_PRINTABLE_ASCII))
        if missing:
            characters = ", ".join(repr(chr(byte)) for byte in missing[:8])
            more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
            raise ModelError(
                f"the vocabulary has no token of its own for {characters}{more}",
                hint="choose a model whose tokenizer is byte-level BPE or falls back to bytes",
            )

    def __len__(self) -> int:
        return len(self.token_bytes)

    def decode(self, tokens: Iterable[TokenId]) -> bytes:
        """Return the bytes that the tokens stand for; special tokens stand for none."""
        return b"".join([self.token_bytes[token] or b"" for token in tokens])

    def texts(self, tokens: Iterable[TokenId]) -> tuple[bytes, ...]:
        """Return the bytes of each token: of a special one its name, of an unused one none."""
        names = {token: name.encode() for name, token in self.named.items()}
        return tuple([self.token_bytes[token] or names.get(token, b"") for token in tokens])

    def with_named_as_special(self) -> Vocabulary:
        """Return the same tokens, except that those with a name are special: they have no text.

        Constraints that name a token which is text are bound to these, so that no token is read in
        two ways. Token ids stay as they are. The result needs a ``TokenBinding`` of its own.
        """
        special = frozenset(self.named.values())
        token_bytes = [None if t in special else text for t, text in enumerate(self.token_bytes)]
        rules = None if self.rules is None else self.rules.without(special)
        return replace(self, token_bytes=tuple(token_bytes), rules=rules)

    def _bytes_read(self) -> tuple[bytes | None, ...]:
        """Return the value of ``read_as``."""
        read = [
            text if text is not None and is_readable(text) else None for text in self.token_bytes
        ]
        for name, token in self.named.items():
            if self.token_bytes[token] is None and token not in self.end_ids:
                read[token] = special_bytes(name)
        return tuple(read)

    def _check_tokens(self) -> None:
        """Raise ModelError for a token without bytes, an unknown end token, or one that is text."""
        for token, text in enumerate(self.token_bytes):
            if text == b"":
                raise ModelError(
                    f"token {token} stands for no bytes, so a text could grow by it without end",
                    hint="mark it as special, with None for its bytes",
                )
        for token in sorted(self.end_ids):
            if not 0 <= token < len(self.token_bytes):
                raise ModelError(
                    f"end-of-sequence token {token} is not one of the {len(self.token_bytes)} "
                    "tokens of the vocabulary"
                )
            if (text := self.token_bytes[token]) is not None:
                raise ModelError(
                    f"end-of-sequence token {token} also stands for the text {text!r}",
                    hint="a token that ends a text must be special, with None for its bytes",
                )


def _single_bytes(token_bytes: Sequence[bytes | None], spell: Speller) -> dict[int, TokenId]:
    """Return, by byte, the token that is this byte alone, for the bytes that have one.

    Of several tokens it is the one that ``spell`` takes, which can only be tried for ASCII bytes.
    For another byte it is the one with the lowest id. The result ascends by byte.
    """
    found: dict[int, TokenId] = {}
    several: set[int] = set()
    for token, text in enumerate(token_bytes):
        if text is None or len(text) != 1:
            continue
        if text[0] in found:
            several.add(text[0])
        else:
            found[text[0]] = TokenId(token)
    # Byte fallback spells "A" both as A and as <0x41>; the model has only ever read the first.
    for byte in several:
        if byte < 0x80 and len(own := spell(chr(byte))) == 1:
            found[byte] = TokenId(own[0])
    return dict(sorted(found.items()))


def _digest(
    token_bytes: Sequence[bytes | None], end_ids: Iterable[TokenId], named: Mapping[str, TokenId]
) -> str:
    """``Vocabulary.digest``: different for vocabularies that differ in bytes, ends or names."""
    # The lengths distinguish vocabularies whose bytes are the same in a row.
    lengths = [-1 if text is None else len(text) for text in token_bytes]
    digest = hashlib.sha256(np.array(lengths, dtype="<i8").tobytes())
    digest.update(b"".join(text for text in token_bytes if text is not None))
    digest.update(np.array(sorted(end_ids), dtype="<i8").tobytes())
    for name, token in sorted(named.items()):
        digest.update(f"{token} {name}\0".encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class TokenTexts:
    """What is read for all tokens, in a row, for compiled code.

    For token ``t`` it is ``joined[bounds[t]:bounds[t + 1]]``, empty if it is never read.
    """

    token_bytes: Sequence[bytes | None]
    joined: NDArray[np.uint8]
    bounds: list[int]
    quoted: frozenset[bytes]
    """The texts between two quotes of a token: names that one token may begin and close."""

    @classmethod
    def of(cls, token_bytes: Sequence[bytes | None]) -> TokenTexts:
        """Lay the tokens out in a row."""
        texts = [text or b"" for text in token_bytes]
        # A copy, since what numpy makes of bytes is read-only, which numba takes for another type.
        joined = np.frombuffer(b"".join(texts), dtype=np.uint8).copy()
        return cls(token_bytes, joined, [0, *accumulate(map(len, texts))], _quoted(texts))


def _quoted(texts: Sequence[bytes]) -> frozenset[bytes]:
    """Return what stands between any two quotes of one token, which may include quotes.

    ``PackedMachine`` relies on this being complete: a name that is not in here is never begun and
    closed by one token.
    """
    pieces = (text.split(b'"')[1:-1] for text in texts if text.count(b'"') > 1)
    return frozenset(
        b'"'.join(between[first:last])
        for between in pieces
        for first, last in combinations(range(len(between) + 1), 2)
    )
