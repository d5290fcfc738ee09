"""Generates the load: requests of several applications, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

__all__ = ["Arrival", "Load"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request."""

    at: float
    """Seconds since the beginning."""
    prompt: str
    constraint: str
    """A pattern; empty without a constraint."""
    tokens: int
    """Tokens of its answer."""


@dataclass(frozen=True)
class Load:
    """Requests that arrive at random (a Poisson process), each of one application.

    All prompts of an application share a beginning; all applications are equally frequent.
    """

    rate: float
    """Requests per second."""
    count: int
    applications: int = 1
    shared_bytes: int = 0
    """Length of the shared beginning of each prompt."""
    own_bytes: int = 64
    """Length of the rest of each prompt."""
    tokens: int = 32
    """Tokens of each answer."""
    constraints: int | None = 0
    """How many constraints exist; each request has one. ``None``: one for each application."""
    seed: int = 0

    def arrivals(self) -> Iterator[Arrival]:
        """Yield the requests, in order of arrival."""
        draw = random.Random(self.seed)
        gaps = (draw.expovariate(self.rate) for _ in range(self.count))
        for i, at in enumerate(accumulate(gaps)):
            number = draw.randrange(self.applications)
            shared = f"application {number}. ".ljust(self.shared_bytes, "x")[: self.shared_bytes]
            own = f"request {i} of them".ljust(self.own_bytes, ".")
            other = number if self.constraints is None else draw.randrange(self.constraints or 1)
            constraint = "" if self.constraints == 0 else f"(yes|no), by {other}"
            yield Arrival(at, shared + own, constraint, self.tokens)
