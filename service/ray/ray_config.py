"""Makes and reads configs in the format of Ray Serve, which ``serve deploy`` takes as well."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from guided.errors import RequestError
from guided_service.ray.settings import checked_settings

__all__ = ["config_of", "read_ray_config", "written"]

_SERVICES: Final = "guided_service.ray.proxied.add_services"
_APPLICATION: Final = "guided_service.ray.app:build"
_POLICY: Final = "guided_service.ray.scaling:by_queue_and_cache"


def config_of(
    settings: Mapping[str, object],
    *,
    replicas: str = "1",
    cpus: float | None = None,
    gpus: float | None = None,
    port: int = 9000,
    http_port: int = 8000,
) -> dict[str, Any]:
    """Return the config of one application with ``replicas`` engines, such as ``2`` or ``1-8``.

    Each engine has this many ``cpus`` and ``gpus`` of its node. ``port`` is for gRPC, and
    ``http_port`` for OpenAI's API and metrics. Raises RequestError.
    """
    least, most = _range(replicas)
    # As many as a server takes, times the engines: an ingress counts requests of all of them.
    places = checked_settings(settings).max_requests_in_flight * most
    engine = {"name": "Engine", **_replicas(least, most)}
    parts = (("num_cpus", cpus), ("num_gpus", gpus))
    if resources := {name: count for name, count in parts if count is not None}:
        engine["ray_actor_options"] = resources
    return {
        "proxy_location": "EveryNode",
        "http_options": {"port": http_port},
        "grpc_options": {"port": port, "grpc_servicer_functions": [_SERVICES]},
        "applications": [
            {
                "name": "guided",
                "route_prefix": "/",
                "import_path": _APPLICATION,
                "args": {"max_requests_in_flight": places, **settings},
                "deployments": [engine],
            }
        ],
    }


def read_ray_config(file: Path) -> dict[str, Any]:
    """Read a config from a file and check our applications in it. Raises RequestError."""
    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RequestError(f"{file} cannot be read: {error}") from error
    applications = config.get("applications") if isinstance(config, dict) else None
    if not isinstance(applications, list) or not all(isinstance(it, dict) for it in applications):
        raise RequestError(
            f"{file} is no config of Ray Serve: it has no applications",
            hint="have one written by: guided deploy ray --write FILE",
        )
    for each in applications:
        if each.get("import_path") == _APPLICATION:
            args = each.get("args") or {}
            if not isinstance(args, dict):
                raise RequestError(
                    f"{file}: args is {args!r:.80}, which is not a mapping of settings",
                    hint="args: { model: M }",
                )
            checked_settings(args)
    return dict(config)


def written(config: Mapping[str, Any]) -> str:
    """Return the config as YAML."""
    return str(yaml.safe_dump(dict(config), sort_keys=False))


def _range(asked: str) -> tuple[int, int]:
    """``2`` -> 2, 2 and ``1-8`` -> 1, 8."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", asked)
    least, most = (0, 0) if found is None else (int(found[1]), int(found[2] or found[1]))
    if not 1 <= least <= most:
        raise RequestError(
            f"replicas {asked!r} is neither a number nor a range", hint="give 2, or 1-8"
        )
    return least, most


def _replicas(least: int, most: int) -> dict[str, Any]:
    if least == most:
        return {"num_replicas": least}
    return {
        "autoscaling_config": {
            "min_replicas": least,
            "max_replicas": most,
            "target_ongoing_requests": 16,
            "policy": {"policy_function": _POLICY},
        }
    }
