"""What can be set about a server."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ByteSize, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["ServerConfig"]


class ServerConfig(BaseSettings):
    """Settings of one server; each is also read from the environment as ``GUIDED_<NAME>``.

    ``guided serve`` has an option for each, and ``read_config`` reads them from a file as well.
    """

    model_config = SettingsConfigDict(
        env_prefix="GUIDED_", frozen=True, use_attribute_docstrings=True
    )

    model: str | None = None
    """Hub id, folder or GGUF file of the model; ``None`` is the default model."""
    dtype: Literal["bfloat16", "float16", "float32", "float64", "int8"] | None = None
    """Format of the weights; ``None`` is bfloat16, or where that is
    slow float32 on the CPU and float16 on CUDA."""
    device: str = "auto"
    """Where the model computes: ``cpu``, ``cuda`` or ``cuda:N``; ``auto`` is the first CUDA device
    if there is one that torch can use, else the CPU."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of a model call; ``None`` is one per core."""
    cache_tokens: int | None = Field(default=None, ge=1)
    """Tokens whose keys and values all running requests may hold together; ``None`` is 16,384, or
    fewer where they would take more than half of the memory that is left."""
    kv_memory: ByteSize | None = Field(default=None, gt=0)
    """Memory for keys and values instead, e.g. ``2GiB``."""
    kv_dtype: Literal["int8"] | None = None
    """Format of keys and values; ``None`` is as they are computed."""
    reuse_prefixes: bool = True
    """Keep what was computed of prompts for requests that begin alike, as long as there is room."""
    reward_model: str | None = None
    """Folder of a model for sequence classification with one label, which ranks answers."""
    host: str = "127.0.0.1"
    """Address to listen on; ``0.0.0.0`` is every one of the machine's. Traffic is not encrypted."""
    port: int = Field(default=50051, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """Port for Prometheus to read metrics from, on ``host``; ``None`` serves none, 0 takes a free
    one."""
    max_requests_in_flight: int = Field(default=64, ge=1)
    """Requests that may run at once, each of a batch counted; more are told to come again."""
    max_batch_size: int = Field(default=64, ge=1)
    """Requests in one batch; at most ``max_requests_in_flight``."""
    max_message_bytes: int = Field(default=4 * 2**20, ge=1024)
    """Size of one call's message in bytes."""
    retry_after_seconds: float = Field(default=0.5, gt=0)
    """How long a caller who was turned away is asked to wait, in seconds."""
    stall_seconds: float = Field(default=60.0, gt=0)
    """How long the reader of a stream may take nothing before it is cut off, in seconds."""
    drain_seconds: float = Field(default=30.0, ge=0)
    """How long running requests may take to finish after SIGTERM, in seconds."""
    restart_backoff_seconds: float = Field(default=0.5, ge=0)
    """Wait before a lost engine is started again, in seconds; doubles with each failure."""
    max_restart_backoff_seconds: float = Field(default=30.0, ge=0)
    """Longest such wait, in seconds."""

    @model_validator(mode="after")
    def _cache_has_one_size(self) -> Self:
        if self.cache_tokens is not None and self.kv_memory is not None:
            raise ValueError("cache_tokens and kv_memory both say how large the cache is")
        return self

    @model_validator(mode="after")
    def _batch_fits(self) -> Self:
        if self.max_batch_size > self.max_requests_in_flight:
            raise ValueError(
                f"max_batch_size {self.max_batch_size} is above max_requests_in_flight "
                f"{self.max_requests_in_flight}, so the largest batches could never run"
            )
        return self
