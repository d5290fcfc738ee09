"""Which of several engines saves most for a request, and is not too busy; knows nothing of Ray."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from guided_service.ray.affinity import FIRST_BYTES, Affinity

__all__ = ["SLACK", "Routing"]

SLACK: Final = 8
"""Requests by which an engine may be busier than the idlest one."""

_CONSTRAINT_BYTES: Final = 2048
"""Of a prompt that cost as much to compute as a constraint does to compile."""

_MOST_DIGESTS: Final = 100_000

E = TypeVar("E")


class Routing(Generic[E]):
    """Keeps what each engine was sent; ``E`` names an engine."""

    def __init__(self, slack: float, name_of: Callable[[E], str]) -> None:
        """``name_of`` an engine is the same to every ingress."""
        self._slack = slack
        self._name_of = name_of
        self._seen: OrderedDict[bytes, set[E]] = OrderedDict()
        """Which engines have seen what has this digest, in the order of last use."""

    def choices(self, affinity: Affinity, loads: Mapping[E, float]) -> tuple[list[E], list[E]]:
        """Those engines that save most, and those that are not much busier than the idlest.

        Where none has seen anything, the first are one of the idlest, by the request's digests.
        """
        least = min(loads.values(), default=0.0)
        near = [each for each, load in loads.items() if load <= least + self._slack]
        saved = {each: self._saved(affinity, each) for each in near}
        most = max(saved.values(), default=0)
        best = [each for each in near if saved[each] == most]
        if best and not most and affinity.named is not None:
            idlest = [each for each in near if loads[each] == least]
            best = [max(idlest, key=lambda each: affinity.weight(self._name_of(each)))]
        return best, near

    def sent(self, affinity: Affinity, engine: E) -> None:
        """From now on this engine has what the request brings."""
        for digest in (*affinity.beginnings, affinity.constraint):
            if digest is not None:
                self._seen.setdefault(digest, set()).add(engine)
                self._seen.move_to_end(digest)
        while len(self._seen) > _MOST_DIGESTS:
            self._seen.popitem(last=False)

    def _saved(self, affinity: Affinity, engine: E) -> int:
        """Bytes of the prompt that need not be computed; a constraint counts as some."""
        found = 0
        for i, digest in enumerate(affinity.beginnings):
            if engine not in self._seen.get(digest, ()):
                break
            found = FIRST_BYTES << i
        if affinity.constraint is not None and engine in self._seen.get(affinity.constraint, ()):
            found += _CONSTRAINT_BYTES
        return found
