"""Shows how far model calls are from what a machine's memory allows, and what drafts cost there.

A call of few tokens reads all weights once, so it takes at least their bytes divided by the
bandwidth. A draft makes a call wider; it pays off if more of its tokens are right than the
additional time of the wider call, counted in calls of one token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table

if TYPE_CHECKING:
    from guided.decoding.draft_budget import CostCurve
    from guided.engine.hardware import Hardware

__all__ = ["CallCost", "HardwareFigures", "hardware_figures", "hardware_table"]

_WIDEST = 64
"""Tokens of a call above which multiplication limits the time, not memory."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """The cost of a model call."""

    tokens: int
    seconds: float
    over_bound: float
    """The time as a multiple of reading the weights."""
    to_pay: float
    """How many of the tokens after the first must be right for drafting them to pay off."""


@dataclass(frozen=True, slots=True)
class HardwareFigures:
    """A machine, its memory and its model calls."""

    name: str
    bytes_per_second: float
    bytes_per_call: int
    calls: tuple[CallCost, ...]

    @property
    def bound(self) -> float:
        """Seconds to read the weights of a call."""
        return self.bytes_per_call / self.bytes_per_second


def hardware_figures(hardware: Hardware, bytes_per_second: float) -> HardwareFigures:
    """Return the figures of a machine whose memory is read at this rate."""
    bound = hardware.bytes_per_call / bytes_per_second
    calls = () if hardware.costs is None else tuple(_calls(hardware.costs, bound))
    return HardwareFigures(str(hardware), bytes_per_second, hardware.bytes_per_call, calls)


def _calls(costs: CostCurve, bound: float) -> list[CallCost]:
    one = costs.seconds(1)
    return [
        CallCost(tokens, seconds, seconds / bound, seconds / one - 1)
        for tokens, seconds in costs.points
        if tokens <= _WIDEST
    ]


def hardware_table(found: HardwareFigures) -> RenderableType:
    """Return the figures as a table to read."""
    speed, size = found.bytes_per_second / 1e9, found.bytes_per_call / 1e6
    head = (
        f"{found.name}; memory is read at {speed:.1f} GB/s, so a call takes at least "
        f"{found.bound * 1e3:.1f} ms for its {size:,.0f} MB of weights"
    )
    if not found.calls:
        return head
    columns: list[Any] = ["tokens in a call", "ms", "times the bound", "right, for a draft to pay"]
    table = Table(*columns)
    for call in found.calls:
        drafted = call.tokens - 1
        pays = f"{call.to_pay:.1f} of {drafted}" if drafted else ""
        table.add_row(str(call.tokens), f"{call.seconds * 1e3:.1f}", f"{call.over_bound:.2f}", pays)
    return Group(head, table)
