"""The scheduler: which requests run and which wait, and how they share the tokens of a step.

It counts blocks and touches no tensor. See docs/scheduling.md.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from operator import itemgetter

from guided.engine.cache_size import StepLimits
from guided.engine.runnable import Runnable, Step
from guided.kv.block_cache import BlockCache
from guided.kv.sequence_blocks import SequenceBlocks

__all__ = ["Scheduler", "share_tokens"]


class Scheduler:
    """Starts runnables in the order of queue keys, and makes them wait again if room is short.

    Waiting and giving way have the same order. So later arrivals never push back the first in it.
    """

    def __init__(self, cache: BlockCache, limits: StepLimits) -> None:
        self.running: list[Runnable] = []
        self._cache = cache
        self._max_batch = limits.max_batch
        self._step_tokens = limits.step_tokens
        # Sorted by queue key; of equal keys the one that joined first comes first.
        self._waiting: list[tuple[float, Runnable]] = []

    @property
    def next_tokens(self) -> int:
        """The number of certain tokens that the next step computes."""
        return min(self._step_tokens, sum([each.pending for each in self._ready()]))

    def enqueue(self, runnable: Runnable) -> None:
        """Add a runnable to the queue."""
        entry = (runnable.submission.order.queue_key, runnable)
        bisect.insort(self._waiting, entry, key=itemgetter(0))

    def take_next(self) -> tuple[Runnable, SequenceBlocks] | None:
        """Take the first that waits, with the blocks to start with; ``None`` if there is no room.

        Nothing overtakes it, or a large request would wait for ever. A runnable alone always has
        room, because otherwise it would not have been admitted.
        """
        if not self._waiting:
            return None
        first = self._waiting[0][1]
        # Places are for the most that may run: beams part later, and must not find the batch full.
        if first.batch_slots + sum([each.batch_slots for each in self.running]) > self._max_batch:
            return None
        salt = first.submission.salt
        # Opened before room is known: what the cache has of the prefix need not be computed.
        blocks = self._cache.open(first.reusable_prefix, salt=salt)
        size, step_tokens = self._cache.block_size, self._step_tokens
        # Room for the running ones as well, or this start would soon make something give way.
        needs = [each.needs(size, step_tokens) for each in self.running]
        if needs and not self._has_room([*needs, first.needs(size, step_tokens, blocks)]):
            blocks.release()
            return None
        # Only now: until it has its blocks it keeps its turn.
        del self._waiting[0]
        return first, blocks

    def start(self, runnable: Runnable, blocks: SequenceBlocks) -> None:
        """Run a runnable with the blocks opened for it."""
        try:
            runnable.start(blocks)
        except BaseException:
            # It may have failed before or after it took over the blocks.
            runnable.blocks = []
            blocks.release()
            raise
        self.running.append(runnable)

    def plan(self) -> list[tuple[Runnable, int]]:
        """Return how many pending tokens each running one computes in the next step."""
        ready = self._ready()
        counts = share_tokens([each.pending for each in ready], self._step_tokens)
        return list(zip(ready, counts, strict=True))

    def make_room(self, steps: list[Step]) -> list[Step]:
        """Return the steps that the cache has blocks for, all at once.

        Drafts are given up first, then the last runnables in the order, which wait again.
        """
        # All drafts and not some: finding out which would fit takes longer than they save.
        if not self._fits(steps):
            for step in steps:
                step.drop_draft()
        while not self._fits(steps):
            # The last to be served. Of equal keys, as answers to one request have, the last in the
            # batch, so that the first answer of a request is finished first.
            last = max(reversed(steps), key=_queue_key)
            steps.remove(last)
            self.stop(last.runnable)
            self.enqueue(last.runnable)
        return steps

    def fork(self, parent: Runnable, forks: Sequence[Runnable]) -> None:
        """Add forked runnables right after their parent."""
        # Few steps have forks, and finding the parent takes a search.
        if not forks:
            return
        # Answers to one request stay together, in the order of their seeds.
        index = self.running.index(parent) + 1
        self.running[index:index] = forks

    def stop(self, runnable: Runnable) -> None:
        """Stop a runnable and free its blocks."""
        self.running.remove(runnable)
        runnable.stop()

    def drop(self, request_id: str) -> None:
        """Remove everything of a request that waits or runs."""
        self._waiting = [entry for entry in self._waiting if entry[1].request_id != request_id]
        # A copy, because stopping removes from the list.
        for runnable in tuple(self.running):
            if runnable.request_id == request_id:
                self.stop(runnable)

    def check(self) -> None:
        """Raise unless the cache adds up and everything that runs has something to compute."""
        self._cache.check()
        assert self.running or not self._cache.num_open, "blocks are held for nobody"
        for runnable in self.running:
            runnable.check()

    def _ready(self) -> list[Runnable]:
        """The running ones that do not pause."""
        return [each for each in self.running if not each.is_paused]

    def _fits(self, steps: Sequence[Step]) -> bool:
        return self._has_room([step.demand() for step in steps])

    def _has_room(self, demands: Sequence[tuple[int, ...]]) -> bool:
        """Whether all of these demands could be met at once."""
        # Blocks kept for prefixes count as available: they are given up when needed.
        for group, pool in enumerate(self._cache.pools):
            if sum([demand[group] for demand in demands]) > pool.num_available:
                return False
        return True


def _queue_key(step: Step) -> float:
    return step.runnable.submission.order.queue_key


def share_tokens(pending: Sequence[int], step_tokens: int) -> list[int]:
    """Share the tokens of a step among runnables with these numbers of pending tokens.

    Each gets one, so each moves. The rest goes to the shortest first, so that an answer under way
    does not wait for a long prompt: pending 1, 700, 3 with 512 tokens → 1, 508, 3.
    """
    assert len(pending) <= step_tokens, f"{len(pending)} sequences, {step_tokens} tokens a step"
    if sum(pending) <= step_tokens:
        return [*pending]
    # ``StepLimits`` refuses a batch that is larger than a step, so there is one for each.
    counts = [1] * len(pending)
    left = step_tokens - len(pending)
    for index in sorted(range(len(pending)), key=lambda i: pending[i]):
        more = min(pending[index] - 1, left)
        counts[index] += more
        left -= more
    return counts
