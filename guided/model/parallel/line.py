"""Sends hidden states along a line of ranks, by ``torch.distributed``."""

from __future__ import annotations

from typing import Final

import torch
from torch import distributed

from guided.model.parallel.pipeline_plan import place_in_line, rank_at

__all__ = ["Line"]


class Line:
    """The place of one rank in the line, between its neighbours.

    Sending does not wait for the neighbour to receive, so that both compute at the same time; but
    the previous message has to have been received.
    """

    def __init__(self, rank: int, ranks: int) -> None:
        place = place_in_line(rank, ranks)
        self._before: Final = rank_at(place - 1, ranks)
        self._after: Final = rank_at(place + 1, ranks)
        self._on_the_way: tuple[distributed.Work, torch.Tensor] | None = None

    def receive(self, into: torch.Tensor) -> None:
        """Fill a tensor with the next hidden states that the stage before sends."""
        work = distributed.irecv(into, self._before)
        assert work is not None, "this process is no rank"
        work.wait()

    def send(self, states: torch.Tensor) -> None:
        """Send hidden states to the stage after; they must not change any more."""
        if self._on_the_way is not None:
            self._on_the_way[0].wait()
        states = states.contiguous()
        work = distributed.isend(states, self._after)
        assert work is not None, "this process is no rank"
        # Kept, so that their memory stays until they are received.
        self._on_the_way = work, states
