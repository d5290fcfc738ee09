"""What an answer so far means for how the text after it is split into pieces.

Its *left context* is a short text after which what follows is split as after the whole answer, and
the bytes of an incomplete last character. There are few, so nearly all are found in a cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from guided.masks.spelling_rules import SpellingRules, whole_size
from guided.masks.splitting import SplitUncertainError
from guided.spec import TokenId

__all__ = ["UNKNOWN_CONTEXT", "LeftContexts"]

UNKNOWN_CONTEXT: Final = b"\xff"
"""The left context when nothing is known about splitting: no text contains this byte.

It stays, even where a special token would end it: runs are then shorter, which is always right."""
_MAX_CACHED: Final = 65_536
_MOST_UNCERTAIN: Final = 256
"""Bytes of a left context that is still uncertain; a longer one becomes unknown."""


class LeftContexts:
    """The left contexts of one vocabulary."""

    def __init__(self, token_bytes: Sequence[bytes | None], rules: SpellingRules) -> None:
        self._token_bytes = token_bytes
        self._rules = rules
        self._added_tokens = frozenset(rules.added_token_ids)
        self._cache: dict[tuple[bytes, TokenId], bytes] = {}
        """The left context after a left context and one more token."""
        self._canonical: dict[object, bytes] = {}
        """By everything that the splitting of what follows depends on (``Splitting.left_context``):
        the first text found with that meaning, which then stands for all such texts."""

    def after(self, before: bytes, tokens: Iterable[TokenId]) -> bytes:
        """Return the left context after more tokens; that of an empty answer is empty.

        Any thread may call it: what is remembered follows from its key. At ``_MAX_CACHED`` entries
        everything is forgotten, with ``_canonical``; contexts returned before then still mean the
        same, but equal meanings may then have two texts.
        """
        for token in tokens:
            reached = self._cache.get((before, token))
            if reached is None:
                reached = self._extend(before, token)
                if len(self._cache) >= _MAX_CACHED:
                    self._cache.clear()
                    self._canonical.clear()
                self._cache[before, token] = reached
            before = reached
        return before

    def _extend(self, before: bytes, token: TokenId) -> bytes:
        """Return the left context after one more token, without looking it up in the cache.

        Contexts that mean the same are made equal (``_canonical``), so that there are few.
        """
        splitting, space_letter = self._rules.splitting, self._rules.space_letter
        if splitting is None or before == UNKNOWN_CONTEXT:
            return UNKNOWN_CONTEXT
        # An added token, or the letter for spaces, ends the pieces before it. So does a special
        # token: texts are split at those first. The letter has no token of its own always, so its
        # bytes are looked for. The text of an added token that others spell is ordinary text, as it
        # is for the model, which reads tokens.
        text = self._token_bytes[token]
        if token in self._added_tokens or text is None:
            return b""
        data = before + text
        if space_letter and space_letter in data:
            data = data[data.rfind(space_letter) + len(space_letter) :]
        size = whole_size(data)
        try:
            whole = data[:size].decode()
            meaning, begin = splitting.left_context(whole)
        except SplitUncertainError:
            # Kept as it is: more text may decide.
            return data if len(data) <= _MOST_UNCERTAIN else UNKNOWN_CONTEXT
        except UnicodeDecodeError:
            return UNKNOWN_CONTEXT
        return self._canonical.setdefault(meaning, whole[begin:].encode()) + data[size:]
