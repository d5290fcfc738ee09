"""Settings of a server: from options, the environment and a file, the first of these winning."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, ByteSize, Field, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from guided.errors import RequestError
from guided.spec.closest import close_names

__all__ = ["Group", "ManyValues", "ServerConfig", "read_config"]


class Group(NamedTuple):
    """The heading that a setting is listed under in the help of ``guided serve``."""

    title: str


class ManyValues(NamedTuple):
    """A setting with several values; in one text they are separated by commas."""

    option: str | None = None
    """The option of ``guided serve`` that gives one value, and may be repeated."""


_MEMORY = Group("Memory")
_NETWORK = Group("Network")
_ACCESS = Group("Access")
_REQUESTS = Group("What requests leave open")
_LIMITS = Group("Limits")
_TIMES = Group("Times, in seconds")
_LOG = Group("Log")

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]+)?")
"""A scheme and a host in lower-case ASCII, perhaps with a port, and no path."""
_DEFAULT_PORT: Final = re.compile(r"(http://.*):80|(https://.*):443")
"""Origins with a port that browsers leave out, and what they send."""


def _origin(given: str) -> str:
    """Return an origin of web pages as browsers send it; raises ValueError for anything else."""
    if given != "*" and not _ORIGIN.fullmatch(given):
        raise ValueError(
            f"{given!r} is no origin as browsers send it, such as https://app.example:8443, nor *"
        )
    if sent := _DEFAULT_PORT.fullmatch(given):
        raise ValueError(f"{given!r} is sent by browsers as {sent[1] or sent[2]}; write that")
    return given


class ServerConfig(BaseSettings):
    """Settings of one server; each is also read from the environment as ``GUIDED_<NAME>``.

    ``guided serve`` has an option for each, and ``read_config`` reads them from a file as well.
    """

    model_config = SettingsConfigDict(
        env_prefix="GUIDED_", frozen=True, use_attribute_docstrings=True
    )

    model: str | None = None
    """Hub id, folder or GGUF file. Default: SmolLM2-135M-Instruct."""
    reward_model: str | None = None
    """Folder of a reward model (a classifier with one label), for requests that rank answers by
    it."""
    draft_models: Annotated[tuple[str, ...], NoDecode, ManyValues("--draft-model")] = ()
    """Smaller model that drafts, best with the same tokenizer; may be repeated."""
    draft_widths: Annotated[tuple[int, ...] | None, NoDecode, ManyValues()] = None
    """Tokens that draft models draft after each token, level by level, e.g. 3,2,1,1. Default:
    1,1,1,1."""
    heads: Annotated[tuple[str, ...], NoDecode, ManyValues("--heads")] = ()
    """Folder of Medusa or EAGLE-3 heads for the model, which draft; may be repeated."""
    adapters: Annotated[dict[str, str], NoDecode, ManyValues("--adapter")] = {}
    """NAME=FOLDER of a LoRA adapter that requests may name; may be repeated."""
    device: str = "auto"
    """Where the model computes: auto (CUDA if available), cpu, cuda or cuda:N. Default: auto."""
    dtype: Literal["bfloat16", "float16", "float32", "float64", "int8", "int4", "stored"] | None = (
        None
    )
    """Format of the weights, e.g. float32 or int8. Default: that of a GGUF file (stored), else
    bfloat16, or another format where bfloat16 is slow."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of a model call. Default: one per physical core, or fewer by a CPU quota of the
    container, divided among the ranks."""
    tensor_parallel: int = Field(default=1, ge=1)
    """Number of ranks: processes that each hold a share of every layer. Default: 1. On CUDA each
    rank has its own device."""
    pipeline_parallel: int = Field(default=1, ge=1)
    """Number of ranks that each hold some whole layers instead, and exchange less. Default: 1."""
    drafters: Annotated[tuple[str, ...] | None, NoDecode] = None
    """Drafters to use, in this order, of lookup, suffix and lookahead. Default: lookup,suffix."""
    max_batch: int | None = Field(default=None, ge=1)
    """Maximum number of answers computed in one model call. Default: 16 on the CPU, 64 on CUDA."""
    step_tokens: int | None = Field(default=None, ge=1)
    """Maximum number of tokens in one model call, not counting drafts. Default: 512 on the CPU,
    2,048 on CUDA."""
    cache_tokens: Annotated[int | None, _MEMORY] = Field(default=None, ge=1)
    """Maximum number of tokens that all running requests hold together. Default: 16,384, or as many
    as fit."""
    kv_memory: Annotated[ByteSize | None, _MEMORY] = Field(default=None, gt=0)
    """Memory for keys and values, e.g. 2GiB, instead of --cache-tokens."""
    kv_dtype: Annotated[Literal["int8"] | None, _MEMORY] = None
    """Format in which keys and values are kept: int8. Default: as they are computed."""
    reuse_prefixes: Annotated[bool, _MEMORY] = True
    """Keep what was computed for prompts, for requests that begin the same way. On by default."""
    standby: Annotated[bool, _MEMORY] = True
    """Keep a process with the model loaded, from which a lost engine is restarted at once. On by
    default; the weights are in memory only once."""
    host: Annotated[str, _NETWORK] = "127.0.0.1"
    """Address to listen on. Default: 127.0.0.1. Any but a loopback address needs a certificate or
    --insecure."""
    port: Annotated[int, _NETWORK] = Field(default=50051, ge=0, le=65535)
    """Port to listen on; 0 picks a free one. Default: 50051."""
    http_port: Annotated[int | None, _NETWORK] = Field(default=None, ge=0, le=65535)
    """Port for OpenAI's API over HTTP; 0 picks a free one. Default: not served."""
    http_host: Annotated[str, _NETWORK] = "127.0.0.1"
    """Address for OpenAI's API. Default: 127.0.0.1. Any but a loopback address needs a certificate
    or --insecure."""
    http_cors_origins: Annotated[
        tuple[Annotated[str, AfterValidator(_origin)], ...],
        NoDecode,
        ManyValues("--http-cors-origin"),
        _NETWORK,
    ] = ()
    """Origin of web pages that may call OpenAI's API from a browser, e.g. https://app.example, or *
    for all; may be repeated. Default: none."""
    playground: Annotated[bool | None, _NETWORK] = None
    """Serve the playground, a web page, with OpenAI's API; its calls need a token like all others.
    Default: only on loopback addresses."""
    metrics_port: Annotated[int | None, _NETWORK] = Field(default=None, ge=0, le=65535)
    """Port for Prometheus metrics; 0 picks a free one. Default: not served."""
    metrics_host: Annotated[str, _NETWORK] = "127.0.0.1"
    """Address for metrics. Default: 127.0.0.1. Any but a loopback address needs a certificate or
    --insecure."""
    reflection: Annotated[bool | None, _NETWORK] = None
    """Offer gRPC reflection, which lists the server's methods. Default: only on loopback
    addresses."""
    tls_cert: Annotated[Path | None, _ACCESS] = None
    """PEM file with the server's certificate chain, which turns encryption on; read again when it
    changes."""
    tls_key: Annotated[Path | None, _ACCESS] = None
    """PEM file with the certificate's private key."""
    tls_client_ca: Annotated[Path | None, _ACCESS] = None
    """PEM file with the certificate of the authority that signs client certificates, which clients
    must then show."""
    tokens: Annotated[Path | None, _ACCESS] = None
    """TOML file with the tokens that callers must show, and their quotas; read again when it
    changes. 'guided tokens new' makes its entries."""
    insecure: Annotated[bool, _ACCESS] = False
    """Listen beyond this machine without encryption, where something else protects the traffic."""
    top_priority: Annotated[int, _ACCESS] = Field(default=-3, ge=-100, le=100)
    """Lowest priority number that counts; lower is served earlier, and numbers below are raised to
    it. Default: -3, a head start of 30 seconds. Tokens may set their own."""
    unknown_keywords: Annotated[Literal["note", "refuse"], _REQUESTS] = "note"
    """What becomes of keywords that a schema's draft does not define, such as misspelt ones, where
    a request does not say: they are notes, or refused. Default: note."""
    on_incomplete: Annotated[Literal["close", "error"], _REQUESTS] = "close"
    """What becomes of an answer that its budget or deadline cuts short, where a request does not
    say: it is closed, or an error. Default: close."""
    max_connections: Annotated[int, _LIMITS] = Field(default=2000, ge=1)
    """Maximum number of connections. Default: 2000, or half of the file descriptors that the system
    allows. Idle ones are closed as the limit comes near, and new ones beyond it immediately."""
    max_requests_in_flight: Annotated[int, _LIMITS] = Field(default=64, ge=1)
    """Maximum number of requests at once, each of a batch counted; more wait. Default: 64."""
    max_requests_queued: Annotated[int, _LIMITS] = Field(default=4096, ge=0)
    """Maximum number of waiting requests; more are told to try again later. Default: 4096."""
    max_held_bytes: Annotated[ByteSize, _LIMITS] = Field(default=ByteSize(2**28), ge=2**16)
    """Maximum memory for the messages of all calls and what is made of them, from arrival to end,
    e.g. 1GiB. One caller may use as much as it leaves free; more calls are told to try again later.
    Default: 256 MiB."""
    max_requests_of_one: Annotated[int | None, _LIMITS] = Field(default=None, ge=1)
    """Maximum number of requests in flight of one caller, so that others find a place. Default:
    half of --max-requests-in-flight."""
    max_streams_per_connection: Annotated[int, _LIMITS] = Field(default=256, ge=1)
    """Maximum number of calls at once over a connection; more wait at their sender. Default:
    256."""
    max_health_watchers: Annotated[int, _LIMITS] = Field(default=1000, ge=0)
    """Maximum number of calls that watch the health. Default: 1000, or half of the connections."""
    max_batch_size: Annotated[int, _LIMITS] = Field(default=64, ge=1)
    """Maximum number of requests in one batch. Default: 64."""
    max_message_bytes: Annotated[int, _LIMITS] = Field(default=4 * 2**20, ge=1024)
    """Maximum size of one call's message in bytes. Default: 4 MiB."""
    max_message_fields: Annotated[int, _LIMITS] = Field(default=50_000, ge=1000)
    """Maximum number of fields in a call's message, each item of a list counted. Default:
    50,000."""
    max_stored_constraints: Annotated[int, _LIMITS] = Field(default=1024, ge=1)
    """Maximum number of constraints kept for requests to name; the least recently used are dropped
    first. Default: 1024."""
    max_stored_bytes: Annotated[ByteSize, _LIMITS] = Field(default=ByteSize(2**26), ge=1)
    """Maximum size of all stored constraints' messages together, e.g. 1GiB. Default: 64 MiB."""
    retry_after_seconds: Annotated[float, _TIMES] = Field(default=0.5, gt=0)
    """Wait that callers who are turned away are asked for. Default: 0.5."""
    stall_seconds: Annotated[float, _TIMES] = Field(default=60.0, gt=0)
    """Time without progress after which a caller is cut off: one who reads nothing of a stream or
    batch, or whose message has not arrived. Default: 60."""
    look_seconds: Annotated[float, _TIMES] = Field(default=60.0, gt=0)
    """Time for the playground's inspection of a constraint, including its wait for a place.
    Default: 60."""
    silence_seconds: Annotated[float, _TIMES] = Field(default=15.0, ge=1.5)
    """Silence of the engine after which the server reports that it is not serving. Default: 15."""
    hang_seconds: Annotated[float, _TIMES] = Field(default=60.0, ge=3)
    """Silence of the engine after which it is killed and restarted. Default: 60."""
    stuck_seconds: Annotated[float, _TIMES] = Field(default=900.0, ge=3)
    """Duration of one engine step after which the engine is killed and restarted. Default: 900."""
    idle_seconds: Annotated[float, _TIMES] = Field(default=900.0, gt=0)
    """Time that a connection may stay open without a call. Default: 900."""
    connection_age_seconds: Annotated[float, _TIMES] = Field(default=3600.0, gt=0)
    """Age at which a connection takes no new calls, so that clients reconnect; its running calls
    have as long again. Default: 3600."""
    lame_duck_seconds: Annotated[float, _TIMES] = Field(default=0.5, ge=0)
    """Time after SIGTERM while health says NOT_SERVING but requests are taken. Default: 0.5."""
    drain_seconds: Annotated[float, _TIMES] = Field(default=30.0, ge=0)
    """Time that running requests then have to finish. Default: 30."""
    restart_backoff_seconds: Annotated[float, _TIMES] = Field(default=0.5, ge=0)
    """Wait before a lost engine is restarted, doubled after each failure. Default: 0.5."""
    max_restart_backoff_seconds: Annotated[float, _TIMES] = Field(default=30.0, ge=0)
    """Longest wait before a restart. Default: 30."""
    log_format: Annotated[Literal["auto", "json", "console"], _LOG] = "auto"
    """Log JSON lines, or lines for people (console). Default: auto, which is console in a terminal
    and json elsewhere."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _LOG] = "info"
    """Lowest level that is logged. Default: info."""
    log_requests: Annotated[bool, _LOG] = True
    """Log one line at level info for each finished request. On by default."""

    @field_validator(
        "heads", "drafters", "draft_models", "draft_widths", "http_cors_origins", mode="before"
    )
    @classmethod
    def _split(cls, given: object) -> object:
        """Split several values in one text at commas."""
        if isinstance(given, str):
            return tuple(name.strip() for name in given.split(",") if name.strip())
        return given

    @field_validator("adapters", mode="before")
    @classmethod
    def _by_name(cls, given: object) -> object:
        """Read ``NAME=FOLDER`` pairs, several in one text separated by commas, or a table."""
        if isinstance(given, str):
            given = [each for each in given.split(",") if each.strip()]
        if not isinstance(given, list | tuple):
            return given
        found: dict[str, str] = {}
        for each in given:
            name, is_one, folder = str(each).partition("=")
            if not is_one or not name.strip() or not folder.strip():
                raise ValueError(f"{each!r} is no NAME=FOLDER")
            if name.strip() in found:
                raise ValueError(f"two adapters have the name {name.strip()!r}")
            found[name.strip()] = folder.strip()
        return found

    @model_validator(mode="after")
    def _cache_has_one_size(self) -> Self:
        if self.cache_tokens is not None and self.kv_memory is not None:
            raise ValueError("cache_tokens and kv_memory both say how large the cache is")
        return self

    @model_validator(mode="after")
    def _silence_comes_before_the_end(self) -> Self:
        if self.hang_seconds < self.silence_seconds:
            raise ValueError(
                f"hang_seconds {self.hang_seconds:g} is below silence_seconds "
                f"{self.silence_seconds:g}"
            )
        return self

    @property
    def most_of_one(self) -> int:
        """The number of requests in flight that one caller may have."""
        if self.max_requests_of_one is not None:
            return self.max_requests_of_one
        # If no request may wait, reserving half of the places would only leave them empty.
        all_places = self.max_requests_in_flight
        return max(1, all_places // 2) if self.max_requests_queued else all_places

    @property
    def tls_files(self) -> tuple[Path, ...]:
        """The certificate, its key, and the CAs of callers' certificates, as far as given."""
        return tuple(filter(None, (self.tls_cert, self.tls_key, self.tls_client_ca)))

    @model_validator(mode="after")
    def _certificate_is_whole(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key only go together")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("tls_client_ca needs tls_cert and tls_key")
        if self.insecure and self.tls_cert is not None:
            raise ValueError("insecure and tls_cert contradict each other")
        return self

    @model_validator(mode="after")
    def _batch_fits(self) -> Self:
        if self.max_batch_size > self.max_requests_in_flight:
            raise ValueError(
                f"max_batch_size {self.max_batch_size} is above max_requests_in_flight "
                f"{self.max_requests_in_flight}, so the largest batches could never run"
            )
        return self


def read_config(given: Mapping[str, object], file: Path | None) -> ServerConfig:
    """Return the given settings, filled in from the environment and then from a TOML file.

    Raises RequestError for a file that cannot be read or that names an unknown setting, and
    pydantic's ValidationError for a wrong value.
    """
    if file is None:
        return ServerConfig.model_validate(given)
    _check_file(file)

    class WithFile(ServerConfig):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - there is none
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - nor such
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)

    return WithFile.model_validate(given)


def _check_file(file: Path) -> None:
    """Raise RequestError unless the file is TOML and names settings only."""
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RequestError(f"{file} cannot be read: {error}") from error
    known = ServerConfig.model_fields
    for name in settings:
        if name not in known:
            close = close_names(name, known, 1) or sorted(known)
            raise RequestError(
                f"{file} sets {name!r}, which is no setting of a server",
                hint=f"there is {', '.join(close)}",
            )
