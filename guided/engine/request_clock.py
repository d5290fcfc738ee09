"""The times of what happened to one request."""

from __future__ import annotations

import time

from guided.spec import Timing

__all__ = ["RequestClock"]


class RequestClock:
    """Runs from the moment it is made, which is when the engine takes the request.

    ::

        taken ── compiling ── queued ── waiting ── started ─── first token ─ pause ─ pause ─ ended
    """

    __slots__ = ("_ended", "_first", "_latest", "_queued", "_started", "_taken", "pauses")

    def __init__(self) -> None:
        self._taken = time.monotonic()
        self._queued: float | None = None
        self._started: float | None = None
        self._first: float | None = None
        self._latest: float | None = None
        self._ended: float | None = None
        self.pauses: list[float] = []
        """Seconds from one model call that brought tokens to the next one that did."""

    def record_queued(self) -> None:
        """Record that the request waits for room."""
        self._queued = time.monotonic()

    def record_start(self) -> None:
        """Record that there is room; counts once, not after a pre-emption."""
        # Later starts are part of the pause between two tokens.
        if self._started is None:
            self._started = time.monotonic()

    def record_tokens(self) -> None:
        """Record that a model call brought tokens that the model chose."""
        # Forced tokens do not count: they are known before the model has chosen anything.
        now = time.monotonic()
        if self._latest is None:
            self._first = now
        else:
            self.pauses.append(now - self._latest)
        self._latest = now

    def record_end(self) -> None:
        """Record that the answer has its last token."""
        self._ended = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds from the first moment to the last."""
        assert self._ended is not None, "the answer has not ended"
        return self._ended - self._taken

    def timing(self, output_tokens: int) -> Timing:
        """Return the times of an answer with this number of tokens."""
        assert self._queued is not None, "the request was never queued"
        # A request that never needed room neither waited nor started: every token was certain.
        started = self._queued if self._started is None else self._started
        first, mean = None, None
        if self._first is not None and self._latest is not None:
            first = self._first - self._taken
            # Tokens of one call come together, so no time passes between them.
            if self.pauses and output_tokens > 1:
                mean = (self._latest - self._first) / (output_tokens - 1)
        return Timing(
            compiling_seconds=self._queued - self._taken,
            waiting_seconds=started - self._queued,
            first_token_seconds=first,
            mean_inter_token_seconds=mean,
            max_inter_token_seconds=max(self.pauses, default=None),
        )
