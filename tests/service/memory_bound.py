"""The memory of a server process, as docs/robustness.md states it."""

from __future__ import annotations

from guided_service.config import ServerConfig
from guided_service.first_message import ARRIVING, UNREAD_BYTES

__all__ = ["growth_bound"]

_MIB = 2**20


def growth_bound(settings: dict[str, str], calls: int) -> float:
    """Mebibytes by which a server may grow under a number of calls, according to its settings."""
    config = ServerConfig.model_validate(settings)
    unread = min(calls, config.max_requests_in_flight + config.max_requests_queued)
    arriving = ARRIVING * (2 * config.max_message_bytes + _MIB)
    in_hand = 12 * config.max_message_bytes
    nbytes = arriving + unread * UNREAD_BYTES + config.max_held_bytes + in_hand
    return nbytes / _MIB
