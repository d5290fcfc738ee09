"""A matcher for another engine, with the calls that engines make and no errors raised in them.

An engine requests masks and moves between steps, for all its requests at once; an error there ends
more than the answer concerned. So an answer whose next position takes more work than its limits
allow is closed by its shortest completion instead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.compiler import Matcher, fill_bitmasks
from guided.errors import LimitExceededError
from guided.spec import Forcing

__all__ = ["HostedMatcher", "fill_all"]

_log: Final = logging.getLogger(__name__)
_WINDOW: Final = 64
"""How early masks begin to keep an end within reach, in tokens; those masks take longer."""


class HostedMatcher:
    """One answer of a host, at the position after the tokens that it accepted."""

    def __init__(
        self,
        matcher: Matcher,
        end_ids: Iterable[int],
        stop_ids: Iterable[int] = (),
        forcing: Forcing = Forcing.OFF,
    ) -> None:
        """``end_ids`` are those of the vocabulary. The host also stops at ``stop_ids``: they are
        allowed only where the answer may end. With ``forcing``, a mask inside a forced run allows
        only the run's token."""
        self._matcher: Final = matcher
        self._forcing: Final = forcing
        self._ends: Final = frozenset(end_ids)
        self._end: Final = min(self._ends)
        self._stops: Final = frozenset(stop_ids) - self._ends
        self._closing: tuple[int, ...] | None = None
        """The tokens that remain to be written, including the end, once a limit was reached."""
        self._num_closed = 0
        """How many of those tokens were accepted."""
        self._max_tokens: int | None = None
        self._window = 0

    def end_within(self, max_tokens: int) -> None:
        """End the answer before it is cut off after ``max_tokens``, including its end.

        If even the shortest answer is longer, it is cut off.
        """
        try:
            shortest = self._matcher.shortest_completion(max_tokens - 1)
        except LimitExceededError:
            return
        if shortest is None:
            return
        self._max_tokens = max_tokens
        self._window = max(_WINDOW, 2 * len(shortest))

    @property
    def is_terminated(self) -> bool:
        """Whether the end was accepted."""
        if self._closing is None:
            return self._matcher.is_terminated
        return self._num_closed == len(self._closing)

    @property
    def is_plain(self) -> bool:
        """Whether masks equal those of ``plain``, many of which can be filled in one call."""
        narrows = self._stops or self._forcing is not Forcing.OFF
        return self._closing is None and not narrows and self._budget() is None

    @property
    def plain(self) -> Matcher:
        """The matcher itself, for reading only."""
        return self._matcher

    def fill(self, memory: NDArray[np.int32], row: int) -> None:
        """Write the mask of the next tokens to a row of int32 ``[rows, words]``; never empty."""
        if self._closing is None:
            self._fill_open(memory, row, self._budget())
        if self._closing is not None:
            memory[row] = 0
            _set(memory[row], [self._next()])
        elif self._forcing is not Forcing.OFF:
            self._narrow(memory[row])
        if self._stops:
            self._fill_stops(memory[row])

    def accept(self, tokens: Sequence[int]) -> bool:
        """Move over all of the tokens or none; tokens after an end are ignored."""
        asked = self._without_stops(tokens)
        if self.is_terminated or (self._closing is None and self._moved(asked)):
            return True
        count = self._num_valid(asked)
        has_ended = count > 0 and asked[count - 1] in self._ends
        if count < len(asked) and not has_ended:
            return False
        if self._closing is None:
            return self._moved(asked[:count])
        self._num_closed += count
        return True

    def validate(self, tokens: Sequence[int]) -> int:
        """Return how many of the tokens may follow, without moving."""
        return self._num_valid(self._without_stops(tokens))

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens."""
        closed = min(num_tokens, self._num_closed)
        self._num_closed -= closed
        if num_tokens > closed:
            self._closing = None
            self._matcher.rollback(num_tokens - closed)

    def reset(self) -> None:
        """Go back to before the first token."""
        self._closing, self._num_closed = None, 0
        self._matcher.reset()

    def forced(self, forcing: Forcing = Forcing.CANONICAL) -> tuple[int, ...]:
        """Return tokens that must come next, without an end; often none."""
        if self._closing is not None:
            return self._closing[self._num_closed : -1]
        try:
            return self._matcher.forced(forcing)
        except LimitExceededError as error:
            self._close(error)
            return self.forced()

    def is_complete_after(self, run: Sequence[int]) -> bool:
        """Whether only the end may follow after an allowed run; does not move."""
        if self._closing is not None:
            return self._num_closed + len(run) == len(self._closing) - 1
        if not self._moved([*run]):
            return False
        is_complete = self._matcher.is_complete
        self._matcher.rollback(len(run))
        return is_complete

    def _fill_open(self, memory: NDArray[np.int32], row: int, budget: int | None) -> None:
        try:
            self._matcher.fill_bitmask(memory, row, budget=budget)
        except LimitExceededError as error:
            if error.field == "budget":
                # Drafts that earlier masks forbid led here: they will be taken back.
                self._fill_open(memory, row, None)
            else:
                self._close(error)

    def _narrow(self, row: NDArray[np.int32]) -> None:
        """Allow only the token of a forced run, unless it leads past the last token."""
        run = self.forced(self._forcing)
        if run and row[run[0] // 32] >> (run[0] % 32) & 1:
            row[:] = 0
            _set(row, run[:1])

    def _budget(self) -> int | None:
        """Return the tokens left before the end; ``None`` while there are plenty."""
        if self._max_tokens is None:
            return None
        left = self._max_tokens - 1 - self._matcher.num_tokens
        if left < self._window:
            return left if left >= 0 else None
        # What a recursive answer has opened may take more than the window to close.
        try:
            return None if self._matcher.can_end_within(left - _WINDOW) else left
        except LimitExceededError:
            return None

    # --- the matcher, whose limits may be reached ----------------------------------------------

    def _moved(self, tokens: list[int]) -> bool:
        try:
            return self._matcher.accept(tokens)
        except LimitExceededError as error:
            _log.warning("an answer cannot go on: %s", error)
            return False

    def _num_valid(self, tokens: list[int]) -> int:
        if self._closing is not None:
            return self._num_of_closing(tokens)
        try:
            return self._matcher.validate(tokens)
        except LimitExceededError:
            return 0  # drafts are guesses; the mask of this position decides what follows

    # --- closing ------------------------------------------------------------------------------

    def _close(self, error: LimitExceededError) -> None:
        _log.warning("an answer is closed early: %s", error)
        self._closing = (*(self._matcher.shortest_completion() or ()), self._end)
        self._num_closed = 0

    def _next(self) -> int:
        assert self._closing is not None
        return self._closing[min(self._num_closed, len(self._closing) - 1)]

    def _num_of_closing(self, tokens: list[int]) -> int:
        assert self._closing is not None
        left = self._closing[self._num_closed :]
        same = [token == due for token, due in zip(tokens, left, strict=False)]
        return same.index(False) if False in same else len(same)

    # --- tokens that the host stops at --------------------------------------------------------

    def _without_stops(self, tokens: Sequence[int]) -> list[int]:
        if not self._stops:
            return [*tokens]
        return [self._end if token in self._stops else token for token in tokens]

    def _fill_stops(self, row: NDArray[np.int32]) -> None:
        """Allow the host's stop tokens where the end is allowed, and forbid them elsewhere."""
        stops = [token for token in self._stops if 0 <= token < 32 * len(row)]
        if row[self._end // 32] >> (self._end % 32) & 1:
            _set(row, stops)
            return
        words = row.view(np.uint32)
        for token in stops:
            words[token // 32] &= ~np.uint32(1 << token % 32)


def fill_all(
    matchers: Sequence[HostedMatcher], memory: NDArray[np.int32], rows: Sequence[int]
) -> None:
    """Write the mask of each matcher to its row of int32 ``[rows, words]``."""
    try:
        if all(matcher.is_plain for matcher in matchers):
            fill_bitmasks([matcher.plain for matcher in matchers], memory, rows)
            return
    except LimitExceededError:
        pass  # one of them reached a limit; it is closed below
    for matcher, row in zip(matchers, rows, strict=True):
        matcher.fill(memory, row)


def _set(row: NDArray[np.int32], tokens: Iterable[int]) -> None:
    words = row.view(np.uint32)
    for token in tokens:
        words[token // 32] |= np.uint32(1 << token % 32)
