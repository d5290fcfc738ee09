"""What one model call computes: the new tokens of all sequences, packed into one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from guided.decoding.device_draw import DeviceDraw
from guided.kv.recurrence import Recurrence
from guided.kv.reservation import Reservation
from guided.model.logits_rows import LogitsRows
from guided.spec import TokenId

__all__ = ["Segment", "SegmentOutput", "StepBatch", "StepOutput"]


class Segment:
    """The new tokens of one sequence, and where their keys and values go."""

    __slots__ = (
        "adapter",
        "ancestors",
        "checkpoint",
        "depths",
        "earlier_depths",
        "nodes_needing_logits",
        "num_committed",
        "recurrence",
        "reservations",
        "tokens",
        "trunk_length",
        "wants_hidden_states",
    )

    def __init__(
        self,
        *,
        reservations: tuple[Reservation, ...],
        num_committed: int,
        tokens: tuple[TokenId, ...],
        depths: tuple[int, ...],
        ancestors: NDArray[np.bool_] | None,
        nodes_needing_logits: tuple[int, ...],
        wants_hidden_states: bool = False,
        earlier_depths: tuple[int, ...] = (),
        adapter: int = 0,
        recurrence: Recurrence | None = None,
        trunk_length: int = 0,
        checkpoint: int = 0,
    ) -> None:
        self.reservations = reservations
        """One for each group of layers; the new tokens are the last rows of each."""
        self.num_committed = num_committed
        """Tokens of the sequence that were computed before."""
        self.tokens = tokens
        self.depths = depths
        """How many of the new tokens come before each. Its position is ``num_committed + depth``.
        """
        self.ancestors = ancestors
        """Which tokens of their tree the new ones see, those of ``earlier_depths`` first:
        ``[tokens, earlier + tokens]``; ``None`` if they are a chain and the whole tree."""
        self.nodes_needing_logits = nodes_needing_logits
        """The tokens whose logits are needed."""
        self.wants_hidden_states = wants_hidden_states
        """Whether the hidden states of all its tokens are needed."""
        self.earlier_depths = earlier_depths
        """The depths of the tokens of the same tree that earlier calls computed. Their rows come
        right before the new ones, and are not committed either."""
        self.adapter = adapter
        """Number of the LoRA adapter that is added to the model, from 1; 0 for none."""
        self.recurrence = recurrence
        """The state of the sequence's recurrent layers; ``None`` is at its beginning."""
        self.trunk_length = trunk_length
        """How many of the first new tokens stay whatever the model says."""
        self.checkpoint = checkpoint
        """After how many of those the recurrent state is needed as well; 0 for none."""


@dataclass(frozen=True, slots=True, eq=False)
class StepBatch:
    """The segments of one model call, in the order of their tokens in the packed row.

    Two segments of 3 and 2 tokens, with 5 and 0 tokens committed::

        tokens     a  b  c | x  y
        positions  5  6  7 | 0  1
    """

    segments: tuple[Segment, ...]
    device_draws: Callable[[], Sequence[DeviceDraw | None]] | None = None
    """What to draw from each row of logits, for runners that draw on the device. Finding the masks
    takes time, so the device computes the logits meanwhile."""

    @property
    def tokens(self) -> list[TokenId]:
        """The packed row."""
        return [token for segment in self.segments for token in segment.tokens]

    @property
    def positions(self) -> list[int]:
        """The position of each packed token in its own sequence."""
        return [
            segment.num_committed + depth for segment in self.segments for depth in segment.depths
        ]

    @property
    def adapters(self) -> NDArray[np.int64]:
        """The adapter of each packed token, see ``Segment.adapter``; ``[tokens]``."""
        return np.repeat(
            [segment.adapter for segment in self.segments],
            [len(segment.tokens) for segment in self.segments],
        )

    @property
    def starts(self) -> list[int]:
        """Where each segment starts in the packed row."""
        starts, start = [], 0
        for segment in self.segments:
            starts.append(start)
            start += len(segment.tokens)
        return starts

    @property
    def logits_rows(self) -> list[int]:
        """The packed tokens whose logits are needed, in the order of the returned logits."""
        return [
            start + node
            for start, segment in zip(self.starts, self.segments, strict=True)
            for node in segment.nodes_needing_logits
        ]

    @property
    def states_rows(self) -> list[int]:
        """The packed tokens whose hidden states are needed, in the order of the returned states."""
        return [
            row
            for start, segment in zip(self.starts, self.segments, strict=True)
            if segment.wants_hidden_states
            for row in range(start, start + len(segment.tokens))
        ]

    def new_slots(self, group: int) -> NDArray[np.int64]:
        """Return where the packed tokens go in one group of layers, ``[tokens]``."""
        return np.concatenate([segment.reservations[group].slots for segment in self.segments])


class SegmentOutput:
    """The model's output for one segment."""

    __slots__ = ("_end", "_first", "_rows", "states", "taps")

    def __init__(
        self,
        rows: LogitsRows,
        first: int,
        end: int,
        states: NDArray[np.float32],
        taps: NDArray[np.float32],
    ) -> None:
        """Its logits are the ``rows`` from ``first`` up to ``end``, without that."""
        self._rows, self._first, self._end = rows, first, end
        self.states = states
        """What the head reads of each token, ``[tokens, size]``; no rows unless requested."""
        self.taps = taps
        """What enters the tapped layers, side by side, ``[tokens, taps · size]``; no rows unless
        states are requested, no columns if no layer is tapped."""

    @property
    def logits(self) -> NDArray[np.float32]:
        """``[nodes needing logits, vocabulary]``."""
        return self._rows.part(self._first, self._end)

    @property
    def drawn(self) -> tuple[TokenId | None, ...]:
        """The tokens drawn after these nodes, where drawn."""
        return self._rows.drawn[self._first : self._end]

    def logits_of(self, index: int) -> NDArray[np.float32]:
        """Return the logits after one of ``nodes_needing_logits``, by its index among them.

        They are ``[vocabulary]``.
        """
        return self._rows[self._first + index]


@dataclass(frozen=True, slots=True, eq=False)
class StepOutput:
    """The model's output for a step batch."""

    logits: torch.Tensor
    """``[rows, vocabulary]``, in the order of ``StepBatch.logits_rows``, on the model's device."""
    states: torch.Tensor
    """States of the last layer after its norm, ``[rows, size]``, as ``StepBatch.states_rows``;
    float32 on the CPU."""
    taps: torch.Tensor
    """What enters the tapped layers, ``[rows, taps · size]``, for the same rows."""
    drawn: tuple[TokenId | None, ...] = ()
    """The tokens drawn from each row, if any were."""

    def split(self, segments: Sequence[Segment]) -> list[SegmentOutput]:
        """Return the output of each segment; ``segments`` are those of the batch, in its order.

        Waits for the device for the logits from which no token was drawn there.
        """
        logits_rows = LogitsRows(self.logits, self.drawn)
        states, taps = self.states.numpy(), self.taps.numpy()
        outputs = []
        first_row = first_state = 0
        for segment in segments:
            end_row = first_row + len(segment.nodes_needing_logits)
            end_state = first_state + (len(segment.tokens) if segment.wants_hidden_states else 0)
            state_slice = slice(first_state, end_state)
            outputs.append(
                SegmentOutput(
                    logits_rows, first_row, end_row, states[state_slice], taps[state_slice]
                )
            )
            first_row, first_state = end_row, end_state
        assert (first_row, first_state) == (len(logits_rows), len(states)), "rows left over"
        return outputs
