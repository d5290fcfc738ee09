"""The messages between ingress and engines; answers are the messages of engine processes.

Ray carries bytes unchanged, so everything but what its router reads is encoded here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import msgspec

from guided.error_record import ErrorRecord, rebuild_error, record_error
from guided.errors import GuidedError, ServiceUnavailableError, incident_of
from guided.stats import EngineStats
from guided_service.engine_connection import CutOffError
from guided_service.messages import Answered, Failed, Found, Grown, Ready
from guided_service.ray.affinity import Affinity

__all__ = [
    "Absent",
    "Asked",
    "CutOff",
    "Reply",
    "Reported",
    "error_of",
    "failed",
    "read_reply",
    "write_reply",
]


@dataclass(frozen=True, slots=True)
class Asked:
    """A task for an engine."""

    affinity: Affinity
    """What the router chooses the engine by."""
    content: bytes
    """An encoded ``guided.v1.GenerateRequest``, ``Inspect``, ``Tokenize`` or ``Detokenize``."""
    seconds: float | None
    """Seconds since a request came, or until nobody waits for an inspection; clocks differ."""
    client: str = ""
    """The client of a request for an answer; an inspection names its own."""
    avoided: frozenset[str] = frozenset()
    """Replicas that reported no engine for the moment; others are tried first."""

    def elsewhere(self, absent: Absent) -> Asked:
        """Return the task for another engine; ``ServiceUnavailableError`` if none is left."""
        if absent.replica in self.avoided:
            raise ServiceUnavailableError("no engine is ready", hint="try again shortly")
        return replace(self, avoided=self.avoided | {absent.replica})


class Absent(msgspec.Struct, frozen=True, tag=True):
    """The engine of this replica is restarting and took nothing of the task."""

    replica: str


class CutOff(msgspec.Struct, frozen=True, tag=True):
    """The request was running when its engine process ended."""

    error: ErrorRecord


class Reported(msgspec.Struct, frozen=True, tag=True):
    """The statistics of the engine of this replica."""

    replica: str
    stats: EngineStats


Reply: TypeAlias = Absent | Answered | CutOff | Failed | Found | Grown | Ready | Reported

write_reply: Final[Callable[[Reply], bytes]] = msgspec.msgpack.Encoder().encode
read_reply: Final[Callable[[bytes], Reply]] = msgspec.msgpack.Decoder(Reply).decode


def failed(error: Exception) -> CutOff | Failed:
    """Return the reply that stands for an error; for a fault of ours, its incident."""
    told = error if isinstance(error, GuidedError) else incident_of(error)
    record = record_error(told)
    return CutOff(record) if isinstance(error, CutOffError) else Failed("", record)


def error_of(reply: CutOff | Failed) -> GuidedError:
    """Return the error that a reply stands for."""
    error = rebuild_error(reply.error)
    if isinstance(reply, CutOff):
        # Its kind says that it must not be retried.
        return CutOffError(reply.error.message, hint=reply.error.fields.get("hint"))
    return error
