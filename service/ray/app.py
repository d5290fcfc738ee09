"""The Ray Serve application: ``import_path: guided_service.ray.app:build`` in a config.

Its ``args`` are settings of ``guided serve``. The number of replicas and their resources are set on
the deployments ``Ingress`` and ``Engine``, as for any others; with several models, on ``Engine-``
followed by each name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.schema import LoggingConfig

from guided_service.ray.engine import Engine
from guided_service.ray.ingress import Ingress
from guided_service.ray.settings import MODELS, checked_settings, settings_by_model
from guided_service.server import ENGINE_COMMAND

__all__ = ["application", "build"]

_MANY: Final = 100_000
"""Calls that an ingress may have; its door decides which wait, and how long."""

_QUIET: Final = LoggingConfig(enable_access_log=False)
"""Disables Ray's access log: the ingress logs each request, with its tokens."""


def build(settings: dict[str, object]) -> serve.Application:
    """Build the application with these settings; raises ``RequestError`` for faulty ones."""
    return application(settings)


def application(
    settings: Mapping[str, object], engine_command: Sequence[str] = ENGINE_COMMAND
) -> serve.Application:
    """Build the application, with engines started by this command."""
    config = checked_settings(settings)
    common: dict[str, Any] = {
        "logging_config": _QUIET,
        # Running requests have as long as when a server drains.
        "graceful_shutdown_timeout_s": config.drain_seconds,
        "graceful_shutdown_wait_loop_s": 0.5,
    }
    engines = {
        name: serve.deployment(
            Engine,
            name=f"Engine-{name}" if name else "Engine",
            # As many as an engine takes; the rest wait for one with room.
            max_ongoing_requests=config.max_requests_in_flight,
            request_router_config=RequestRouterConfig(
                request_router_class="guided_service.ray.router:AffinityRouter",
                request_routing_stats_period_s=1.0,
            ),
            **common,
        ).bind(own, tuple(engine_command))
        for name, own in settings_by_model(settings).items()
    }
    ingress = serve.deployment(
        serve.ingress()(Ingress),
        name="Ingress",
        max_ongoing_requests=_MANY,
        # A new replica starts before an old one ends, so that calls always find a door.
        max_surge_percent=100,
        **common,
    )
    of_door = {name: value for name, value in settings.items() if name != MODELS}
    return ingress.bind(engines, of_door)
