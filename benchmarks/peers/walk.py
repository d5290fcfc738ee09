"""Walks a document token by token as a decoder would: mask, look the token up, accept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.peers.adapter import Adapter, Matcher

__all__ = ["Forced", "Seen", "clock", "forced_walk", "walk"]

clock = time.perf_counter_ns


@dataclass(slots=True)
class Seen:
    """What happened on a walk; filled as it goes, so that a walk that is broken off counts too."""

    mask_ns: list[int] = field(default_factory=list)
    """Nanoseconds of each mask, one a token and one at the end."""
    accept_ns: list[int] = field(default_factory=list)
    """Nanoseconds of each step."""
    single: int = 0
    """Masks with one token."""
    mask_lies: int = 0
    """Tokens that were in the mask and then refused."""
    eos_disagrees: int = 0
    """Last masks that say something else about the end than the engine."""


@dataclass(frozen=True, slots=True)
class Forced:
    """The tokens of a document that its engine forced, in tokens."""

    right: int
    wrong: int
    """Runs that continued with another token than the document."""


def walk(adapter: Adapter, matcher: Matcher, ids: Sequence[int], deadline: int, seen: Seen) -> str:
    """Return why a document is refused; empty if it is accepted to its end.

    ``deadline`` is in nanoseconds of ``clock``. Raises TimeoutError past it, and RuntimeError
    where the matcher fails.
    """
    for place, token in enumerate(ids):
        _mask(matcher, seen)
        if not adapter.allows(token):
            return f"token {place}"
        if int(np.bitwise_count(adapter.words).sum()) == 1:
            seen.single += 1
        began = clock()
        is_accepted = matcher.accept(token)
        ended = clock()
        seen.accept_ns.append(ended - began)
        if not is_accepted:
            seen.mask_lies += 1
            return f"token {place}: in the mask but not accepted"
        if ended > deadline:
            raise TimeoutError
    _mask(matcher, seen)  # the one under which the end would be drawn
    is_accepting = matcher.is_accepting()
    if adapter.allows(adapter.tokenizer.eos_id) != is_accepting:
        seen.eos_disagrees += 1
    return "" if is_accepting else "end: not accepting"


def _mask(matcher: Matcher, seen: Seen) -> None:
    began = clock()
    matcher.mask()
    ended = clock()
    seen.mask_ns.append(ended - began)
    if error := matcher.error():
        raise RuntimeError(error)


def forced_walk(matcher: Matcher, ids: Sequence[int], deadline: int) -> Forced | None:
    """Count the tokens of a document that its engine forces; ``None`` where a step is refused.

    Only tokens that equal the document's own count.
    """
    place = right = wrong = 0
    while place < len(ids):
        run = matcher.forced()
        rest = ids[place : place + len(run)]
        equal = 0
        while equal < len(rest) and run[equal] == rest[equal]:
            equal += 1
        right += equal
        wrong += equal < len(run)
        step = max(equal, 1)
        if not all(matcher.accept(token) for token in ids[place : place + step]):
            return None
        place += step
        if clock() > deadline:
            raise TimeoutError
    return Forced(right, wrong)
