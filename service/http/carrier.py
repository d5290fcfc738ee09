"""What a call needs of its connection, which is our own server's or that of a proxy before us."""

from __future__ import annotations

from typing import Final, Protocol, cast

from starlette.types import Scope

__all__ = ["Carrier", "carried_by", "carrier_of"]

_CARRIER: Final = "guided.carrier"
"""The key of the carrier in the state of a call's scope."""


class Carrier(Protocol):
    """A connection, as far as its calls know it."""

    def identity(self) -> str:
        """Return the caller without a token: the subject of its certificate, or its connection."""

    def call_id(self) -> str:
        """Return the id of the current call, under which the log has it."""

    def cut(self) -> None:
        """End the connection at once, and drop what its caller has not read."""


def carried_by(carrier: Carrier, state: dict[str, object]) -> dict[str, object]:
    """Return the state of a scope with the carrier of its calls."""
    return {**state, _CARRIER: carrier}


def carrier_of(scope: Scope) -> Carrier:
    """Return the carrier of a call."""
    return cast("Carrier", scope["state"][_CARRIER])
