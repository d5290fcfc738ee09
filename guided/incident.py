"""Faults of our own: logged once, named to the caller by an id."""

from __future__ import annotations

import logging
import secrets
from typing import Final

from guided.errors import InternalServiceError

__all__ = ["incident_of"]

_log: Final = logging.getLogger(__name__)


def incident_of(fault: BaseException, failed: str = "the service failed") -> InternalServiceError:
    """Log an error nobody expected; the caller learns only the id under which it is logged.

    ``failed`` says what did. The text of the fault is left to the log: it may quote a request, and
    an exception that cannot even be printed must not make another one here.
    """
    incident = secrets.token_hex(6)
    _log.error("%s; incident %s", failed, incident, exc_info=fault)
    error = InternalServiceError(
        f"{failed}; incident {incident}", hint="look for the incident in the server's log"
    )
    error.__cause__ = fault
    return error
