"""What a caller asks for and what comes back: frozen values, validated when they are made."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType, TypeAlias

from guided.errors import RequestError

__all__ = [
    "Constraint",
    "FinishReason",
    "Forcing",
    "GenerationRequest",
    "GenerationResult",
    "JsonSchema",
    "Message",
    "Sampling",
    "TokenId",
    "Usage",
]

TokenId = NewType("TokenId", int)
"""Number of a token in a vocabulary, which is also its column in the logits."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A JSON Schema as text, so that the order of its properties is the caller's."""

    text: str

    def digest(self) -> str:
        """Key under which the compiled form is cached."""
        return "json_schema:" + hashlib.sha256(self.text.encode(errors="surrogatepass")).hexdigest()


Constraint: TypeAlias = JsonSchema | None
"""What an answer must look like; ``None`` allows every text."""


class Forcing(StrEnum):
    """Which tokens are taken without asking the model."""

    OFF = "off"
    """None: every token costs a model call; the reference that speed is measured against."""
    STRICT = "strict"
    """A token is taken where the mask holds exactly one; the answer equals that of OFF."""
    CANONICAL = "canonical"
    """Where the next bytes are certain, they are spelled as the tokenizer itself would."""


class FinishReason(StrEnum):
    """Why an answer ended."""

    COMPLETE = "complete"
    """The structure is complete: nothing may follow."""
    STOP = "stop"
    """The model chose to end where it was allowed to."""
    LENGTH_CLOSED = "length_closed"
    """The token budget forced the answer onto its shortest way to a valid end."""
    LENGTH = "length"
    """The token budget ran out in an answer without a constraint."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; the server applies the model's chat template to all of them."""

    role: str
    content: str

    def __post_init__(self) -> None:
        if self.role not in ("system", "user", "assistant"):
            raise RequestError(
                f"role {self.role!r} is none of 'system', 'user', 'assistant'",
                field="messages.role",
            )


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen among those that the mask allows."""

    temperature: float = 0.0
    """0 takes the likeliest token (greedy)."""
    top_k: int | None = None
    """Keep the k likeliest tokens; ``None`` keeps all."""
    top_p: float | None = None
    """Keep the least set of likeliest tokens whose probability reaches p; ``None`` keeps all."""
    seed: int | None = None
    """The same seed gives the same tokens whatever else is in the batch; ``None`` draws one."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= 100.0:
            raise RequestError(
                f"temperature {self.temperature!r} is not between 0 and 100",
                field="sampling.temperature",
            )
        if self.top_k is not None and self.top_k < 1:
            raise RequestError(f"top_k {self.top_k!r} is below 1", field="sampling.top_k")
        if self.top_p is not None and not 0.0 < self.top_p <= 1.0:
            raise RequestError(
                f"top_p {self.top_p!r} is not above 0 and at most 1", field="sampling.top_p"
            )
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise RequestError(
                f"seed {self.seed!r} is not between 0 and 2**63 - 1", field="sampling.seed"
            )


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One answer to be made."""

    prompt: str | tuple[Message, ...]
    """Plain text goes to the model as it is; messages go through its chat template."""
    constraint: Constraint = None
    max_tokens: int = 256
    """Budget of the answer in tokens, forced ones included."""
    sampling: Sampling = field(default_factory=Sampling)
    forcing: Forcing = Forcing.CANONICAL
    show_schema: bool = False
    """Tell the model the schema in a system message; only with messages."""

    def __post_init__(self) -> None:
        if not self.prompt:
            raise RequestError("the prompt is empty", field="prompt")
        if self.max_tokens < 1:
            raise RequestError(f"max_tokens {self.max_tokens!r} is below 1", field="max_tokens")
        if self.show_schema and isinstance(self.prompt, str):
            raise RequestError(
                "show_schema needs messages",
                field="show_schema",
                hint="pass the prompt as messages, or write the schema into it",
            )
        if self.show_schema and self.constraint is None:
            raise RequestError("show_schema needs a constraint", field="show_schema")


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer cost, in tokens and model calls."""

    prompt_tokens: int = 0
    sampled_tokens: int = 0
    """Tokens of the answer that the model chose."""
    forced_tokens: int = 0
    """Tokens of the answer that the constraint left no choice about."""
    model_calls: int = 0
    """Forward passes that this answer took part in, that of its prompt included."""

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer."""
        return self.sampled_tokens + self.forced_tokens


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """One answer."""

    text: str
    tokens: tuple[TokenId, ...]
    """The answer's tokens, without an end-of-sequence token."""
    finish_reason: FinishReason
    usage: Usage
    seconds: float
    """From the moment the engine took the request to its last token."""
