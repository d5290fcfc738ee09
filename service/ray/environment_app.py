"""The application with settings from the environment, for ``serve build`` and ``serve run``."""

from __future__ import annotations

from guided_service.ray.app import application

__all__ = ["app"]

app = application({})
