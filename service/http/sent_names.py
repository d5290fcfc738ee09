"""Lets errors name what the caller sent: fields of the body instead of those of our requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeAlias

from guided.errors import GuidedError, RequestError

__all__ = ["CameFrom", "field_sent", "message_sent", "named_as_sent"]

CameFrom: TypeAlias = Mapping[str, str | None]
"""The fields of the body that fields of a request came from, where they have other names; ``None``
for a field that the caller did not send."""

_OUR_PLACE: Final = "sampling."
"""Prefix of the names of options that are fields of the body here."""

_SHOWN_PLACES: Final = ("max_tokens", "stop_tokens", "tools.")
"""Beginnings of the names of fields that messages contain."""

_OFF: Final[Mapping[str, str]] = {
    "chat_template_kwargs": "false",
    "thinking": '{"type": "disabled"}',
}
"""The value without thoughts of a field about them, by its beginning; other fields have numbers or
words."""


@contextmanager
def named_as_sent(came_from: CameFrom) -> Iterator[None]:
    """Let errors of a request that the block makes of a body name the fields of the body."""
    try:
        yield
    except RequestError as error:
        error.args = (message_sent(error, came_from),)
        error.field = field_sent(error, came_from)
        raise


def message_sent(error: GuidedError, came_from: CameFrom) -> str:
    """Return what went wrong and how to fix it, with the caller's names of fields."""
    field = error.field if isinstance(error, RequestError) else None
    if field == "reasoning" and (sent := came_from.get(field)) is not None:
        # The engine's hint names options that a body does not have.
        off = _OFF.get(sent.partition(".")[0], "none or 0")
        return f"{error.message}; leave {sent} out, or set it to {off}"
    if field is not None and field.startswith(_SHOWN_PLACES):
        return str(error).replace(field, came_from.get(field) or field)
    return str(error)


def field_sent(error: GuidedError, came_from: CameFrom) -> str | None:
    """Return the field of the body that an error is about, if it is about one."""
    field = error.field if isinstance(error, RequestError) else None
    if field is None:
        return None
    if field in came_from:
        return came_from[field]
    ours = field.partition(".")[0]
    if ours in came_from:
        return came_from[ours]
    return field.removeprefix(_OUR_PLACE)
