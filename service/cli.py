"""The command ``guided serve``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from guided.cli.examples import shown_with
from guided_service.config import ServerConfig
from guided_service.config_file import read_config
from guided_service.server import serve as serve_config

__all__ = ["serve"]

_MEMORY = "Memory"
_NETWORK = "Network"
_LIMITS = "Limits"
_TIMES = "Times, in seconds"


@shown_with(
    "guided serve",
    "guided serve --model Qwen/Qwen3-0.6B --dtype int8 --kv-memory 2GiB",
    "guided serve --config server.toml --port 50052",
    "GUIDED_MODEL=model.gguf guided serve --metrics-port 9464",
)
def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with settings, named as the options but with underscores.",
            envvar="GUIDED_CONFIG",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Hub id, folder or GGUF file; else the default model.")
    ] = None,
    reward_model: Annotated[
        str | None, typer.Option(help="Folder of a reward model, for requests that rank by it.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where the model computes: auto, cpu, cuda or cuda:N.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Format of the weights, e.g. float32 or int8.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads of a model call; else one for each core.")
    ] = None,
    cache_tokens: Annotated[
        int | None,
        typer.Option(
            help="Tokens that all running requests may hold together.", rich_help_panel=_MEMORY
        ),
    ] = None,
    kv_memory: Annotated[
        str | None,
        typer.Option(
            help="Memory for keys and values instead, e.g. 2GiB.", rich_help_panel=_MEMORY
        ),
    ] = None,
    kv_dtype: Annotated[
        str | None, typer.Option(help="Format of keys and values: int8.", rich_help_panel=_MEMORY)
    ] = None,
    reuse_prefixes: Annotated[
        bool | None,
        typer.Option(
            "--reuse-prefixes/--no-reuse-prefixes",
            help="Keep what was computed of prompts for requests that begin alike. On by default.",
            rich_help_panel=_MEMORY,
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on; 127.0.0.1.", rich_help_panel=_NETWORK),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help="Port to listen on; 50051. 0 takes a free one.", rich_help_panel=_NETWORK
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(help="Port for Prometheus metrics; else none.", rich_help_panel=_NETWORK),
    ] = None,
    max_requests_in_flight: Annotated[
        int | None,
        typer.Option(
            help="Requests at once, each of a batch counted; 64. More are told to come again.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    max_batch_size: Annotated[
        int | None, typer.Option(help="Requests in one batch; 64.", rich_help_panel=_LIMITS)
    ] = None,
    max_message_bytes: Annotated[
        int | None,
        typer.Option(help="Size of one call's message in bytes; 4 MiB.", rich_help_panel=_LIMITS),
    ] = None,
    retry_after_seconds: Annotated[
        float | None,
        typer.Option(
            help="What callers who are turned away are asked to wait; 0.5.", rich_help_panel=_TIMES
        ),
    ] = None,
    stall_seconds: Annotated[
        float | None,
        typer.Option(
            help="How long the reader of a stream may take nothing before it is cut off; 60.",
            rich_help_panel=_TIMES,
        ),
    ] = None,
    drain_seconds: Annotated[
        float | None,
        typer.Option(
            help="What running requests have to finish after SIGTERM; 30.", rich_help_panel=_TIMES
        ),
    ] = None,
    restart_backoff_seconds: Annotated[
        float | None,
        typer.Option(
            help="Wait before a lost engine is started again; 0.5, doubled by each failure.",
            rich_help_panel=_TIMES,
        ),
    ] = None,
    max_restart_backoff_seconds: Annotated[
        float | None, typer.Option(help="Longest such wait; 30.", rich_help_panel=_TIMES)
    ] = None,
) -> None:
    """Serve a model over gRPC until it is told to stop.

    Each setting may be given as an option, in the environment as GUIDED_ and its name in
    capitals, or in the file of --config; the first of these that says something counts.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    raise typer.Exit(serve_config(_config(given.pop("config", None), given)))


def _config(file: Path | None, given: dict[str, Any]) -> ServerConfig:
    try:
        return read_config(given, file)
    except ValidationError as error:
        faults = [_told(fault["loc"], fault["msg"], given, file) for fault in error.errors()]
        raise typer.BadParameter("; ".join(faults)) from error


def _told(
    place: tuple[str | int, ...], reason: str, given: dict[str, Any], file: Path | None
) -> str:
    """What is wrong with a setting, and where it was said."""
    if not place:
        return f"settings: {reason}"
    name = str(place[0])
    if name in given:
        return f"--{name.replace('_', '-')}: {reason}"
    if (variable := f"GUIDED_{name.upper()}") in map(str.upper, os.environ):
        return f"{variable}: {reason}"
    return f"{name} in {file}: {reason}"
