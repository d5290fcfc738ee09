"""The drafters that need only a vocabulary, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.decoding.drafter import Drafter
from guided.drafters.lookahead import LookaheadDrafter
from guided.drafters.lookup import LookupDrafter
from guided.drafters.suffix import SuffixDrafter
from guided.drafters.suffix_pools import MAX_BYTES
from guided.errors import RequestError
from guided.masks.vocabulary import Vocabulary
from guided.spec.closest import closest

__all__ = [
    "DRAFTER_NAMES",
    "check_drafters",
    "default_drafters",
    "describe_drafters",
    "make_drafters",
]

_LOOKUP: Final = LookupDrafter.name
_SUFFIX: Final = SuffixDrafter.name
DRAFTER_NAMES: Final = (_LOOKUP, _SUFFIX, LookaheadDrafter.name)


def default_drafters(*, reuse_prefixes: bool) -> tuple[str, ...]:
    """Return the drafters of an engine whose settings name none.

    If no request may profit from another, earlier answers are not kept either.
    """
    return (_LOOKUP, _SUFFIX) if reuse_prefixes else (_LOOKUP,)


def check_drafters(names: Sequence[str]) -> None:
    """Raise RequestError for an unknown name, or one that is given twice."""
    for index, name in enumerate(names):
        if name not in DRAFTER_NAMES:
            close = closest(name, DRAFTER_NAMES)
            raise RequestError(
                f"drafters names {name!r}, which is none of {', '.join(map(repr, DRAFTER_NAMES))}",
                field="drafters",
                hint=f"name {close!r}" if close else "name some of these",
            )
        if name in names[:index]:
            raise RequestError(f"drafters names {name!r} twice", field="drafters")


def make_drafters(names: Sequence[str], vocabulary: Vocabulary) -> tuple[Drafter, ...]:
    """Make the drafters of these names, which draft in this order."""
    check_drafters(names)
    return tuple([_make(name, vocabulary) for name in names])


def describe_drafters(names: Sequence[str]) -> str:
    """Describe what drafts, in its order, and the memory that earlier answers may take."""
    kept = f"{_SUFFIX} (at most {MAX_BYTES // 2**20} MiB of earlier answers)"
    return ", ".join([kept if name == _SUFFIX else name for name in names]) or "none"


def _make(name: str, vocabulary: Vocabulary) -> Drafter:
    if name == _LOOKUP:
        return LookupDrafter(vocabulary)
    return SuffixDrafter() if name == _SUFFIX else LookaheadDrafter()
