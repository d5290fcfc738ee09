"""Bounds the length of a prompt in bytes, to refuse what cannot fit before it is tokenised."""

from __future__ import annotations

from dataclasses import dataclass

from guided.errors import LimitExceededError
from guided.spec.prompt import EnginePrompt, TokenPrompt

__all__ = ["PromptBound"]

_MAX_BYTES_PER_CHARACTER = 4
"""In UTF-8 (RFC 3629)."""


@dataclass(frozen=True, slots=True)
class PromptBound:
    """The most bytes of a token, by which a prompt of many bytes must have many tokens.

    A text with ``n`` bytes that count has at least ``n / bytes_per_token`` tokens, so nothing that
    would fit is refused.
    """

    context_window: int
    """The most tokens of prompt and answer together."""
    bytes_per_token: int
    """Bytes of the longest token, times the factor by which normalising may shorten a text."""
    lost: bytes = b""
    """Bytes that do not count, because the tokenizer may drop them."""

    def check(self, prompt: EnginePrompt) -> None:
        """Raise LimitExceededError for a prompt that leaves no room for an answer.

        Of messages only contents count: the template may leave out thoughts. What it writes is to
        be checked as a text.
        """
        if isinstance(prompt, TokenPrompt):
            return  # its length is known where the room for an answer is
        texts = (prompt,) if isinstance(prompt, str) else [turn.content for turn in prompt]
        most_bytes = (self.context_window - 1) * self.bytes_per_token
        # Nearly all prompts are so short that their bytes need not be counted.
        if _MAX_BYTES_PER_CHARACTER * sum(map(len, texts)) <= most_bytes:
            return
        nbytes = sum(map(self._count_bytes, texts))
        if nbytes > most_bytes:
            tokens = -(-nbytes // self.bytes_per_token)
            raise LimitExceededError(
                f"the prompt has {nbytes} bytes, which are {tokens} tokens at least, but the "
                f"context window holds {self.context_window}",
                limit=self.context_window,
                field="prompt",
                hint="shorten the prompt",
            )

    def _count_bytes(self, text: str) -> int:
        encoded = text.encode(errors="replace")
        return len(encoded.translate(None, self.lost) if self.lost else encoded)
