"""How much a compiler may keep."""

from __future__ import annotations

from dataclasses import dataclass, field

from guided.machine.parts import RecognizerLimits

__all__ = ["ConstraintLimits"]


@dataclass(frozen=True, slots=True)
class ConstraintLimits:
    """Bounds on the memory of all constraints of one vocabulary together."""

    compile_work: int = 3_000_000
    """Steps of compiling one constraint, each about a microsecond."""
    step_work: int = 2_000_000
    """The same for what one position of an answer may have built."""
    max_compiled: int = 64
    """Compiled constraints kept for the next request; those in use live on beyond it."""
    max_compiled_bytes: int = 256 * 2**20
    """What these hold, masks aside, in bytes; one alone may be larger."""
    max_mask_bytes: int = 256 * 2**20
    """Finished masks, in bytes."""
    max_inner_mask_bytes: int = 64 * 2**20
    """Parts of masks that all constraints share, in bytes."""
    max_positions: int = 16_000
    """Positions remembered of one constraint, some 500 bytes each."""
    recognizer: RecognizerLimits = field(default_factory=RecognizerLimits)
    """Bounds on each recogniser."""
