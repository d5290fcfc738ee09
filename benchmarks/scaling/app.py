"""The application with sleeping engines; ``args`` are the usual settings."""

from __future__ import annotations

import sys

from ray import serve

from guided_service.ray.app import application

__all__ = ["build"]


def build(settings: dict[str, object]) -> serve.Application:
    """Build the application, for a config of Ray Serve."""
    return application(settings, (sys.executable, "-P", "-m", "benchmarks.scaling.engine"))
