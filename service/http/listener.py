"""The socket that accepts connections over HTTP, with a bound on open ones.

At the bound, the connections that are worth least are ended to admit the next one
(``connection_worth``). A connection counts from the moment the system hands it over, so those whose
encryption is not set up yet count as well.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any

from typing_extensions import override

from guided_service.call_notes import CallNotes, Peer
from guided_service.connection_worth import address_of, too_many

__all__ = ["Listener"]


class Listener(socket.socket):
    """A listening socket that replaces a bound one."""

    def __init__(self, bound: socket.socket, most: int, notes: CallNotes) -> None:
        super().__init__(fileno=bound.detach())
        self._most = most
        self._notes = notes
        self._open: dict[socket.socket, tuple[Peer, float]] = {}
        """Open connections, with their peer and the time at which each came."""

    @override
    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; raises ``ConnectionAbortedError`` if the others are all busy."""
        taken, address = super().accept()
        if len(self._open) >= self._most:
            self._make_room()
        if len(self._open) >= self._most:
            taken.close()
            raise ConnectionAbortedError("all connections are busy")
        self._open[taken] = (address_of(address[0]), address[1]), time.monotonic()
        return taken, address

    def _make_room(self) -> None:
        self._open = {each: of for each, of in self._open.items() if each.fileno() >= 0}
        self._notes.forget_all_but([peer for peer, _ in self._open.values()])
        connections = [self._notes.of(each, *of) for each, of in self._open.items()]
        for each in too_many(connections, self._most):
            del self._open[each]
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
