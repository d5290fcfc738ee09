"""The command ``guided serve``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from pydantic import ValidationError

from guided.cli.common import shown_with
from guided.cli.flags import flag, with_flags
from guided_service.config import Group, ManyValues, ServerConfig, read_config
from guided_service.server import serve as serve_config

__all__ = ["serve", "setting_flags"]


def _many_values(setting: str) -> ManyValues | None:
    """Return how a setting takes several values, if it does."""
    metadata = ServerConfig.model_fields[setting].metadata
    return next((told for told in metadata if isinstance(told, ManyValues)), None)


def setting_flags() -> Iterator[Parameter]:
    """Yield a flag for each setting; values are validated together with the other settings."""
    for name, field in ServerConfig.model_fields.items():
        kinds = (field.annotation, *get_args(field.annotation))
        # Words and sizes are text here.
        kind: Any = next((kind for kind in kinds if kind in (bool, int, float, str)), str)
        several = _many_values(name)
        if several is not None:
            kind = str if several.option is None else list[str]
        dashed = name.replace("_", "-")
        spelled = f"--{dashed}/--no-{dashed}" if kind is bool else None
        yield flag(
            name,
            kind | None,
            None,
            " ".join((field.description or "").split()),
            spelled=spelled if several is None else several.option,
            group="".join(told.title for told in field.metadata if isinstance(told, Group)),
        )


@shown_with(
    "guided serve",
    "guided serve --model Qwen/Qwen3-0.6B --dtype int8 --kv-memory 2GiB",
    "guided serve --config server.toml --port 50052",
    "guided serve --model Qwen/Qwen3-4B --draft-model Qwen/Qwen3-0.6B",
    "guided serve --http-port 8000",
    "GUIDED_MODEL=model.gguf guided serve --metrics-port 9464",
    "guided serve --host :: --tls-cert server.pem --tls-key server.key --tokens tokens.toml",
)
@with_flags(*setting_flags())
def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with settings, named like the options but with underscores.",
            envvar="GUIDED_CONFIG",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    **settings: Any,
) -> None:
    """Serve a model over gRPC, and over OpenAI's HTTP API if --http-port is given, until stopped.

    A setting may be given as an option, as an environment variable (GUIDED_ and its name in
    capitals) or in the file of --config. If several give it, the first in this order counts.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    raise typer.Exit(serve_config(_config(config, given)))


def _config(file: Path | None, given: dict[str, Any]) -> ServerConfig:
    try:
        return read_config(given, file)
    except ValidationError as error:
        faults = [_told(fault["loc"], fault["msg"], given, file) for fault in error.errors()]
        raise typer.BadParameter("; ".join(faults)) from error


def _told(
    place: tuple[str | int, ...], reason: str, given: dict[str, Any], file: Path | None
) -> str:
    """Return a setting's fault with the option, variable or file that it comes from.

    Of several values, the wrong one is told by its number, from 1 on, or by its name.
    """
    if not place:
        return f"settings: {reason}"
    name = str(place[0])
    if name in given:
        several = _many_values(name)
        option = None if several is None else several.option
        source = option or f"--{name.replace('_', '-')}"
    elif (variable := f"GUIDED_{name.upper()}") in map(str.upper, os.environ):
        source = variable
    else:
        source = f"{name} in {file}"
    which = [f", value {each + 1 if isinstance(each, int) else repr(each)}" for each in place[1:2]]
    return f"{source}{''.join(which)}: {reason}"
