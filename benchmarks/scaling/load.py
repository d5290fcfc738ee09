"""What comes in: requests of several applications, drawn from a seed."""

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
    """Seconds from the beginning."""
    prompt: str
    constraint: str
    """A pattern; empty where there is none."""
    tokens: int
    """Of its answer."""


@dataclass(frozen=True)
class Load:
    """Requests that come at random (a Poisson process), each of one application.

    All prompts of an application share a beginning; all applications are asked as often.
    """

    rate: float
    """Requests a second."""
    count: int
    applications: int = 1
    shared_bytes: int = 0
    """Of the beginning of each prompt."""
    own_bytes: int = 64
    """Of what follows in it."""
    tokens: int = 32
    """Of each answer."""
    constraints: int | None = 0
    """How many there are, of which each request has one; ``None``: one for each application."""
    seed: int = 0

    def arrivals(self) -> Iterator[Arrival]:
        """The requests, in the order in which they come."""
        draw = random.Random(self.seed)
        gaps = (draw.expovariate(self.rate) for _ in range(self.count))
        for i, at in enumerate(accumulate(gaps)):
            number = draw.randrange(self.applications)
            shared = f"application {number}. ".ljust(self.shared_bytes, "x")[: self.shared_bytes]
            own = f"request {i} of them".ljust(self.own_bytes, ".")
            other = number if self.constraints is None else draw.randrange(self.constraints or 1)
            constraint = "" if self.constraints == 0 else f"(yes|no), by {other}"
            yield Arrival(at, shared + own, constraint, self.tokens)
