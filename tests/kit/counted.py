"""Usages without the times in them, which no two runs share."""

from __future__ import annotations

from dataclasses import replace

from guided.spec import Usage

__all__ = ["counted"]


def counted(usage: Usage) -> Usage:
    """The counts of an answer's usage; drafters that drafted nothing are left out."""
    drafters = [replace(one, draft_nanoseconds=0) for one in usage.by_drafter]
    kept = tuple(one for one in drafters if one.drafted_tokens or one.skipped_calls)
    return replace(usage, target_nanoseconds=0, mask_nanoseconds=0, by_drafter=kept)
