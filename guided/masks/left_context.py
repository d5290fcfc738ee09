"""What an answer so far means for how the text after it is split into pieces.

Its *left context* is a short text that leaves the same ways to split what follows as the whole
answer would, with the bytes of a character that is not whole. There are few, so nearly all are
found in a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from guided.masks.spelling_rules import SpellingRules, whole_size
from guided.masks.splitting import SplitUncertainError
from guided.spec import TokenId

__all__ = ["UNKNOWN_CONTEXT", "LeftContexts"]

UNKNOWN_CONTEXT: Final = b"\xff"
"""The left context when nothing is known about splitting: no text contains this byte."""
_REMEMBERED: Final = 65_536
_MOST_UNCERTAIN: Final = 256
"""Bytes of a left context that is still uncertain; a longer one becomes unknown."""


class LeftContexts:
    """The left contexts of one vocabulary."""

    def __init__(self, token_bytes: Sequence[bytes | None], rules: SpellingRules) -> None:
        self._token_bytes = token_bytes
        self._rules = rules
        self._found_tokens = frozenset(rules.found_tokens)
        self._after: dict[tuple[bytes, TokenId], bytes] = {}
        """The left context after a left context and one more token."""
        self._alike: dict[object, bytes] = {}
        """By all that what follows can depend on (``Splitting.left_context``): the first text found
        with that meaning, which then stands for all such texts."""

    def after(self, before: bytes, tokens: Iterable[TokenId]) -> bytes:
        """Return the left context after more tokens; that of an empty answer is empty.

        Any thread may call it: what is remembered follows from its key. At ``_REMEMBERED`` entries
        everything is forgotten, with ``_alike``; contexts returned before then still mean the same,
        but equal meanings may then have two texts.
        """
        for token in tokens:
            reached = self._after.get((before, token))
            if reached is None:
                reached = self._extended(before, token)
                if len(self._after) >= _REMEMBERED:
                    self._after.clear()
                    self._alike.clear()
                self._after[before, token] = reached
            before = reached
        return before

    def _extended(self, before: bytes, token: TokenId) -> bytes:
        """Return the left context after one more token, without looking at what is remembered.

        Contexts that mean the same are made equal (``_alike``), so that few must be distinguished.
        """
        splitting, letter = self._rules.splitting, self._rules.letter
        if splitting is None or before == UNKNOWN_CONTEXT:
            return UNKNOWN_CONTEXT
        # A token found in a text, or the letter for spaces, ends the pieces before it. So does a
        # special token: texts are cut at those before all else.
        text = self._token_bytes[token]
        if token in self._found_tokens or text is None:
            return b""
        data = before + text
        if letter and letter in data:
            data = data[data.rfind(letter) + len(letter) :]
        size = whole_size(data)
        try:
            whole = data[:size].decode()
            known, begin = splitting.left_context(whole)
        except SplitUncertainError:
            # Kept as it is: more text may decide.
            return data if len(data) <= _MOST_UNCERTAIN else UNKNOWN_CONTEXT
        except UnicodeDecodeError:
            return UNKNOWN_CONTEXT
        return self._alike.setdefault(known, whole[begin:].encode()) + data[size:]
