"""Many requests at once while engines are killed, and the outcome of each."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from guided import Answer, Client, Completed, Request
from tests.ray.cluster import Serving

__all__ = ["Outcomes", "ask_while_engines_are_killed"]


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of requests, each counted once."""

    answered: int
    told: Counter[str]
    """Errors that callers got instead, by their text."""
    wrong: tuple[str, ...]
    """Answers to another request."""
    lost: tuple[int, ...]
    """Requests without any outcome."""
    twice: tuple[int, ...]
    """Requests with more than one outcome."""
    kills: int


def ask_while_engines_are_killed(
    served: Serving,
    requests: Sequence[Request[str]],
    is_right: Callable[[int, str], bool],
    is_due: Callable[[int], bool],
    *,
    at_once: int,
) -> Outcomes:
    """Make all requests; ``is_due`` says, by the number of ended ones, when to kill an engine.

    It is killed as soon as another one runs, whether or not earlier ones were replaced.
    ``is_right`` says whether an answer's text is one to the request with this number.
    """
    came: list[Completed[str]] = []
    engines, killed = len(served.replicas()), set[str]()
    kills: list[Future[None]] = []
    with Client(served.address, concurrency=at_once) as client, ThreadPoolExecutor(1) as killer:
        for outcome in client.as_completed(requests):
            came.append(outcome)
            # One at a time, or due engines would still be killed after the last request.
            if all(each.done() for each in kills) and is_due(len(came)):
                kills.append(killer.submit(_kill_one, served, killed))
        for each in kills:
            each.result()
    served.wait_for(engines, *killed)
    times = Counter(each.index for each in came)
    answers = [(each.index, each.outcome) for each in came if isinstance(each.outcome, Answer)]
    return Outcomes(
        answered=len(answers),
        told=Counter(str(each.outcome) for each in came if not isinstance(each.outcome, Answer)),
        wrong=tuple(
            f"{index}: {answer.text}"
            for index, answer in answers
            if not is_right(index, answer.text)
        ),
        lost=tuple(i for i in range(len(requests)) if not times[i]),
        twice=tuple(i for i, count in times.items() if count > 1),
        kills=len(killed),
    )


def _kill_one(served: Serving, killed: set[str]) -> None:
    """Kill an engine, once another one runs; killed ones stay listed for a while."""
    while len(alive := {k: v for k, v in served.replicas().items() if k not in killed}) < 2:
        time.sleep(0.1)
    name, process = next(iter(alive.items()))
    os.kill(process, signal.SIGKILL)
    killed.add(name)
