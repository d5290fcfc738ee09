"""One budget for what calls hold, in bytes, from the arrival of a message to the end of its call.

::

    message ──▶ its bytes ──▶ and the objects made of it ──▶ the call ends: all are given back
                  │ no room      │ no room
                  ▼              ▼
                OverloadedError

The answers of a batch count as well, each until it is sent.

A client may hold as much as it leaves free: one alone half of the budget, two a third each. So
however few of them take what they can, another's message finds room. The rule is that of dynamic
thresholds for buffers that ports of a switch share (Choudhury and Hahne, 1998).
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from guided.errors import LimitExceededError
from guided_service.admission import OverloadedError
from guided_service.memory import give_back_memory

__all__ = ["CALL_BYTES", "HeldBytes", "Hold", "count_held", "count_let_go"]

CALL_BYTES: Final = 2**14
"""Counted for each call, for what there is of it beside its message."""

_UNRETURNED_BYTES = 2**25
"""Freed by calls, after which memory is given back to the system."""

_PAUSE_SECONDS = 1.0
"""From then on; it takes a while, and one call that ends is often followed by others."""

_hold: ContextVar[Hold | None] = ContextVar("hold", default=None)


class Hold:
    """What one call holds."""

    def __init__(self, budget: HeldBytes, client: str) -> None:
        self._budget = budget
        self.client = client
        self.nbytes = 0
        self.has_ended = False

    def add(self, nbytes: int) -> None:
        """Hold more until the end of the call, or until it is let go of.

        Raises ``OverloadedError`` where there is no room, LimitExceededError where there never is.
        """
        # An answer that another call waits for may be made after the call that first asked for it.
        if self.has_ended:
            return
        self._budget.take(self.client, nbytes, self.nbytes)
        self.nbytes += nbytes

    def let_go(self, nbytes: int) -> None:
        """Hold less from now on."""
        self.nbytes -= nbytes
        self._budget.give_back(self.client, nbytes)


class HeldBytes:
    """What all calls hold; no more than ``most_bytes``."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._total = 0
        self._of_clients: Counter[str] = Counter()
        self._unreturned = 0
        """Freed since memory was last given back."""
        self._is_returning = False

    @property
    def nbytes(self) -> int:
        """What is held now."""
        return self._total

    @contextmanager
    def of_call(self, client: str) -> Iterator[Hold]:
        """What the call in hand holds, which is given back at the end of the block."""
        hold = Hold(self, client)
        token = _hold.set(hold)
        try:
            yield hold
        finally:
            _hold.reset(token)
            hold.let_go(hold.nbytes)
            hold.has_ended = True

    def take(self, client: str, nbytes: int, held: int) -> None:
        """Count more of a client, whose call holds some already; see ``Hold.add``."""
        mine, total = self._of_clients[client] + nbytes, self._total + nbytes
        if mine <= self._most - total:
            self._of_clients[client], self._total = mine, total
            return
        self.note_freed(nbytes)
        if not (mine - nbytes):
            del self._of_clients[client]
        if 2 * (held + nbytes) > self._most:
            raise LimitExceededError(
                f"the call holds {held + nbytes} bytes, above the limit of {self._most // 2}",
                limit=self._most // 2,
                hint="send less in one call",
            )
        raise OverloadedError(
            f"calls hold {self._total} bytes, {mine - nbytes} of them this client's, and {nbytes} "
            f"more came, above the limit of {self._most}, of which a client has as much as it "
            "leaves free",
            hint="send less at once, or try again shortly",
        )

    def give_back(self, client: str, nbytes: int) -> None:
        """Count less of a client."""
        self._total -= nbytes
        self._of_clients[client] -= nbytes
        if not self._of_clients[client]:
            del self._of_clients[client]
        self.note_freed(nbytes)

    def note_freed(self, nbytes: int) -> None:
        """Have memory given back to the system once much has been freed."""
        self._unreturned += nbytes
        if self._unreturned > _UNRETURNED_BYTES and not self._is_returning:
            self._is_returning = True
            asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._give_back)

    def _give_back(self) -> None:
        self._unreturned, self._is_returning = 0, False
        # In a thread that ends with it: this is seldom, and may take tenths of a second.
        threading.Thread(target=give_back_memory, name="give back", daemon=True).start()


def count_held(nbytes: int) -> None:
    """Have the call in hand hold more, if it is counted; see ``Hold.add``."""
    if (hold := _hold.get()) is not None:
        hold.add(nbytes)


def count_let_go(nbytes: int) -> None:
    """Have the call in hand hold less, if it is counted."""
    if (hold := _hold.get()) is not None:
        hold.let_go(nbytes)
