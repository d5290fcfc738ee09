"""Checks which drafters a request names, and how wide their trees may be."""

from __future__ import annotations

from collections.abc import Sequence

from guided.errors import LimitExceededError, RequestError

__all__ = ["NO_DRAFTER", "check_draft_widths", "check_drafters"]

NO_DRAFTER = "none"
"""Named as a drafter, turns drafting off."""

_MAX_DRAFTERS = 16
"""Most drafters that a request may name."""

_MAX_DRAFT_LEVELS = 16
"""Most levels of a tree that a draft model may draft."""

_WIDEST_DRAFT_LEVEL = 8
"""Most tokens that a draft model may draft after each token."""


def check_drafters(names: Sequence[str]) -> None:
    """Raise LimitExceededError for too many drafters, RequestError for 'none' beside others."""
    if len(names) > _MAX_DRAFTERS:
        raise LimitExceededError(
            f"drafters names {len(names)}, above the limit of {_MAX_DRAFTERS}",
            limit=_MAX_DRAFTERS,
            field="drafters",
        )
    if NO_DRAFTER in names and len(names) > 1:
        raise RequestError(f"drafters names {NO_DRAFTER!r} and others", field="drafters")


def check_draft_widths(widths: Sequence[int]) -> None:
    """Raise RequestError for invalid expansion widths of draft models."""
    is_long = len(widths) > _MAX_DRAFT_LEVELS
    if is_long or not widths or not all(1 <= width <= _WIDEST_DRAFT_LEVEL for width in widths):
        given = f"{len(widths)} draft_widths" if is_long else f"draft_widths {list(widths)}"
        raise RequestError(
            f"{given} are not 1 to {_MAX_DRAFT_LEVELS} numbers from 1 to {_WIDEST_DRAFT_LEVEL}",
            field="draft_widths",
            hint="a chain of four tokens is 1,1,1,1",
        )
