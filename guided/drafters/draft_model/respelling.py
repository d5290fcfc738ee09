"""How a draft model with other tokens than the target's reads the target's tokens, and drafts them.

Every token of the target is spelled by tokens of the draft model that stand for the same bytes, and
the draft model's logits count for those tokens of the target that it has as well::

    target      ' Mar' 'ia' '<|im_end|>'
    read as     ' Mar' 'i' 'a' '<|im_end|>'       the same bytes, token by token
    logits      'ia' is no token of the draft model, so it is never proposed; 'i' is

So what was read stays the same when the text continues. The price is that tokens end where the
target's end, which the draft model's own tokenizer might not have done. Timor et al., *Accelerating
LLM inference with lossless speculative decoding algorithms for heterogeneous vocabularies*, 2025,
also draft from the common tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.errors import ModelError
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId

__all__ = ["RespelledText", "Respelling"]

_UNKNOWN_LOGIT: Final = -1e30
"""The logit of a token that the draft model does not have; finite, so that differences are."""


class Respelling:
    """The target's tokens in those of one draft model."""

    def __init__(
        self,
        target: Vocabulary,
        draft: Vocabulary,
        *,
        special: Mapping[TokenId, str],
        known_special: Mapping[str, TokenId],
    ) -> None:
        """``special`` has the tokenizer's names of the target's tokens that stand for no text;
        ``known_special`` are those of the draft model, by name.

        Raises ``ModelError`` if the draft model does not know every byte.
        """
        if draft.missing_bytes:
            missing = sorted(draft.missing_bytes)
            raise ModelError(
                f"the draft model has no token for byte {missing[0]:#04x}"
                + (f" and {len(missing) - 1} more" if missing[1:] else "")
                + ", so it cannot read every token of the model",
                hint="choose a draft model of the same family, or one that knows every byte",
            )
        self._target = target
        self._draft = draft
        self._special = special
        self._known_special = known_special
        pairs = reversed(list(enumerate(draft.token_bytes)))
        self._ids = {text: TokenId(token) for token, text in pairs if text is not None}
        # Of several tokens for one byte, the one that its tokenizer takes.
        self._ids |= {bytes([byte]): token for byte, token in draft.byte_ids.items()}
        self._spelled: dict[TokenId, tuple[TokenId, ...]] = {}
        common = [
            (token, self._ids[text])
            for token, text in enumerate(target.token_bytes)
            if text is not None and text in self._ids
        ]
        self._target_ids = np.array([own for own, _ in common], np.int64)
        self._draft_ids = np.array([its for _, its in common], np.int64)

    @property
    def num_common(self) -> int:
        """The number of the target's tokens that the draft model has as well."""
        return len(self._target_ids)

    def spell(self, token: TokenId) -> tuple[TokenId, ...]:
        """Return the draft model's tokens for one of the target's; at least one."""
        spelled = self._spelled.get(token)
        if spelled is None:
            spelled = self._spelled[token] = self._spell(token)
        return spelled

    def logits(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map logits ``[rows, draft's tokens]`` to the target's ``[rows, target's]``."""
        found = np.full((len(rows), len(self._target)), _UNKNOWN_LOGIT, np.float32)
        found[:, self._target_ids] = rows[:, self._draft_ids]
        return found

    def _spell(self, token: TokenId) -> tuple[TokenId, ...]:
        """Return the draft model's tokens that spell the same bytes as one of the target's."""
        text = self._target.token_bytes[token]
        if text is None:
            # A special token is read as the one of the same name, or as that name.
            name = self._special.get(token, f"<{token}>")
            if name in self._known_special:
                return (self._known_special[name],)
            text = name.encode()
        if text in self._ids:
            return (self._ids[text],)
        return self._by_tokenizer(text) or self._longest_first(text)

    def _by_tokenizer(self, text: bytes) -> tuple[TokenId, ...]:
        """Return the tokenizer's own spelling; empty if it has none of exactly these bytes."""
        try:
            spelled = tuple(map(TokenId, self._draft.spell(text.decode())))
        except (UnicodeDecodeError, ModelError):
            return ()  # such as a part of a character
        # A tokenizer may have tokens for which the model has no logits.
        is_known = max(spelled, default=0) < len(self._draft)
        return spelled if is_known and self._draft.decode(spelled) == text else ()

    def _longest_first(self, text: bytes) -> tuple[TokenId, ...]:
        """Spell bytes with tokens of the draft model, each the longest that fits next."""
        spelled = []
        while text:
            # A single byte is always a token.
            size = next(n for n in range(len(text), 0, -1) if text[:n] in self._ids)
            spelled.append(self._ids[text[:size]])
            text = text[size:]
        return tuple(spelled)


class RespelledText:
    """A text of the target's tokens in those of a draft model, spelled as it grows."""

    def __init__(self, respelling: Respelling) -> None:
        self._respelling = respelling
        self._target: list[TokenId] = []
        self._spelled: list[TokenId] = []

    def update(self, tokens: Sequence[TokenId]) -> Sequence[TokenId]:
        """Make ``tokens`` the text, and return its spelling.

        Only new tokens are spelled, unless the text is shorter or begins otherwise than before.
        The result is not to be changed, and grows with the next call.
        """
        if list(tokens[: len(self._target)]) != self._target:
            self._target, self._spelled = [], []
        for token in tokens[len(self._target) :]:
            self._spelled += self._respelling.spell(token)
            self._target.append(token)
        return self._spelled
