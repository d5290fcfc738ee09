"""The state of the recurrent layers of one sequence.

Keys and values of wrongly drafted tokens are simply left in their slots. A state that has read
such tokens cannot be undone, so it is a value that never changes, and each call makes another::

    state ── call ──▶ ComputedStates ─┬─ commit(path) ──▶ the state after that path
                                      └─ (nothing kept)   the state as it was

Nothing here knows what a state consists of (``guided.model.recurrent``). See docs/recurrent.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["ComputedStates", "Recurrence", "SequenceState"]


class SequenceState(Protocol):
    """All that recurrent layers keep of a beginning of a text; it never changes."""

    @property
    def length(self) -> int:
        """The number of tokens of that beginning."""
        ...


class ComputedStates(Protocol):
    """The states that a model call computed for the tokens of one segment."""

    @property
    def checkpoint(self) -> SequenceState | None:
        """The state after the tokens that the segment wanted one for."""
        ...

    def after(self, kept: Sequence[int]) -> SequenceState:
        """Return the state after those of the new tokens that stay."""
        ...


class Recurrence:
    """The state after the committed tokens of a sequence, and the states of the last call.

    Both are empty for a model without recurrent layers.
    """

    __slots__ = ("computed", "state")

    def __init__(self, state: SequenceState | None = None) -> None:
        self.state = state
        """After the committed tokens; ``None`` if nothing was read."""
        self.computed: ComputedStates | None = None
        """Set by the model for the reserved rows, and consumed by their commit."""

    def commit(self, kept: Sequence[int]) -> SequenceState | None:
        """Move on over the rows that stay; returns the checkpoint of the call, if it made one."""
        computed, self.computed = self.computed, None
        # Rows of a step that failed or was given up leave the state as it is.
        if computed is None or not kept:
            return None
        self.state = computed.after(kept)
        return computed.checkpoint

    def check(self, committed: int) -> None:
        """Raise unless the state has read the committed tokens."""
        if self.state is not None:
            assert self.state.length == committed, (
                f"the recurrent layers have read {self.state.length} of {committed} tokens"
            )
