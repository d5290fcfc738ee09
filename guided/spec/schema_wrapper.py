"""What OpenAI's API calls ``json_schema``: a schema with a name around it, which is none itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

__all__ = ["is_schema_wrapper"]

_MEMBERS: Final = frozenset({"name", "schema"})
_MORE: Final = frozenset({"strict", "description"})


def is_schema_wrapper(members: Collection[str]) -> bool:
    """Return whether an object with these members is a wrapper.

    As a schema all of them would be notes, so that any value would fit.
    """
    return _MEMBERS <= set(members) <= _MEMBERS | _MORE
