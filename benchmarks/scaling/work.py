"""The work of an engine without its computing: what each step does, and how long it takes."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

import msgspec

__all__ = ["Costs", "Job", "Step", "Work"]

_TOKEN_BYTES = 4
"""Of a prompt, near enough for English."""

_BLOCK_BYTES = 256
"""What is kept of prompts is kept by so much at a time."""


class Costs(msgspec.Struct, frozen=True):
    """What an engine's work takes, and what it has room for."""

    call: float
    """Seconds of a model call, whatever it computes."""
    token: float = 0.0
    """Seconds more for each token in it."""
    compiling: float = 0.0
    """Seconds in which a constraint that is not there is compiled."""
    batch: int = 16
    """Answers that a call computes for."""
    step_tokens: int = 512
    """Tokens of a call."""
    kept_tokens: int = 16384
    """Tokens of prompts that are kept for those that begin alike."""
    kept_constraints: int = 256
    """Compiled constraints that are kept."""


@dataclass(slots=True)
class Job:
    """One answer that is being made."""

    name: str
    prompt: str
    constraint: str
    tokens: int
    """Of the answer, one in each call after the prompt's."""
    unread: int = 0
    """Tokens of the prompt that are still to be computed."""
    prompt_tokens: int = 0
    reused_tokens: int = 0
    """Those of the prompt that were known."""
    compiling: float = 0.0
    """Seconds that its constraint took."""
    reading: float = 0.0
    """Seconds of the calls that computed its prompt, with what was compiled before them."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one model call took, and what came of it."""

    seconds: float
    first: tuple[str, ...]
    """Answers that have their first token by it."""
    finished: tuple[str, ...]


@dataclass
class Work:
    """First come, first served; a prompt takes what answers under way leave of a call."""

    costs: Costs
    waiting: deque[Job] = field(default_factory=deque)
    running: list[Job] = field(default_factory=list)
    prompt_tokens: int = 0
    reused_tokens: int = 0
    asked: int = 0
    compiled: int = 0
    _blocks: OrderedDict[str, None] = field(default_factory=OrderedDict)
    """Beginnings of prompts that are kept, in the order of last use."""
    _constraints: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def submit(self, job: Job) -> None:
        """Take a request."""
        self.waiting.append(job)

    def cancel(self, name: str) -> bool:
        """Drop a request; whether it was there."""
        before = len(self)
        self.waiting = deque(each for each in self.waiting if each.name != name)
        self.running = [each for each in self.running if each.name != name]
        return len(self) < before

    def __len__(self) -> int:
        """Requests that are there."""
        return len(self.waiting) + len(self.running)

    def step(self) -> Step:
        """Make one call, in no time: how long it takes is in what is returned."""
        seconds = self.costs.call
        while self.waiting and len(self.running) < self.costs.batch:
            seconds += self._begin(self.waiting.popleft())
        reading = [each for each in self.running if each.unread]
        writing = [each for each in self.running if not each.unread]
        room = max(0, self.costs.step_tokens - len(writing))
        first, computed = [], len(writing)
        for job in reading:
            if room:
                read = min(job.unread, room)
                job.unread -= read
                room -= read
                computed += read
                if not job.unread:
                    first.append(job.name)
                    writing.append(job)
        seconds += self.costs.token * computed
        for job in reading:
            job.reading += seconds
        for job in writing:
            job.tokens -= 1
        finished = tuple(each.name for each in self.running if not each.tokens)
        self.running = [each for each in self.running if each.tokens]
        return Step(seconds, tuple(first), finished)

    def _begin(self, job: Job) -> float:
        """Let a request run; the seconds that its constraint takes."""
        self.running.append(job)
        tokens = max(1, len(job.prompt) // _TOKEN_BYTES)
        # The last token of a prompt is computed even where all of it is known.
        known = min(self._known(job.prompt), tokens - 1)
        job.prompt_tokens, job.reused_tokens, job.unread = tokens, known, tokens - known
        self.prompt_tokens += tokens
        self.reused_tokens += known
        if not job.constraint:
            return 0.0
        self.asked += 1
        is_there = _use(self._constraints, job.constraint, self.costs.kept_constraints)
        self.compiled += not is_there
        job.compiling = 0.0 if is_there else self.costs.compiling
        return job.compiling

    def _known(self, prompt: str) -> int:
        """Tokens of the prompt that were computed before; it is kept for the next."""
        ends = range(_BLOCK_BYTES, len(prompt) + 1, _BLOCK_BYTES)
        room = self.costs.kept_tokens * _TOKEN_BYTES // _BLOCK_BYTES
        # The longest first, so that what many share is used last and dropped last.
        there = [_use(self._blocks, prompt[:end], room) for end in reversed(ends)]
        return sum(there) * _BLOCK_BYTES // _TOKEN_BYTES


def _use(kept: OrderedDict[str, None], key: str, most: int) -> bool:
    """Whether something is kept; from now on it is."""
    is_there = key in kept
    kept[key] = None
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
    return is_there
