"""What ingress and engines say to each other: answers are the messages of engine processes.

Ray carries bytes as they are, so all but what its router reads is written here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from guided.error_record import ErrorRecord, rebuild_error, record_error
from guided.errors import GuidedError, ServiceUnavailableError, incident_of
from guided_service.engine_connection import CutOffError
from guided_service.messages import (
    Answered,
    Checked,
    Drawn,
    Failed,
    Grown,
    MaskRead,
    Ready,
    Report,
    TextRead,
)
from guided_service.ray.affinity import Affinity

__all__ = ["Absent", "Asked", "CutOff", "Reply", "error_of", "failed", "read_reply", "write_reply"]


@dataclass(frozen=True, slots=True)
class Asked:
    """Something for an engine to do."""

    affinity: Affinity
    """By what the router chooses the engine."""
    content: bytes
    """A ``guided.v1.GenerateRequest``, or ``Inspect``."""
    seconds: float | None
    """Since a request came; until nobody waits for an inspection. Clocks of nodes differ."""
    client: str = ""
    """Who asks for an answer; an inspection says so itself."""
    avoided: frozenset[str] = frozenset()
    """Replicas that said that they have no engine for the moment; others are asked first."""

    def elsewhere(self, absent: Absent) -> Asked:
        """The same for another engine; ``ServiceUnavailableError`` where there was no other."""
        if absent.replica in self.avoided:
            raise ServiceUnavailableError("no engine is ready", hint="try again shortly")
        return replace(self, avoided=self.avoided | {absent.replica})


class Absent(msgspec.Struct, frozen=True, tag=True):
    """The engine of this replica is being made again, and took nothing of what was asked."""

    replica: str


class CutOff(msgspec.Struct, frozen=True, tag=True):
    """The request had begun to run when its engine process ended."""

    error: ErrorRecord


Reply: TypeAlias = (
    Absent
    | Answered
    | Checked
    | CutOff
    | Drawn
    | Failed
    | Grown
    | MaskRead
    | Ready
    | Report
    | TextRead
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def write_reply(reply: Reply) -> bytes:
    """A reply as bytes, which Ray carries as they are."""
    return _encoder.encode(reply)


def read_reply(payload: bytes) -> Reply:
    """The reply that an engine wrote."""
    return _decoder.decode(payload)


def failed(error: Exception) -> CutOff | Failed:
    """The reply that stands for an error; of a fault of ours, that of its incident."""
    told = error if isinstance(error, GuidedError) else incident_of(error)
    record = record_error(told)
    return CutOff(record) if isinstance(error, CutOffError) else Failed("", record)


def error_of(reply: CutOff | Failed) -> GuidedError:
    """The error that a reply stands for."""
    error = rebuild_error(reply.error)
    if isinstance(reply, CutOff):
        # Its words say it all; that it is not to be asked again is in its kind.
        return CutOffError(reply.error.message, hint=reply.error.fields.get("hint"))
    return error
