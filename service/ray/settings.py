"""The settings of ``guided serve`` that hold here too: the ``args`` of the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from guided.errors import RequestError
from guided_service.config import ServerConfig

__all__ = ["SETTINGS", "checked_settings"]

_OF_RAY: Final = frozenset(
    {
        "connection_age_seconds",
        "host",
        "http_host",
        "http_port",
        "idle_seconds",
        "insecure",
        "lame_duck_seconds",
        "max_connections",
        "max_streams_per_connection",
        "metrics_host",
        "metrics_port",
        "playground",
        "port",
        "reflection",
        "tls_cert",
        "tls_client_ca",
        "tls_key",
    }
)
"""What Ray's proxy does, or nobody."""

SETTINGS: Final = tuple(name for name in ServerConfig.model_fields if name not in _OF_RAY)
"""Names of those that engines and ingress go by."""


def checked_settings(settings: Mapping[str, object]) -> ServerConfig:
    """All settings, with those that are given; what is wrong with these raises RequestError."""
    for name in sorted(settings.keys() - set(SETTINGS)):
        if name in _OF_RAY:
            raise RequestError(
                f"args sets {name!r}, which is not for this application to say",
                hint="what there is of it stands in grpc_options of Ray's config",
            )
        raise RequestError(
            f"args sets {name!r}, which is no setting of a server",
            hint="what is said of deployments stands under 'deployments'",
        )
    try:
        return ServerConfig.model_validate(settings)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors())
        raise RequestError(f"args: {faults}") from error
