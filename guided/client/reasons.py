"""Says why a type refuses a value, in one line that a model can be told."""

from __future__ import annotations

from pydantic import ValidationError

__all__ = ["reasons_of"]


def reasons_of(error: Exception, whole: str) -> str:
    """Return the faults of a value, each with its place; ``whole`` names the value itself.

    Validators are code of the caller, so the error may be of any kind.
    """
    if not isinstance(error, ValidationError):
        return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or whole}: {fault['msg']}"
        for fault in error.errors(include_url=False)
    )
