"""Faults of the service itself: logged once, named to the caller by an id."""

from __future__ import annotations

from uuid import uuid4

import structlog

from guided.errors import InternalServiceError

__all__ = ["incident_of"]

_log = structlog.get_logger()


def incident_of(error: BaseException) -> InternalServiceError:
    """Log an error nobody expected; the caller learns only the id under which it is logged."""
    incident = uuid4().hex[:12]
    _log.error("incident", incident=incident, exc_info=error)
    return InternalServiceError(
        f"the service failed; incident {incident}",
        hint="look for the incident in the server's log",
    )
