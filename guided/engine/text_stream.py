"""The text of an answer that is sent while it grows."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence

from guided.decoding.stop_strings import PartialMatches
from guided.spec import TokenId

__all__ = ["TextStream"]


class TextStream:
    """Turns tokens into the text that is certain: whole characters, and no part of a stop.

    ::

        stop "end"     tokens  th | e e | n | d   →   "th", "e ", "", ""
                       tokens  th | e e | n | t   →   "th", "e ", "", "ent"

    Text that was handed out is never taken back, and all of it together is the text of the answer.
    Each token is read once.
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes | None],
        *,
        start: int,
        held_back: Iterable[bytes],
        errors: str,
        skip: int = 0,
    ) -> None:
        """The answer begins at token ``start``, after ``skip`` bytes of it, and no part of a
        ``held_back`` string may be sent.

        ``errors`` says how to decode bytes that are not text, as for ``bytes.decode``.
        """
        self._token_bytes = token_bytes
        self._num_read = start
        """Tokens read, including those of the prompt."""
        self._partial_matches = PartialMatches(held_back)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors)
        self._num_decoded = 0
        """Bytes of the answer that were passed to the decoder."""
        self._skip = skip
        """Bytes still to come before the answer."""
        self._held_back = bytearray()
        """Bytes after them, which are held back."""

    def begin_at(self, index: int) -> None:
        """Begin at another token; only before anything was read."""
        self._num_read = index

    def grow(self, tokens: Sequence[TokenId]) -> str:
        """Return the new certain text, now that prompt and answer have these tokens."""
        # A stop string that has begun may yet be completed, and then must not have been sent.
        num_uncertain = self._partial_matches.read(self._read_tokens(tokens))
        return self._decode(len(self._held_back) - num_uncertain, final=False)

    def end(self, tokens: Sequence[TokenId], length: int | None) -> str:
        """Return the rest, given all tokens; ``length`` is that of the whole text in bytes.

        ``None`` as length leaves nothing out.
        """
        # A stop string may end the text before tokens that were read already.
        self._read_tokens(tokens)
        rest = len(self._held_back) if length is None else length - self._num_decoded
        assert 0 <= rest <= len(self._held_back), f"{-rest} bytes too many were sent"
        return self._decode(rest, final=True)

    def _read_tokens(self, tokens: Sequence[TokenId]) -> bytes:
        piece = b"".join([self._token_bytes[token] or b"" for token in tokens[self._num_read :]])
        self._num_read = len(tokens)
        if self._skip:
            skipped = min(self._skip, len(piece))
            self._skip, piece = self._skip - skipped, piece[skipped:]
        self._held_back += piece
        return piece

    def _decode(self, count: int, *, final: bool) -> str:
        # The decoder keeps the first bytes of a character until the others have come.
        text = self._decoder.decode(bytes(self._held_back[:count]), final)
        self._num_decoded += count
        del self._held_back[:count]
        return text
