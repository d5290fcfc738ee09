"""Errors that say in which part of a constraint they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guided.errors import ConstraintError, LimitExceededError, RequestError

__all__ = ["naming"]


@contextmanager
def naming(place: tuple[str, ...]) -> Iterator[None]:
    """Say in errors about a request in which part they are, from the outside in."""
    try:
        yield
    except RequestError as error:
        if not place:
            raise
        message = f"in {', '.join(place)}: {error.message}"
        named: RequestError
        match error:
            case LimitExceededError():
                named = LimitExceededError(
                    message,
                    limit=error.limit,
                    field=error.field,
                    pointer=error.pointer,
                    hint=error.hint,
                )
            case ConstraintError():
                named = type(error)(
                    message, pointer=error.pointer, position=error.position, hint=error.hint
                )
            case _:
                named = RequestError(message, field=error.field, hint=error.hint)
        raise named from error
