"""The messages between the server and its engine process.

::

    server                                         engine process
      │  ── EngineSettings, on the command line ──▶  │  loads the model
      │  ◀── Ready, or NotStarted and the end ─────  │
      │  ── Submit ───────────────────────────────▶  │  takes steps
      │  ◀── Grown, after each step that added text  │
      │  ◀── Answered or Failed ───────────────────  │
      │  ── Inspect ──────────────────────────────▶  │  works on a constraint between steps
      │  ◀── Checked, TextRead, MaskRead, Drawn      │
      │      or Failed ────────────────────────────  │
      │  ── Tokenize, Detokenize ─────────────────▶  │  makes tokens of a prompt, or text of tokens
      │  ◀── Found or Failed ──────────────────────  │
      │  ◀── Report, at most once a second ────────  │
      │  ◀── Pulse, each second, on another socket   │
      │  ── Cancel, Stop ─────────────────────────▶  │
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Self, TypeAlias

import msgspec

from guided.error_record import ErrorRecord
from guided.spec import (
    CheckedConstraint,
    GenerationRequest,
    GenerationResult,
    PromptTokens,
    TextReport,
)
from guided.spec.delta import Delta
from guided.spec.findings import Automaton, Finding, MaskReport, TaskKind
from guided.spec.prompt_bound import PromptBound
from guided.stats import EngineStats, ModelInfo
from guided.v1 import generation_pb2 as pb
from guided.wire_request import decode_request, encode_request

__all__ = [
    "Answered",
    "Cancel",
    "Detokenize",
    "Ended",
    "EngineSettings",
    "Failed",
    "Forked",
    "Found",
    "FromEngine",
    "Grown",
    "HasRequest",
    "Inspect",
    "LogChoice",
    "ModelChoice",
    "NotStarted",
    "Pulse",
    "Ready",
    "Report",
    "StandbySettings",
    "Stop",
    "Submit",
    "ToEngine",
    "Tokenize",
    "read_finding",
    "read_from_engine",
    "read_news",
    "read_order",
    "read_prompt_tokens",
    "read_pulse",
    "read_settings",
    "read_text",
    "read_to_engine",
    "write",
    "write_line",
]


class ModelChoice(msgspec.Struct, frozen=True):
    """The model to load, and how; ``None`` leaves the choice to the engine."""

    model: str | None = None
    dtype: str | None = None
    threads: int | None = None
    cache_tokens: int | None = None
    kv_memory: int | None = None
    """In bytes."""
    kv_dtype: str | None = None
    reuse_prefixes: bool = True
    reward_model: str | None = None
    device: str = "auto"
    draft_models: tuple[str, ...] = ()
    draft_widths: tuple[int, ...] | None = None
    heads: tuple[str, ...] = ()
    drafters: tuple[str, ...] | None = None
    max_batch: int | None = None
    step_tokens: int | None = None
    adapters: dict[str, str] = {}
    """Folders, by name."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1


class LogChoice(msgspec.Struct, frozen=True):
    """The format and level of the log, in the words of the server's settings."""

    form: str = "auto"
    level: str = "info"


class EngineSettings(msgspec.Struct, frozen=True, tag=True):
    """The settings that an engine process is started with."""

    choice: ModelChoice
    endpoint: str
    """Socket of the server that started it."""
    parent: int
    """Process id of that server, with which the engine ends."""
    logs: LogChoice = LogChoice()

    @property
    def pulse_endpoint(self) -> str:
        """Socket on which the server listens for pulses."""
        return f"{self.endpoint}.pulse"


class StandbySettings(msgspec.Struct, frozen=True, tag=True):
    """The settings of a process that forks engines."""

    choice: ModelChoice
    parent: int
    """Process id of the server that started it, with which it ends."""
    control: int
    """Descriptor of a socket to the server: settings of engines come in, and news of them go out,
    one per line."""
    logs: LogChoice = LogChoice()
    has_compiled: bool = False
    """Whether it has restarted itself after compiling kernels."""


class Forked(msgspec.Struct, frozen=True, tag=True):
    """An engine ordered from a standby runs."""

    process: int


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A standby's engine has ended."""

    status: int
    """Its exit status, or below zero the number of a signal."""


class HasRequest(msgspec.Struct, frozen=True):
    """Has the request of a caller."""

    request_id: str
    message: bytes
    """The request as a ``guided.v1.GenerateRequest``; its constraints name their kind."""
    received: float
    """When the server received it, by the machine's monotonic clock, in seconds."""

    def request(self) -> GenerationRequest:
        """Decode the request; each call makes a new object."""
        return decode_request(pb.GenerateRequest.FromString(self.message))


class Submit(HasRequest, frozen=True, tag=True):
    """Generate an answer to this request."""

    stream: bool = False
    """Send its text as it grows."""
    watch: bool = False
    """Instead send how it comes about, in lines of JSON (``watching``)."""
    client: str = ""
    """The client; clients take turns where work is done in slices."""

    @classmethod
    def of(
        cls,
        request_id: str,
        request: GenerationRequest,
        *,
        received: float,
        stream: bool,
        watch: bool = False,
        client: str = "",
    ) -> Self:
        """Return the message for a request."""
        message = encode_request(request).SerializeToString()
        return cls(request_id, message, received, stream, watch, client)


class Tokenize(HasRequest, frozen=True, tag=True):
    """Return the tokens of this request's prompt, without an answer."""

    texts: bool = False
    """Return their texts as well."""

    @classmethod
    def of(
        cls, request_id: str, request: GenerationRequest, *, received: float, texts: bool
    ) -> Self:
        """Return the message for a request."""
        message = encode_request(request).SerializeToString()
        return cls(request_id, message, received, texts)


class Detokenize(msgspec.Struct, frozen=True, tag=True):
    """Return the text that these tokens stand for."""

    request_id: str
    tokens: tuple[int, ...]


class Inspect(msgspec.Struct, frozen=True, tag=True):
    """Work on this constraint, without an answer."""

    request_id: str
    what: TaskKind
    constraint: bytes
    """The constraint as a ``guided.v1.Constraint``."""
    text: str = ""
    """The text to read, where one is read."""
    deadline: float | None = None
    """When the caller stops waiting for it, by the machine's monotonic clock."""
    tokens: tuple[int, ...] = ()
    """Tokens of an answer after which the mask is to be read."""
    model: str = ""
    """The model whose tokens are meant, if there are several."""
    client: str = ""
    """The client, as in ``Submit``."""


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """The caller no longer waits for this answer."""

    request_id: str


class Stop(msgspec.Struct, frozen=True, tag=True):
    """End the process."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The model is loaded."""

    model: ModelInfo
    prompt_bound: PromptBound | None = None
    """How long a prompt may be in bytes; ``None`` if only its tokens decide."""


class Report(msgspec.Struct, frozen=True, tag=True):
    """The engine's statistics so far; sent at most once a second."""

    stats: EngineStats


class Pulse(msgspec.Struct, frozen=True, tag=True):
    """The process is alive; sent by a thread that does not wait for long model calls."""

    turns: int
    """How many turns its loop has taken."""


class NotStarted(msgspec.Struct, frozen=True, tag=True):
    """The engine cannot start with its settings, and the process ends."""

    error: ErrorRecord


class Grown(msgspec.Struct, frozen=True, tag=True):
    """What one step added to streamed answers."""

    deltas: tuple[Delta, ...]


class Answered(msgspec.Struct, frozen=True, tag=True):
    """A request has its answer."""

    request_id: str
    result: GenerationResult


class Found(msgspec.Struct, frozen=True, tag=True):
    """What was found about a constraint or about tokens."""

    request_id: str
    finding: msgspec.Raw
    """Of the type that was asked for: nothing in it tells one type from another."""

    @classmethod
    def of(cls, request_id: str, finding: Finding | PromptTokens | bytes) -> Self:
        """Return the message that reports a finding."""
        return cls(request_id, msgspec.Raw(msgspec.msgpack.encode(finding)))


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A request has an error instead of an answer."""

    request_id: str
    error: ErrorRecord


ToEngine: TypeAlias = Submit | Inspect | Tokenize | Detokenize | Cancel | Stop
FromEngine: TypeAlias = Ready | NotStarted | Report | Grown | Answered | Found | Failed

write: Final[Callable[[ToEngine | FromEngine | Pulse], bytes]] = msgspec.msgpack.Encoder().encode

read_to_engine: Final[Callable[[bytes], ToEngine]] = msgspec.msgpack.Decoder(ToEngine).decode
read_from_engine: Final[Callable[[bytes], FromEngine]] = msgspec.msgpack.Decoder(FromEngine).decode
read_finding: Final[Mapping[str, Callable[[msgspec.Raw], Finding]]] = {
    "check": msgspec.msgpack.Decoder(CheckedConstraint).decode,
    "compile": msgspec.msgpack.Decoder(CheckedConstraint).decode,
    "read": msgspec.msgpack.Decoder(TextReport).decode,
    "mask": msgspec.msgpack.Decoder(MaskReport).decode,
    "draw": msgspec.msgpack.Decoder(Automaton).decode,
}
"""Decodes what was found, by what was asked."""
read_prompt_tokens: Final[Callable[[msgspec.Raw], PromptTokens]] = msgspec.msgpack.Decoder(
    PromptTokens
).decode
"""Decodes what ``Tokenize`` asks for."""
read_text: Final[Callable[[msgspec.Raw], bytes]] = msgspec.msgpack.Decoder(bytes).decode
"""Decodes what ``Detokenize`` asks for."""
read_pulse: Final[Callable[[bytes], Pulse]] = msgspec.msgpack.Decoder(Pulse).decode
read_settings: Final[Callable[[str], EngineSettings | StandbySettings]] = msgspec.json.Decoder(
    EngineSettings | StandbySettings
).decode
"""Decodes the settings given on the command line."""
read_order: Final[Callable[[bytes], EngineSettings]] = msgspec.json.Decoder(EngineSettings).decode
"""Decodes the settings of an engine that is ordered from a standby."""
read_news: Final[Callable[[bytes], Forked | Ended]] = msgspec.json.Decoder(Forked | Ended).decode
"""Decodes the news of a standby about its engine."""


def write_line(message: EngineSettings | StandbySettings | Forked | Ended) -> bytes:
    """Encode settings or news of an engine as one line of JSON."""
    return msgspec.json.encode(message) + b"\n"
