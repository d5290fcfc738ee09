"""The command ``guided serve``."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import ValidationError

from guided_service.config import ServerConfig
from guided_service.server import serve as serve_config

__all__ = ["serve"]


def serve(
    model: Annotated[
        str | None, typer.Option(help="Hub id, folder or GGUF file; else the default model.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Format of the weights, e.g. float32 or int8.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where the model computes: auto, cpu, cuda or cuda:N.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of a model call.")] = None,
    cache_tokens: Annotated[
        int | None, typer.Option(help="Tokens that all running requests may hold together.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port for Prometheus metrics; none by default.")
    ] = None,
    kv_memory: Annotated[
        str | None, typer.Option(help="Memory for keys and values instead, e.g. 2GiB.")
    ] = None,
    kv_dtype: Annotated[str | None, typer.Option(help="Format of keys and values: int8.")] = None,
    reward_model: Annotated[
        str | None, typer.Option(help="Folder of a reward model, for requests that rank by it.")
    ] = None,
    drain_seconds: Annotated[
        float | None, typer.Option(help="Time for running requests after SIGTERM.")
    ] = None,
) -> None:
    """Serve a model over gRPC until SIGTERM; every setting is also read from GUIDED_<NAME>."""
    given = {
        "model": model,
        "host": host,
        "port": port,
        "dtype": dtype,
        "device": device,
        "threads": threads,
        "cache_tokens": cache_tokens,
        "metrics_port": metrics_port,
        "kv_memory": kv_memory,
        "kv_dtype": kv_dtype,
        "reward_model": reward_model,
        "drain_seconds": drain_seconds,
    }
    raise typer.Exit(serve_config(_config(given)))


def _config(given: dict[str, str | int | float | None]) -> ServerConfig:
    try:
        return ServerConfig.model_validate(
            {name: value for name, value in given.items() if value is not None}
        )
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'settings'}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise typer.BadParameter("; ".join(faults)) from error
