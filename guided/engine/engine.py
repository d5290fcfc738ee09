"""The engine: many requests, one model call a step."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from guided.decoding.cost_curve import CostCurve
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.drafting import OpenDrafter, no_drafter
from guided.engine.admission import admit
from guided.engine.result import Finished
from guided.engine.room import cache_groups, has_room
from guided.engine.scheduler import plan_step
from guided.engine.work import Group, Running, StepWork, Waiting
from guided.errors import GuidedError, RequestError
from guided.kv.block_cache import BlockCache
from guided.model.batch import Segment, StepBatch
from guided.model.runner import ModelRunner
from guided.spec import Constraint, GenerationRequest, JsonSchema, Message, TokenId
from guided.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["Engine", "Render", "Start"]

Render: TypeAlias = Callable[[str | tuple[Message, ...], str | None], tuple[TokenId, ...]]
"""Turns a prompt, and the schema to show if any, into tokens."""

Start: TypeAlias = Callable[[Constraint], "Matcher"]
"""Compiles a constraint and returns the position before its first token."""

_log = logging.getLogger(__name__)


class Engine:
    """Takes requests, and makes their answers step by step; for use from one thread."""

    def __init__(
        self,
        *,
        model_name: str,
        runner: ModelRunner,
        vocabulary: Vocabulary,
        context_window: int,
        render: Render,
        start: Start,
        max_batch: int = 16,
        cache_tokens: int = 16384,
        step_tokens: int = 512,
        block_size: int = 8,
        reuse_prefixes: bool = True,
        open_drafter: OpenDrafter = no_drafter,
        widest_draft: int = 0,
        costs: CostCurve | None = None,
    ) -> None:
        """``widest_draft`` is how many tokens may be guessed for one sequence in one step.

        ``costs`` says which of them pay; without it, all do.
        """
        if not 1 <= max_batch <= step_tokens:
            raise RequestError(
                f"max_batch {max_batch!r} is not between 1 and step_tokens ({step_tokens})",
                field="max_batch",
            )
        if cache_tokens < 1:
            raise RequestError(
                f"cache_tokens {cache_tokens!r} leave no room for a request", field="cache_tokens"
            )
        self.model_name = model_name
        """The model's name, as a caller would give it."""
        self.context_window = context_window
        """Most tokens of prompt and answer together."""
        self._runner = runner
        self._vocabulary = vocabulary
        self._render = render
        self._start = start
        self._max_batch = max_batch
        self._step_tokens = step_tokens
        self._open_drafter = open_drafter
        self._widest_draft = widest_draft
        self._costs = costs
        self.num_preempted = 0
        """How often a request gave its memory up to others, and started over from its tokens."""
        groups = cache_groups(
            runner.windows,
            cache_tokens=cache_tokens,
            block_size=block_size,
            max_batch=max_batch,
            step_tokens=step_tokens,
            widest_draft=widest_draft,
        )
        self._cache = BlockCache(groups, block_size, reuse_prefixes=reuse_prefixes)
        runner.open_storages([pool.num_slots for pool in self._cache.pools])
        self._groups: dict[str, Group] = {}
        self._waiting: deque[Waiting] = deque()
        self._running: list[Running] = []
        self._ended: list[Finished] = []

    @property
    def vocabulary_size(self) -> int:
        """Tokens the model knows."""
        return len(self._vocabulary)

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._waiting or self._running or self._ended)

    def submit(self, request_id: str, request: GenerationRequest) -> None:
        """Take a request, or refuse it with the error that says why."""
        if request_id in self._groups:
            raise RequestError(f"request id {request_id!r} is in use", field="request_id")
        schema = request.constraint if request.show_schema else None
        shown = schema.text if isinstance(schema, JsonSchema) else None
        group = admit(
            request_id,
            request,
            self._render(request.prompt, shown),
            self._start(request.constraint),
            vocabulary=self._vocabulary,
            context_window=self.context_window,
            largest_request=self._cache.most_tokens(self._step_tokens) or self.context_window,
            max_batch=self._max_batch,
            block_size=self._cache.block_size,
        )
        if group.is_finished:
            self._emit(group)
        else:
            self._groups[request_id] = group
            self._waiting.append(group.first)

    def cancel(self, request_id: str) -> None:
        """Forget a request and free its memory; it gets no ``Finished``. Unknown ids are fine."""
        self._groups.pop(request_id, None)
        self._waiting = deque(s for s in self._waiting if s.request_id != request_id)
        self._ended = [ended for ended in self._ended if ended.request_id != request_id]
        for running in tuple(self._running):
            if running.request_id == request_id:
                self._leave(running)

    def step(self) -> list[Finished]:
        """Make one model call for all running requests, and return those that ended."""
        self._admit_waiting()
        plan = plan_step([running.pending for running in self._running], self._step_tokens)
        drafts = self._with_room(self._draft(plan.counts))
        segments = [self._reserve(draft) for draft in drafts]
        if segments:
            logits = self._forward(segments)
            for request_id in {draft.running.request_id for draft in drafts}:
                self._groups[request_id].model_calls += 1
            for draft, rows in zip(drafts, logits, strict=True):
                self._settle(draft, rows)
        ended, self._ended = self._ended, []
        return ended

    def check(self) -> None:
        """Raise unless the cache adds up and every running sequence has something to compute."""
        self._cache.check()
        assert self._running or not self._cache.num_open, "blocks are held for nobody"
        for running in self._running:
            running.check()

    def _admit_waiting(self) -> None:
        """Start the waiting in their order; nobody overtakes, or a large one would wait for ever.

        Whoever is alone always has room, as it would not have been admitted otherwise.
        """
        size, step_tokens = self._cache.block_size, self._step_tokens
        while self._waiting:
            waiting = self._waiting[0]
            places = waiting.num_places + sum(each.num_places for each in self._running)
            if places > self._max_batch:
                return
            blocks = self._cache.open(waiting.tokens)
            needs = [each.needs(size, step_tokens) for each in self._running]
            mine = waiting.needs(blocks, size, step_tokens)
            if needs and not has_room(self._cache, [*needs, mine]):
                blocks.release()
                return
            self._waiting.popleft()
            self._running.append(waiting.run(blocks, self._open_drafter))

    def _draft(self, counts: tuple[int, ...]) -> list[StepWork]:
        planned = tuple(zip(self._running, counts, strict=True))
        guessing = sum(count == running.pending for running, count in planned)
        drafts = []
        for running, count in planned:
            budget = DraftBudget(
                self._widest_draft, self._costs, certain=sum(counts), sequences=guessing
            )
            with self._isolated(running):
                drafts.append(running.draft(count, budget))
        return [draft for draft in drafts if draft.running in self._running]

    def _with_room(self, drafts: list[StepWork]) -> list[StepWork]:
        """The drafts that the cache has blocks for, all at once.

        Guesses are given up first, then who started last, which waits again.
        """
        if not self._fit(drafts):
            drafts = [draft.without_guesses() for draft in drafts]
        while not self._fit(drafts):
            self._preempt(drafts.pop().running)
        return drafts

    def _fit(self, drafts: list[StepWork]) -> bool:
        return has_room(self._cache, [draft.demand() for draft in drafts])

    def _preempt(self, running: Running) -> None:
        self._running.remove(running)
        self._waiting.appendleft(running.stop())
        self.num_preempted += 1

    def _reserve(self, draft: StepWork) -> list[Segment]:
        segments = []
        for segment in draft.reserve():
            self._runner.copy([rows.copies for rows in segment.rows])
            segments.append(segment)
        return segments

    def _forward(self, segments: list[list[Segment]]) -> list[list[NDArray[np.float32]]]:
        """The logits of each segment, ``[deciding, vocabulary]``, in the same lists."""
        every = [segment for some in segments for segment in some]
        logits = self._runner.forward(StepBatch(tuple(every)))  # [rows, vocabulary]
        split = iter(torch.split(logits, [len(segment.deciding) for segment in every]))
        return [[next(split).numpy() for _ in some] for some in segments]

    def _settle(self, draft: StepWork, logits: list[NDArray[np.float32]]) -> None:
        running = draft.running
        if running not in self._running:
            return  # another answer to its request failed in this step
        with self._isolated(running):
            settled = draft.settle(logits)
            if settled.copies is not None:
                self._runner.copy(settled.copies)
            behind = self._running.index(running) + 1
            self._running[behind:behind] = settled.forks
            for each in (running, *settled.forks):
                if each.is_finished:
                    self._leave(each)
            group = self._groups[running.request_id]
            if group.is_finished:
                self._emit(group)

    def _emit(self, group: Group) -> None:
        self._ended.append(Finished(group.request_id, group.result(self._vocabulary)))
        self._groups.pop(group.request_id, None)

    def _leave(self, running: Running) -> None:
        self._running.remove(running)
        running.stop()

    @contextmanager
    def _isolated(self, running: Running) -> Iterator[None]:
        """What goes wrong with one request ends that request and no other.

        A fault of our own is caught as well, and logged: the neighbours in the batch have no part
        in it, and the request hears that its engine failed.
        """
        request_id = running.request_id
        try:
            yield
        except GuidedError as error:
            self._fail(request_id, error)
        except Exception as fault:
            _log.exception("request %r failed inside the engine", request_id)
            failure = GuidedError(
                f"the engine failed on request {request_id!r}: {type(fault).__name__}: {fault}",
                hint="this is a fault of the engine; its log holds the details",
            )
            failure.__cause__ = fault
            self._fail(request_id, failure)

    def _fail(self, request_id: str, error: GuidedError) -> None:
        self.cancel(request_id)
        self._ended.append(Finished(request_id, error))
