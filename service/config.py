"""Settings of a server: from options, the environment and a file, the first of these winning."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import ByteSize, Field, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from guided.errors import RequestError

__all__ = ["Group", "ServerConfig", "Several", "read_config"]


class Group(NamedTuple):
    """The heading that a setting is listed under in the help of ``guided serve``."""

    title: str


class Several(NamedTuple):
    """A setting with several values; in one text they are separated by commas."""

    option: str | None = None
    """The option of ``guided serve`` that gives one value, and may be repeated."""


_MEMORY = Group("Memory")
_NETWORK = Group("Network")
_ACCESS = Group("Access")
_LIMITS = Group("Limits")
_TIMES = Group("Times, in seconds")
_LOG = Group("Log")


class ServerConfig(BaseSettings):
    """Settings of one server; each is also read from the environment as ``GUIDED_<NAME>``.

    ``guided serve`` has an option for each, and ``read_config`` reads them from a file as well.
    """

    model_config = SettingsConfigDict(
        env_prefix="GUIDED_", frozen=True, use_attribute_docstrings=True
    )

    model: str | None = None
    """Hub id, folder or GGUF file; else the default model."""
    reward_model: str | None = None
    """Folder of a reward model (a classifier of one label), for requests that rank by it."""
    draft_models: Annotated[tuple[str, ...], NoDecode, Several("--draft-model")] = ()
    """Smaller model that drafts, best with the same tokens; may be given again."""
    draft_widths: Annotated[tuple[int, ...] | None, NoDecode, Several()] = None
    """Tokens that draft models draft after each token, level by level, e.g. 3,2,1,1; 1,1,1,1."""
    heads: Annotated[tuple[str, ...], NoDecode, Several("--heads")] = ()
    """Folder of Medusa or EAGLE-3 heads for the model, which draft; may be given again."""
    adapters: Annotated[dict[str, str], NoDecode, Several("--adapter")] = {}
    """NAME=FOLDER of a LoRA adapter that requests may ask for; may be given again."""
    device: str = "auto"
    """Where the model computes: auto (CUDA if there is any), cpu, cuda or cuda:N."""
    dtype: Literal["bfloat16", "float16", "float32", "float64", "int8", "int4", "stored"] | None = (
        None
    )
    """Format of the weights, e.g. float32 or int8; else that of a GGUF file (stored), bfloat16, or
    another where that is slow."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of a model call; else one for each core, or each rank's part of them."""
    tensor_parallel: int = Field(default=1, ge=1)
    """Ranks, processes that each hold a share of the model; 1. On CUDA each has a device."""
    pipeline_parallel: int = Field(default=1, ge=1)
    """Ranks that each hold some layers of the model instead, which need less of each other; 1."""
    drafters: Annotated[tuple[str, ...] | None, NoDecode] = None
    """What guesses tokens, in this order, of lookup, suffix and lookahead; else lookup,suffix."""
    max_batch: int | None = Field(default=None, ge=1)
    """Answers that one model call computes for, at most; else 16 on the CPU and 64 on CUDA."""
    step_tokens: int | None = Field(default=None, ge=1)
    """Tokens of one model call, drafts aside; else 512 on the CPU and 2,048 on CUDA."""
    cache_tokens: Annotated[int | None, _MEMORY] = Field(default=None, ge=1)
    """Tokens that all running requests may hold together; else 16,384, or as many as fit."""
    kv_memory: Annotated[ByteSize | None, _MEMORY] = Field(default=None, gt=0)
    """Memory for keys and values instead, e.g. 2GiB."""
    kv_dtype: Annotated[Literal["int8"] | None, _MEMORY] = None
    """Format of keys and values: int8; else as they are computed."""
    reuse_prefixes: Annotated[bool, _MEMORY] = True
    """Keep what was computed of prompts for requests that begin alike. On by default."""
    standby: Annotated[bool, _MEMORY] = True
    """Keep a process that has loaded the model, of which a lost engine is made again at once. On by
    default; the weights are in memory once."""
    host: Annotated[str, _NETWORK] = "127.0.0.1"
    """Address to listen on; 127.0.0.1. Any but this machine's own take a certificate."""
    port: Annotated[int, _NETWORK] = Field(default=50051, ge=0, le=65535)
    """Port to listen on; 50051. 0 takes a free one."""
    http_port: Annotated[int | None, _NETWORK] = Field(default=None, ge=0, le=65535)
    """Port for OpenAI's API over HTTP; else none. 0 takes a free one."""
    http_host: Annotated[str, _NETWORK] = "127.0.0.1"
    """Address to serve it on; 127.0.0.1. Any but this machine's own take a certificate."""
    playground: Annotated[bool | None, _NETWORK] = None
    """Serve the playground, a page in the browser, beside it; else on this machine's own addresses
    only. It asks for the same tokens."""
    metrics_port: Annotated[int | None, _NETWORK] = Field(default=None, ge=0, le=65535)
    """Port for Prometheus metrics; else none. 0 takes a free one."""
    metrics_host: Annotated[str, _NETWORK] = "127.0.0.1"
    """Address to serve metrics on; 127.0.0.1. Any but this machine's own take a certificate."""
    reflection: Annotated[bool | None, _NETWORK] = None
    """Tell anybody which methods there are; else on this machine's own addresses only."""
    tls_cert: Annotated[Path | None, _ACCESS] = None
    """PEM file of the server's certificate chain, which encrypts traffic; read again when it
    changes."""
    tls_key: Annotated[Path | None, _ACCESS] = None
    """PEM file of its private key."""
    tls_client_ca: Annotated[Path | None, _ACCESS] = None
    """PEM file of who signs certificates of clients, which then have to show one."""
    tokens: Annotated[Path | None, _ACCESS] = None
    """TOML file of the tokens that callers have to show, and their quotas; read again when it
    changes. Made with 'guided tokens new'."""
    insecure: Annotated[bool, _ACCESS] = False
    """Listen beyond this machine without encryption, where something else protects traffic."""
    top_priority: Annotated[int, _ACCESS] = Field(default=-3, ge=-100, le=100)
    """Smallest number, which is served first, that counts as a priority; -3, half a minute ahead.
    Tokens may have another."""
    max_connections: Annotated[int, _LIMITS] = Field(default=2000, ge=1)
    """Connections at once; 2000, or half of the descriptors that the system allows. Where they are
    nearly as many, idle ones are ended, and more are closed at once."""
    max_requests_in_flight: Annotated[int, _LIMITS] = Field(default=64, ge=1)
    """Requests at once, each of a batch counted; 64. More have to wait."""
    max_requests_queued: Annotated[int, _LIMITS] = Field(default=4096, ge=0)
    """Requests that may wait for a place; 4096. More are told to come again."""
    max_held_bytes: Annotated[ByteSize, _LIMITS] = Field(default=ByteSize(2**28), ge=2**16)
    """Memory for messages of calls and what is made of them, from their arrival to their end, e.g.
    1GiB; 256 MiB. A caller has as much of it as it leaves free. More are told to come again."""
    max_requests_of_one: Annotated[int | None, _LIMITS] = Field(default=None, ge=1)
    """Those of them that one caller may have at once, so that others find a place; else half."""
    max_streams_per_connection: Annotated[int, _LIMITS] = Field(default=256, ge=1)
    """Calls at once over one connection; 256. More wait at their sender."""
    max_health_watchers: Annotated[int, _LIMITS] = Field(default=1000, ge=0)
    """Calls that watch the health at once; 1000, or half of the connections."""
    max_batch_size: Annotated[int, _LIMITS] = Field(default=64, ge=1)
    """Requests in one batch; 64."""
    max_message_bytes: Annotated[int, _LIMITS] = Field(default=4 * 2**20, ge=1024)
    """Size of one call's message in bytes; 4 MiB."""
    max_message_fields: Annotated[int, _LIMITS] = Field(default=50_000, ge=1000)
    """Fields of one call's message, each part of a list counted; 50,000."""
    max_stored_constraints: Annotated[int, _LIMITS] = Field(default=1024, ge=1)
    """Constraints that are kept for requests to name; 1024. Those that are not used go first."""
    max_stored_bytes: Annotated[ByteSize, _LIMITS] = Field(default=ByteSize(2**26), ge=1)
    """Size of their messages together, e.g. 1GiB; 64 MiB."""
    retry_after_seconds: Annotated[float, _TIMES] = Field(default=0.5, gt=0)
    """What callers who are turned away are asked to wait; 0.5."""
    stall_seconds: Annotated[float, _TIMES] = Field(default=60.0, gt=0)
    """How long the reader of a stream or a batch may take nothing, and the sender of a call may
    take for its message, before they are cut off; 60."""
    look_seconds: Annotated[float, _TIMES] = Field(default=60.0, gt=0)
    """How long a look at a constraint from the playground may take, its wait for a place with it,
    before it is given up; 60."""
    silence_seconds: Annotated[float, _TIMES] = Field(default=15.0, ge=1.5)
    """How long the engine may say nothing before the server is not serving any more; 15."""
    hang_seconds: Annotated[float, _TIMES] = Field(default=60.0, ge=3)
    """How long the engine may say nothing before it is killed and started again; 60."""
    stuck_seconds: Annotated[float, _TIMES] = Field(default=900.0, ge=3)
    """How long one step of the engine may take before it is killed and started again; 900."""
    idle_seconds: Annotated[float, _TIMES] = Field(default=900.0, gt=0)
    """How long a connection may stay open without a call; 900."""
    connection_age_seconds: Annotated[float, _TIMES] = Field(default=3600.0, gt=0)
    """Age at which a connection takes no more calls, so that clients make another; 3600. What it
    runs has as long again."""
    lame_duck_seconds: Annotated[float, _TIMES] = Field(default=0.5, ge=0)
    """How long after SIGTERM requests are still taken while health says NOT_SERVING; 0.5."""
    drain_seconds: Annotated[float, _TIMES] = Field(default=30.0, ge=0)
    """What running requests have to finish after that; 30."""
    restart_backoff_seconds: Annotated[float, _TIMES] = Field(default=0.5, ge=0)
    """Wait before a lost engine is started again; 0.5, doubled by each failure."""
    max_restart_backoff_seconds: Annotated[float, _TIMES] = Field(default=30.0, ge=0)
    """Longest such wait; 30."""
    log_format: Annotated[Literal["auto", "json", "console"], _LOG] = "auto"
    """Lines of JSON, or lines to read; auto, which is console in a terminal and json elsewhere."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _LOG] = "info"
    """The least level that is logged; info."""
    log_requests: Annotated[bool, _LOG] = True
    """Log a line of level info for each request that has ended. On by default."""

    @field_validator("heads", "drafters", "draft_models", "draft_widths", mode="before")
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
            close = get_close_matches(name, known, 1) or sorted(known)
            raise RequestError(
                f"{file} sets {name!r}, which is no setting of a server",
                hint=f"there is {', '.join(close)}",
            )
