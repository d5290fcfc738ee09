"""How long a prompt may be in bytes, which tells what cannot fit before anything is tokenised."""

from __future__ import annotations

from dataclasses import dataclass

from guided.errors import LimitExceededError
from guided.spec.request import Message

__all__ = ["PromptBound"]

_MOST_BYTES_OF_A_CHARACTER = 4
"""In UTF-8 (RFC 3629)."""


@dataclass(frozen=True, slots=True)
class PromptBound:
    """What one token may stand for at most, so that many bytes are many tokens.

    A text of ``n`` bytes that count has at least ``n / bytes_per_token`` tokens, so nothing is
    refused that would have fitted.
    """

    context_window: int
    """Most tokens of prompt and answer together."""
    bytes_per_token: int
    """Bytes of the longest token, times what normalising a text may shorten it by."""
    lost: bytes = b""
    """Bytes that do not count, since the tokenizer may leave them out."""

    def check(self, prompt: str | tuple[Message, ...]) -> None:
        """Raise LimitExceededError for a prompt that leaves no room for an answer."""
        texts = (prompt,) if isinstance(prompt, str) else [turn.content for turn in prompt]
        most_bytes = (self.context_window - 1) * self.bytes_per_token
        # Nearly all prompts are so short that nothing has to be counted.
        if _MOST_BYTES_OF_A_CHARACTER * sum(map(len, texts)) <= most_bytes:
            return
        nbytes = sum(map(self._counted, texts))
        if nbytes > most_bytes:
            tokens = -(-nbytes // self.bytes_per_token)
            raise LimitExceededError(
                f"the prompt has {nbytes} bytes, which are {tokens} tokens at least, but the "
                f"context window holds {self.context_window}",
                limit=self.context_window,
                field="prompt",
                hint="shorten the prompt",
            )

    def _counted(self, text: str) -> int:
        encoded = text.encode(errors="replace")
        return len(encoded.translate(None, self.lost) if self.lost else encoded)
