"""The application: ``import_path: guided_service.ray.app:build`` of a config of Ray Serve.

Its ``args`` are settings of ``guided serve``. How many replicas there are and what each may use is
said of the deployments ``Ingress`` and ``Engine``, as of any other; with several models, of
``Engine-`` and their names.
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
"""Calls that an ingress may have: who waits there, and how long, is for its door to say."""

_QUIET: Final = LoggingConfig(enable_access_log=False)
"""Requests have a line in the log of the ingress, with their tokens."""


def build(settings: dict[str, object]) -> serve.Application:
    """The application with these settings; what is wrong with them raises ``RequestError``."""
    return application(settings)


def application(
    settings: Mapping[str, object], engine_command: Sequence[str] = ENGINE_COMMAND
) -> serve.Application:
    """The same, with engines that are started by this command."""
    config = checked_settings(settings)
    common: dict[str, Any] = {
        "logging_config": _QUIET,
        # What runs has as long as when a server drains.
        "graceful_shutdown_timeout_s": config.drain_seconds,
        "graceful_shutdown_wait_loop_s": 0.5,
    }
    engines = {
        name: serve.deployment(
            Engine,
            name=f"Engine-{name}" if name else "Engine",
            # As many as an engine takes; the rest wait until one of them has room.
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
        Ingress,
        name="Ingress",
        max_ongoing_requests=_MANY,
        # The next one is there before this one goes, so that calls find a door at any moment.
        max_surge_percent=100,
        **common,
    )
    of_door = {name: value for name, value in settings.items() if name != MODELS}
    return ingress.bind(engines, of_door)
