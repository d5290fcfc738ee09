"""Limits on the work and memory of a compiler."""

from __future__ import annotations

from dataclasses import dataclass, field

from guided.machine.parts import RecognizerLimits

__all__ = ["ConstraintLimits"]


@dataclass(frozen=True, slots=True)
class ConstraintLimits:
    """Limits on each constraint, and on what all constraints of one vocabulary keep together."""

    compile_work: int = 3_000_000
    """Units of work to compile one constraint, each about a microsecond."""
    step_work: int = 2_000_000
    """The same for the work that one position of an answer may cause."""
    max_compiled: int = 64
    """Compiled constraints kept for later requests; those in use live on when they are dropped."""
    max_compiled_bytes: int = 256 * 2**20
    """Bytes that these hold, without masks; a single one may be larger."""
    max_mask_bytes: int = 256 * 2**20
    """Bytes of finished masks."""
    max_inner_mask_bytes: int = 64 * 2**20
    """Bytes of the parts of masks that all constraints share."""
    max_positions: int = 16_000
    """Positions remembered per constraint, some 500 bytes each."""
    recognizer: RecognizerLimits = field(default_factory=RecognizerLimits)
    """Bounds on each recogniser."""
