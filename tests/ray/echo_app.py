"""The application with engines that echo; ``args`` are settings as usual."""

from __future__ import annotations

import sys
from pathlib import Path

from ray import serve

from guided_service.ray.app import application

_ENGINE = (sys.executable, "-P", str(Path(__file__).parents[1] / "service/echo_engine.py"))


def build(settings: dict[str, object]) -> serve.Application:
    return application(settings, _ENGINE)
