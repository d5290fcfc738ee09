"""The application with engines that sleep; ``args`` are settings as ever."""

from __future__ import annotations

import sys

from ray import serve

from guided_service.ray.app import application

__all__ = ["build"]


def build(settings: dict[str, object]) -> serve.Application:
    """The application, for a config of Ray Serve."""
    return application(settings, (sys.executable, "-P", "-m", "benchmarks.scaling.engine"))
