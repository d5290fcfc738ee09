"""The sockets of connections that the transport has accepted, which it tells nobody of.

They are found among the descriptors of this process. Each is looked at through a descriptor of our
own for the same connection, so that one that is closed meanwhile, whose number is given to another
file, cannot be taken for it.
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
"""Where there is no such folder, nothing is found."""


def descriptors() -> list[int]:
    """All that this process has."""
    with suppress(OSError):
        return [int(name) for name in os.listdir(_DESCRIPTORS)]  # noqa: PTH208 - names alone
    return []


def peers(port: int) -> list[Peer]:
    """The other ends of all connections that came to a port."""
    return [peer for peer, _ in _accepted(port)]


def hang_up(port: int, chosen: Container[Peer]) -> None:
    """End the connections of some of them; the transport then meets their end and forgets them."""
    for peer, opened in _accepted(port):
        if peer in chosen:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)


def _accepted(port: int) -> Iterator[tuple[Peer, socket.socket]]:
    for number in descriptors():
        # No socket, none of a network, closed by now, or not connected, as one that listens.
        with suppress(OSError), _opened(number) as opened:
            if opened.family in (socket.AF_INET, socket.AF_INET6):
                host, its_port, *_ = opened.getpeername()
                if opened.getsockname()[1] == port:
                    yield (address_of(host), its_port), opened


def _opened(number: int) -> socket.socket:
    """The socket behind a descriptor, by another one; raises OSError where it is none."""
    ours = os.dup(number)
    try:
        return socket.socket(fileno=ours)
    except OSError:
        os.close(ours)
        raise
