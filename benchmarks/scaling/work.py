"""Models an engine's work without computing: what each step does, and how long it takes."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

import msgspec

__all__ = ["Costs", "Job", "Step", "Work"]

_TOKEN_BYTES = 4
"""Bytes per token of a prompt, close enough for English."""

_BLOCK_BYTES = 256
"""Prompts are kept in blocks of this size."""


class Costs(msgspec.Struct, frozen=True):
    """The times of an engine's work, and the room in its caches."""

    call: float
    """Seconds of a model call, whatever it computes."""
    token: float = 0.0
    """Additional seconds for each token in it."""
    compiling: float = 0.0
    """Seconds to compile a constraint that is not kept."""
    batch: int = 16
    """Most answers in a call."""
    step_tokens: int = 512
    """Most tokens in a call."""
    kept_tokens: int = 16384
    """Tokens of prompts that are kept for later ones with the same beginning."""
    kept_constraints: int = 256
    """Most compiled constraints that are kept."""


@dataclass(slots=True)
class Job:
    """One answer in progress."""

    name: str
    prompt: str
    constraint: str
    tokens: int
    """Tokens of the answer that remain, one for each call after the prompt's."""
    unread: int = 0
    """Tokens of the prompt that remain to be computed."""
    prompt_tokens: int = 0
    reused_tokens: int = 0
    """Tokens of the prompt that were kept."""
    compiling: float = 0.0
    """Seconds that its constraint took."""
    reading: float = 0.0
    """Seconds of the calls that computed its prompt, including what was compiled before them."""


@dataclass(frozen=True, slots=True)
class Step:
    """The time of one model call, and what came of it."""

    seconds: float
    first: tuple[str, ...]
    """Answers whose first token it gave."""
    finished: tuple[str, ...]


@dataclass
class Work:
    """First come, first served; a prompt takes the part of a call that running answers leave."""

    costs: Costs
    waiting: deque[Job] = field(default_factory=deque)
    running: list[Job] = field(default_factory=list)
    prompt_tokens: int = 0
    reused_tokens: int = 0
    asked: int = 0
    compiled: int = 0
    _blocks: OrderedDict[str, None] = field(default_factory=OrderedDict)
    """Beginnings of prompts that are kept, in order of last use."""
    _constraints: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def submit(self, job: Job) -> None:
        """Take a request."""
        self.waiting.append(job)

    def cancel(self, name: str) -> bool:
        """Drop a request; returns whether it was known."""
        before = len(self)
        self.waiting = deque(each for each in self.waiting if each.name != name)
        self.running = [each for each in self.running if each.name != name]
        return len(self) < before

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self.waiting) + len(self.running)

    def step(self) -> Step:
        """Make one call, without waiting: the result says how long it takes."""
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
        """Let a request run; returns the seconds that its constraint takes."""
        self.running.append(job)
        tokens = max(1, len(job.prompt) // _TOKEN_BYTES)
        # The last token of a prompt is computed even if all of it is known.
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
        """Return the tokens of the prompt that were computed before, and keep it for the next."""
        ends = range(_BLOCK_BYTES, len(prompt) + 1, _BLOCK_BYTES)
        room = self.costs.kept_tokens * _TOKEN_BYTES // _BLOCK_BYTES
        # The longest first, so that what many share is used last and dropped last.
        there = [_use(self._blocks, prompt[:end], room) for end in reversed(ends)]
        return sum(there) * _BLOCK_BYTES // _TOKEN_BYTES


def _use(kept: OrderedDict[str, None], key: str, most: int) -> bool:
    """Return whether a key is kept, and keep it from now on."""
    is_there = key in kept
    kept[key] = None
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
    return is_there
