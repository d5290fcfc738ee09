"""Positions in the documents of one constraint, each there once, with what is known of it."""

from __future__ import annotations

from guided.machine.recognizer import State
from guided.masks.held_mask import HeldMask
from guided.spec import TokenId

__all__ = ["Position"]


class Position:
    """A state with its mask and the positions behind it, as far as somebody asked for them.

    Equal when the states are. The rest only saves work: nothing of it can change.
    """

    __slots__ = ("behind", "forces", "held", "is_accepting", "is_complete", "runs", "state")

    def __init__(self, state: State, is_accepting: bool, is_complete: bool) -> None:
        self.state = state
        self.is_accepting = is_accepting
        self.is_complete = is_complete
        self.forces: bool | None = None
        """Whether a byte has to follow that there is no choice about; ``None`` for not known."""
        self.held: HeldMask | None = None
        self.behind: dict[TokenId, Position] = {}
        self.runs: dict[bytes, tuple[TokenId, ...]] = {}
        """Canonical runs, by what the text before them means for their spelling."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self.state == other.state

    def __hash__(self) -> int:
        return hash(self.state)
