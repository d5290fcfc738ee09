"""The tokens of a prompt, for callers that count them or name some of them."""

from __future__ import annotations

from dataclasses import dataclass

from guided.spec.result import TokenId

__all__ = ["PromptTokens"]


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """The tokens of a prompt, as the model reads them."""

    tokens: tuple[TokenId, ...]
    """Their ids: as many as ``usage.prompt_tokens`` of an answer to the same request."""
    texts: tuple[bytes, ...] = ()
    """The bytes of each, in the same order, if requested; of a special token its name. A character
    may be spelled by several tokens."""
