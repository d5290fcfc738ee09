"""Digests what an engine may have kept for a request: beginnings of its prompt, and its constraint.

::

    salt and adapter ─▶ h0    each digest stands for all that comes before it, so equal
    first 256 bytes  ─▶ h1    digests mean equal beginnings; as many as an engine and an
    first 512 bytes  ─▶ h2    ingress agree on are what a cache of prompts can save
    first 1024 bytes ─▶ h3
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass
from typing import Final

from guided.v1 import generation_pb2 as pb

__all__ = ["FIRST_BYTES", "Affinity", "affinity_of"]

FIRST_BYTES: Final = 256
"""Length of the shortest beginning; each further one is twice as long."""

_MOST_BEGINNINGS: Final = 10
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Affinity:
    """What sends a request to an engine that has seen a similar one."""

    beginnings: tuple[bytes, ...] = ()
    """Digests of the prompt's beginnings, the shortest first."""
    constraint: bytes | None = None
    """Digest of the constraint; ``None`` without one."""
    prompt_bytes: int = 0
    """Length of the whole prompt."""
    constraint_bytes: int = 0
    """Bytes of prompt that take as long to compute as the constraint to compile (``worth``)."""

    @property
    def named(self) -> bytes | None:
        """The digest that most similar requests share, if any."""
        return self.beginnings[0] if self.beginnings else self.constraint

    def weight(self, engine: str) -> bytes:
        """Return an engine's weight, the same for every caller (rendezvous hashing)."""
        return _digest(engine.encode() + (self.named or b"")).digest()


def affinity_of(message: pb.GenerateRequest) -> Affinity:
    """Return what a request may have in common with others."""
    constraint = None
    if message.HasField("constraint"):
        constraint = _digest(message.constraint.SerializeToString(deterministic=True)).digest()
    match message.WhichOneof("prompt"):
        case "messages":
            prompt = b"".join(map(_turn_bytes, message.messages.messages))
        case "tokens":
            prompt = array("I", message.tokens.tokens).tobytes()
        case _:
            prompt = message.text.encode()
    return Affinity(_beginnings(message, prompt), constraint, len(prompt))


def _turn_bytes(turn: pb.Message) -> bytes:
    # A serialized message begins with its length, which is another if only its end is another.
    parts = (part.text for part in turn.parts)
    texts = turn.role, turn.reasoning, turn.content, *parts, turn.tool_call_id
    calls = b"".join(call.SerializeToString(deterministic=True) for call in turn.tool_calls)
    return "\0".join(texts).encode() + calls + b"\0"


def _beginnings(message: pb.GenerateRequest, prompt: bytes) -> tuple[bytes, ...]:
    # What is computed for one salt or adapter is of no use to another.
    digest = _digest(repr((message.cache_salt, message.adapter)).encode())
    found: list[bytes] = []
    start, end = 0, FIRST_BYTES
    while start < len(prompt) and len(found) < _MOST_BEGINNINGS:
        if len(prompt) < end and found:
            break  # no other prompt shares exactly this remainder
        digest.update(prompt[start:end])
        found.append(digest.digest())
        start, end = end, 2 * end
    return tuple(found)


def _digest(data: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES)
