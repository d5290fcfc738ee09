"""The commands ``guided deploy``: the service where several machines serve it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.client import HTTPException
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import typer

from guided.cli.common import examples_of, shown_with
from guided.cli.flags import with_flags
from guided.errors import RequestError, ServiceError, ServiceUnavailableError
from guided.extras import needing
from guided_service.cli import setting_flags
from guided_service.ray.settings import SETTINGS

__all__ = ["deploy"]

deploy = typer.Typer(no_args_is_help=True, help="Serve a model on a cluster.")

_APPLICATIONS: Final = "/api/serve/applications/"
"""The path of Ray's REST API for Serve, which takes a config and returns its status."""

_OF_OTHERS: Final = (
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.NOT_IMPLEMENTED,
)
"""What other servers say of that path, or of a PUT to it."""

_LOOK_SECONDS: Final = 1.0

_ANSWER_SECONDS: Final = 60.0
"""Time for the dashboard to answer."""


def _flags() -> Iterator[Parameter]:
    return (each for each in setting_flags() if each.name in SETTINGS)


@deploy.callback()
def _deploy() -> None:
    """Serve a model on a cluster."""


@shown_with(
    "guided deploy ray --model Qwen/Qwen3-0.6B --replicas 2 --cpus 4",
    "guided deploy ray --model Qwen/Qwen3-4B --replicas 1-8 --gpus 1 --write serve.yaml",
    "guided deploy ray --config serve.yaml --address http://head:8265",
)
@with_flags(*_flags())
def _ray(
    config: Annotated[
        Path | None,
        typer.Option(
            help="Config file of Ray Serve. Default: a config made from the other options.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    replicas: Annotated[
        str, typer.Option(help="Number of engines, or a range to scale within: 2, 1-8.")
    ] = "1",
    cpus: Annotated[float | None, typer.Option(help="CPU cores per engine. Default: 1.")] = None,
    gpus: Annotated[float | None, typer.Option(help="GPUs per engine. Default: none.")] = None,
    port: Annotated[int, typer.Option(help="gRPC port on each node that has a replica.")] = 9000,
    http_port: Annotated[
        int, typer.Option(help="Port there for OpenAI's and Anthropic's API, and /metrics.")
    ] = 8000,
    write: Annotated[
        Path | None, typer.Option(help="Write the config to this file and deploy nothing.")
    ] = None,
    address: Annotated[
        str, typer.Option(help="Address of Ray's dashboard.", envvar="RAY_DASHBOARD_ADDRESS")
    ] = "http://127.0.0.1:8265",
    **settings: Any,
) -> None:
    """Serve a model on a running Ray cluster, and return once all engines are ready.

    Deploys a config of Ray Serve, which 'serve deploy' takes as well. Deploying again with other
    settings replaces one engine after another while the rest keep answering.
    """
    with needing("guided deploy ray", "ray"):
        from guided_service.ray.ray_config import config_of, read_ray_config, written
    given = {name: _plain(value) for name, value in settings.items() if value is not None}
    if config is not None and given:
        raise typer.BadParameter(
            f"--config already has all settings, but {next(iter(given))} was given too"
        )
    asked = (
        config_of(given, replicas=replicas, cpus=cpus, gpus=gpus, port=port, http_port=http_port)
        if config is None
        else read_ray_config(config)
    )
    if write is not None:
        write.write_text(written(asked), encoding="utf-8")
        return
    _call(address, asked)
    if asked["applications"]:
        _wait(address)


def _wait(address: str) -> None:
    """Return once all applications run, or raise why one does not."""
    said: dict[str, str] = {}
    while True:
        applications = _call(address)["applications"]
        states = {name: each["status"] for name, each in applications.items()}
        for name, state in states.items():
            if said.get(name) != state:
                typer.echo(f"guided: {name} is {state}")
            if state in ("DEPLOY_FAILED", "UNHEALTHY"):
                raise ServiceError(f"{name} is {state}: {applications[name]['message']}")
        if states and set(states.values()) == {"RUNNING"}:
            return
        said = states
        time.sleep(_LOOK_SECONDS)


def _call(address: str, config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Send Ray a config, or request the status of the current one."""
    url = address.rstrip("/") + _APPLICATIONS
    if not url.startswith(("http://", "https://")):
        raise RequestError(f"{address!r} is no address of a dashboard", hint="http://head:8265")
    body = None if config is None else json.dumps(config).encode()
    method = "GET" if body is None else "PUT"
    headers = {"Content-Type": "application/json"}
    request = Request(url, body, headers, method=method)  # noqa: S310 - it is HTTP
    try:
        with urlopen(request, timeout=_ANSWER_SECONDS) as response:  # noqa: S310 - likewise
            content = response.read()
        found: Any = json.loads(content) if content else {}
        if not isinstance(found, dict) or (config is None and "applications" not in found):
            raise ValueError("a status of applications was expected")
        return found
    except HTTPError as error:
        if error.code in _OF_OTHERS:
            raise _no_dashboard_error(address) from error
        said = error.read().decode(errors="replace")
        raise RequestError(f"Ray refuses this config: {said}") from error
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise ServiceUnavailableError(
            f"no dashboard of Ray at {address}: {reason}", hint="start one: ray start --head"
        ) from error
    except ValueError as error:
        raise _no_dashboard_error(address) from error


def _no_dashboard_error(address: str) -> RequestError:
    return RequestError(
        f"what answers at {address} is no dashboard of Ray", hint="http://head:8265"
    )


def _plain(value: object) -> object:
    """Return a value as a config has it."""
    return list(value) if isinstance(value, tuple) else value


deploy.command("ray", epilog=examples_of(_ray))(_ray)
