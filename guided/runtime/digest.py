"""The digest of a constraint, which may be made of thousands of others."""

from __future__ import annotations

from guided.runtime.work_budget import with_pauses
from guided.spec import Structure

__all__ = ["digest_with_pauses"]


def digest_with_pauses(constraint: Structure) -> str:
    """Return ``constraint.digest()``; pauses between its parts when a pause is due."""
    inner = constraint.inner()
    if not inner:
        return constraint.digest()
    return constraint.digest_over([digest_with_pauses(part) for part in with_pauses(inner)])
