"""Bounds the bytes that all calls hold, from the arrival of a message to the end of its call.

::

    message ──▶ its bytes ──▶ and the objects made of it ──▶ the call ends: all are given back
                  │ no room      │ no room
                  ▼              ▼
                OverloadedError

A client may hold as much as it leaves free (docs/intake.md): the rule of dynamic thresholds for
buffers that ports of a switch share (Choudhury and Hahne, 1998).
"""

from __future__ import annotations

import asyncio
import gc
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
"""Counted for each call, for what it holds besides its message."""

_UNRETURNED_BYTES = 2**25
"""Bytes freed by calls after which memory is given back to the system, even if others run."""

_PAUSE_SECONDS = 1.0
"""Delay before giving memory back: it takes a while, and calls often end in groups."""

_IDLE_SECONDS = 5.0
"""Seconds without a call after which garbage is collected as well, which takes some tens of
milliseconds."""

_IDLE_BYTES = 2**22
"""Bytes freed by calls for which an idle server does so."""

_hold: ContextVar[Hold | None] = ContextVar("hold", default=None)


class Hold:
    """The bytes that one call holds."""

    def __init__(self, budget: HeldBytes, client: str) -> None:
        self._budget = budget
        self.client = client
        self.nbytes = 0
        self.has_ended = False

    def add(self, nbytes: int) -> None:
        """Hold more until the end of the call, or until it is released.

        Raises ``OverloadedError`` if there is no room now, LimitExceededError if there never is.
        """
        # An answer that another call also waits for may be made after the call that first requested
        # it.
        if self.has_ended:
            return
        self._budget.take(self.client, nbytes, self.nbytes)
        self.nbytes += nbytes

    def let_go(self, nbytes: int) -> None:
        """Hold less from now on; a call that has ended holds nothing."""
        if self.has_ended:
            return
        self.nbytes -= nbytes
        self._budget.give_back(self.client, nbytes)


class HeldBytes:
    """The bytes that all calls hold; at most ``most_bytes``."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._total = 0
        self._of_clients: Counter[str] = Counter()
        self._unreturned = 0
        """Bytes freed since memory was last given back."""
        self._is_returning = False
        self._idle_from: float | None = None
        """When the last call ended, by the event loop's clock; ``None`` once that was noticed."""

    @property
    def nbytes(self) -> int:
        """The bytes held now."""
        return self._total

    @property
    def most_of_call(self) -> int:
        """The most bytes that one call may hold."""
        return self._most // 2

    @contextmanager
    def of_call(self, client: str) -> Iterator[Hold]:
        """Count what the current call holds in the block, and give it back at the end."""
        hold = Hold(self, client)
        token = _hold.set(hold)
        try:
            yield hold
        finally:
            _hold.reset(token)
            hold.let_go(hold.nbytes)
            hold.has_ended = True

    def take(self, client: str, nbytes: int, held: int) -> None:
        """Count more bytes for a client whose call holds ``held`` already; see ``Hold.add``."""
        mine, total = self._of_clients[client] + nbytes, self._total + nbytes
        if mine <= self._most - total:
            self._of_clients[client], self._total = mine, total
            return
        self.note_freed(nbytes)
        if held + nbytes > self.most_of_call:
            raise LimitExceededError(
                f"the call holds {held + nbytes} bytes, above the limit of {self.most_of_call}",
                limit=self.most_of_call,
                hint="send less in one call",
            )
        raise OverloadedError(
            f"calls hold {self._total} bytes, {mine - nbytes} of them this client's, and {nbytes} "
            f"more came; the limit is {self._most}, of which a client may hold as much as it "
            "leaves free",
            hint="send less at once, or try again shortly",
        )

    def give_back(self, client: str, nbytes: int) -> None:
        """Count fewer bytes for a client."""
        self._total -= nbytes
        self._of_clients[client] -= nbytes
        if not self._of_clients[client]:
            del self._of_clients[client]
        self.note_freed(nbytes)
        if not self._total:
            self._note_idle()

    def note_freed(self, nbytes: int) -> None:
        """Note freed bytes, and have memory given back to the system once they are many."""
        self._unreturned += nbytes
        if self._unreturned > _UNRETURNED_BYTES and not self._is_returning:
            self._is_returning = True
            asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._give_back)

    def _note_idle(self) -> None:
        """Note that no call runs, and have garbage collected if none comes for a while."""
        loop = asyncio.get_running_loop()
        is_watched, self._idle_from = self._idle_from is not None, loop.time()
        if not is_watched:
            loop.call_later(_IDLE_SECONDS, self._collect_if_idle, loop)

    def _collect_if_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._idle_from is not None, "is set wherever this is scheduled"
        left = self._idle_from + _IDLE_SECONDS - loop.time()
        if not self._total and left > 0:
            # A call has come and gone meanwhile.
            loop.call_later(left, self._collect_if_idle, loop)
            return
        self._idle_from = None
        if not self._total and self._unreturned > _IDLE_BYTES:
            gc.collect()
            self._give_back()

    def _give_back(self) -> None:
        self._unreturned, self._is_returning = 0, False
        # In a thread of its own: this is rare, and may take tenths of a second.
        threading.Thread(target=give_back_memory, name="give back", daemon=True).start()


def count_held(nbytes: int) -> None:
    """Have the current call hold more, if it is counted; see ``Hold.add``."""
    if (hold := _hold.get()) is not None:
        hold.add(nbytes)


def count_let_go(nbytes: int) -> None:
    """Have the current call hold less, if it is counted."""
    if (hold := _hold.get()) is not None:
        hold.let_go(nbytes)
