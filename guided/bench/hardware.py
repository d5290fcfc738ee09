"""How far the model calls of a machine are from what its memory allows, and what drafts cost there.

A call of few tokens reads all weights once, so it takes at least their bytes over the bandwidth. A
draft makes a call wider; it pays where more of its tokens are right than what the wider call takes
more, counted in calls of one token.
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
"""Tokens of a call beyond which multiplying takes the time, not memory."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a model call costs."""

    tokens: int
    seconds: float
    over_bound: float
    """Times what reading the weights takes."""
    to_pay: float
    """How many of the tokens after the first have to be right for a draft of them to pay."""


@dataclass(frozen=True, slots=True)
class HardwareFigures:
    """A machine, its memory and its model calls."""

    name: str
    bytes_per_second: float
    bytes_per_call: int
    calls: tuple[CallCost, ...]

    @property
    def bound(self) -> float:
        """Seconds that reading the weights of a call takes."""
        return self.bytes_per_call / self.bytes_per_second


def hardware_figures(hardware: Hardware, bytes_per_second: float) -> HardwareFigures:
    """The figures of a machine whose memory is read so fast."""
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
    """The figures for people."""
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
