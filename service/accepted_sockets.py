"""The sockets of accepted connections, which the transport does not expose.

They are found among the descriptors of this process. Each socket is inspected through a duplicate
descriptor: the original may be closed meanwhile and its number reused for another file.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from guided_service.call_notes import Peer
from guided_service.connection_worth import address_of

__all__ = ["descriptors", "hang_up", "peers"]

_DESCRIPTORS: Final = Path("/proc/self/fd")
"""If this folder does not exist, no socket is found."""


def descriptors() -> list[int]:
    """Return the descriptors that this process has open."""
    with suppress(OSError):
        return [int(name) for name in os.listdir(_DESCRIPTORS)]  # noqa: PTH208 - names alone
    return []


def peers(port: int) -> list[Peer]:
    """Return the remote ends of all connections accepted on a port."""
    return [peer for peer, _ in _accepted(port)]


def hang_up(port: int, chosen: Container[Peer]) -> None:
    """Shut down the chosen peers' connections; the transport sees them end and forgets them."""
    for peer, opened in _accepted(port):
        if peer in chosen:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)


def _accepted(port: int) -> Iterator[tuple[Peer, socket.socket]]:
    for number in descriptors():
        # Skips what is no network socket, closed by now, or not connected (a listening socket).
        with suppress(OSError), _opened(number) as opened:
            if opened.family in (socket.AF_INET, socket.AF_INET6):
                host, its_port, *_ = opened.getpeername()
                if opened.getsockname()[1] == port:
                    yield (address_of(host), its_port), opened


def _opened(number: int) -> socket.socket:
    """Return the socket of a descriptor, through a duplicate; raises OSError if it is no socket."""
    ours = os.dup(number)
    try:
        return socket.socket(fileno=ours)
    except OSError:
        os.close(ours)
        raise
