"""Chooses the engine that saves most for a request and is not too busy, independently of Ray."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Set
from heapq import nlargest
from typing import Final, Generic, TypeVar

from guided_service.ray.affinity import FIRST_BYTES, Affinity

__all__ = ["SLACK", "Routing"]

SLACK: Final = 16
"""How many more requests than the idlest an engine may have: as many as a model call on the CPU
computes answers for. With 8, engines at 70 % of their load computed so many beginnings that others
already had that they could not keep up (docs/scaling.md)."""

_MOST_DIGESTS: Final = 100_000

E = TypeVar("E")


class Routing(Generic[E]):
    """Records what each engine was sent; ``E`` names an engine."""

    def __init__(self, slack: float, name_of: Callable[[E], str]) -> None:
        """``name_of`` returns a name that is the same in every ingress."""
        self._slack = slack
        self._name_of = name_of
        self._seen: OrderedDict[bytes, set[E]] = OrderedDict()
        """The engines that have seen each digest, in order of last use."""
        self._engines: set[E] = set()
        """All engines in ``_seen``."""

    def choices(self, affinity: Affinity, loads: Mapping[E, float]) -> tuple[list[E], list[E]]:
        """Return the engines that save most, and those not much busier than the idlest.

        If none has seen anything, the former is one engine: the idler of two that the request's
        digests select, which are the same in every ingress, whatever loads each has seen.
        """
        least = min(loads.values(), default=0.0)
        near = [each for each, load in loads.items() if load <= least + self._slack]
        saved = {each: self._saved(affinity, each) for each in near}
        most = max(saved.values(), default=0)
        best = [each for each in near if saved[each] == most]
        if best and not most and affinity.named is not None:
            named = nlargest(2, near, key=lambda each: affinity.weight(self._name_of(each)))
            best = [min(named, key=loads.__getitem__)]
        return best, near

    def sent(self, affinity: Affinity, engine: E) -> None:
        """Note that this engine now has the request's digests."""
        self._engines.add(engine)
        for digest in (*affinity.beginnings, affinity.constraint):
            if digest is not None:
                self._seen.setdefault(digest, set()).add(engine)
                self._seen.move_to_end(digest)
        while len(self._seen) > _MOST_DIGESTS:
            self._seen.popitem(last=False)

    def keep(self, engines: Set[E]) -> None:
        """Forget all other engines, which have ended."""
        if self._engines <= engines:
            return  # so all digests are scanned only if an engine has ended
        self._engines &= engines
        for digest, seen in list(self._seen.items()):
            seen &= engines
            if not seen:
                del self._seen[digest]

    def __len__(self) -> int:
        """Return the number of digests kept."""
        return len(self._seen)

    def _saved(self, affinity: Affinity, engine: E) -> int:
        """Return the bytes of the prompt that need not be computed, plus the constraint's worth."""
        found = 0
        for i, digest in enumerate(affinity.beginnings):
            if engine not in self._seen.get(digest, ()):
                break
            found = FIRST_BYTES << i
        if affinity.constraint is not None and engine in self._seen.get(affinity.constraint, ()):
            found += affinity.constraint_bytes
        return found
