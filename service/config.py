"""Settings of a server: from options, the environment and a file, in this order."""

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
    """A setting of several values; as one text they are separated by commas."""

    option: str | None = None
    """The option of ``guided serve`` that gives one of them, and may be given again."""


_MEMORY = Group("Memory")
_NETWORK = Group("Network")
_LIMITS = Group("Limits")
_TIMES = Group("Times, in seconds")


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
    device: str = "auto"
    """Where the model computes: auto (CUDA if there is any), cpu, cuda or cuda:N."""
    dtype: Literal["bfloat16", "float16", "float32", "float64", "int8"] | None = None
    """Format of the weights, e.g. float32 or int8; else bfloat16, or another where that is slow."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of a model call; else one for each core."""
    drafters: Annotated[tuple[str, ...] | None, NoDecode] = None
    """What guesses tokens, in this order, of lookup, suffix and lookahead; else lookup,suffix."""
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
    """Address to listen on; 127.0.0.1. Traffic is not encrypted."""
    port: Annotated[int, _NETWORK] = Field(default=50051, ge=0, le=65535)
    """Port to listen on; 50051. 0 takes a free one."""
    metrics_port: Annotated[int | None, _NETWORK] = Field(default=None, ge=0, le=65535)
    """Port for Prometheus metrics, on the same address; else none. 0 takes a free one."""
    max_connections: Annotated[int, _LIMITS] = Field(default=2000, ge=1)
    """Connections at once; 2000, or half of the descriptors that the system allows. More are closed
    at once."""
    max_requests_in_flight: Annotated[int, _LIMITS] = Field(default=64, ge=1)
    """Requests at once, each of a batch counted; 64. More have to wait."""
    max_requests_queued: Annotated[int, _LIMITS] = Field(default=4096, ge=0)
    """Requests that may wait for a place; 4096. More are told to come again."""
    max_queued_bytes: Annotated[ByteSize, _LIMITS] = Field(default=ByteSize(2**28), ge=0)
    """Size of their messages together, e.g. 1GiB; 256 MiB."""
    max_batch_size: Annotated[int, _LIMITS] = Field(default=64, ge=1)
    """Requests in one batch; 64."""
    max_message_bytes: Annotated[int, _LIMITS] = Field(default=4 * 2**20, ge=1024)
    """Size of one call's message in bytes; 4 MiB."""
    retry_after_seconds: Annotated[float, _TIMES] = Field(default=0.5, gt=0)
    """What callers who are turned away are asked to wait; 0.5."""
    stall_seconds: Annotated[float, _TIMES] = Field(default=60.0, gt=0)
    """How long the reader of a stream or a batch may take nothing before it is cut off; 60."""
    silence_seconds: Annotated[float, _TIMES] = Field(default=15.0, ge=1.5)
    """How long the engine may say nothing before the server is not serving any more; 15."""
    hang_seconds: Annotated[float, _TIMES] = Field(default=60.0, ge=3)
    """How long the engine may say nothing before it is killed and started again; 60."""
    stuck_seconds: Annotated[float, _TIMES] = Field(default=900.0, ge=3)
    """How long one step of the engine may take before it is killed and started again; 900."""
    idle_seconds: Annotated[float, _TIMES] = Field(default=900.0, gt=0)
    """How long a connection may stay open without a call; 900."""
    drain_seconds: Annotated[float, _TIMES] = Field(default=30.0, ge=0)
    """What running requests have to finish after SIGTERM; 30."""
    restart_backoff_seconds: Annotated[float, _TIMES] = Field(default=0.5, ge=0)
    """Wait before a lost engine is started again; 0.5, doubled by each failure."""
    max_restart_backoff_seconds: Annotated[float, _TIMES] = Field(default=30.0, ge=0)
    """Longest such wait; 30."""

    @field_validator("heads", "drafters", "draft_models", "draft_widths", mode="before")
    @classmethod
    def _split(cls, given: object) -> object:
        """Several in one text are parted by commas."""
        if isinstance(given, str):
            return tuple(name.strip() for name in given.split(",") if name.strip())
        return given

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

    @model_validator(mode="after")
    def _batch_fits(self) -> Self:
        if self.max_batch_size > self.max_requests_in_flight:
            raise ValueError(
                f"max_batch_size {self.max_batch_size} is above max_requests_in_flight "
                f"{self.max_requests_in_flight}, so the largest batches could never run"
            )
        return self


def read_config(given: Mapping[str, object], file: Path | None) -> ServerConfig:
    """The settings that were given, and for others those of the environment or of a TOML file.

    Raises RequestError for a file that cannot be read or names a setting that there is not, and
    pydantic's ValidationError for a value that is wrong.
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
