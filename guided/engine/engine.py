"""The engine: many requests, one model call a step."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Items
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from guided.decoding.cost_curve import CostCurve
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.drafting import OpenDrafter, no_drafter
from guided.engine.admission import admit
from guided.engine.isolation import Isolation, is_of_request, told
from guided.engine.meter import Meter
from guided.engine.preparation import Preparation
from guided.engine.preparing_line import PreparingLine
from guided.engine.request_clock import RequestClock
from guided.engine.result import Delta, Finished
from guided.engine.room import cache_groups, has_room
from guided.engine.scheduler import plan_step
from guided.engine.scoring import Judge
from guided.engine.step_times import ClosingTimes, StepTimes
from guided.engine.urgency import Urgency
from guided.engine.waiting_line import WaitingLine
from guided.engine.work import Group, Running, StepWork, Waiting
from guided.errors import GuidedError, RequestError
from guided.kv.block_cache import BlockCache
from guided.kv.reservation import SlotCopies
from guided.kv.sequence_blocks import SequenceBlocks
from guided.masks.vocabulary import Vocabulary
from guided.model.batch import Segment, SegmentOutput, StepBatch
from guided.model.runner import ModelRunner
from guided.spec import Constraint, GenerationRequest, JsonSchema, Message, TokenId, Usage
from guided.stats import EngineStats, Phase

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["Engine", "Render", "Start"]

Render: TypeAlias = Callable[[str | tuple[Message, ...], str | None], tuple[TokenId, ...]]
"""Turns a prompt, and the schema to show if any, into tokens."""

Start: TypeAlias = Callable[[Constraint], "Matcher"]
"""Compiles a constraint and returns the position before its first token."""


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
        judge: Judge | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``widest_draft`` is how many tokens may be guessed for one sequence in one step.

        ``costs`` says which of them pay; without it, all do. ``judge`` scores answers where a
        request asks for that. ``clock`` tells seconds and never goes back.
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
        self.context_window = runner.context_window(context_window)
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
        self._judge = judge
        self._meter = Meter()
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
        self._now = clock
        self._step_times = StepTimes()
        self._closing_times = ClosingTimes()
        self._preparing = PreparingLine()
        self._groups: dict[str, Group] = {}
        self._waiting = WaitingLine()
        self._running: list[Running] = []
        self._deltas: list[Delta] = []
        self._ended: list[Finished] = []

    @property
    def num_preempted(self) -> int:
        """How often a request gave its room up to others, and started over from its tokens."""
        return self._meter.preempted

    @property
    def vocabulary_size(self) -> int:
        """Tokens the model knows."""
        return len(self._vocabulary)

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(len(self._preparing) or self._groups or self._ended)

    def submit(
        self,
        request_id: str,
        request: GenerationRequest,
        *,
        received: float | None = None,
        stream: bool = False,
    ) -> None:
        """Take a request, or refuse it with the error that says why.

        A constraint that takes long to compile is compiled between steps, and its errors are in
        the request's ``Finished``.

        Its deadline and its turn count from the moment it was ``received``; ``None`` is now.
        ``stream`` asks for its text as it grows, from ``take_deltas``.
        """
        with self._meter.phase(Phase.TAKE):
            try:
                self._submit(request_id, request, received, stream=stream)
            except BaseException as fault:
                self._meter.refused()
                if isinstance(fault, GuidedError) or not is_of_request(fault):
                    raise
                raise told(request_id, fault) from fault

    def cancel(self, request_id: str) -> None:
        """Forget a request and free its memory; it gets no ``Finished``. Unknown ids are fine."""
        self._deltas = [delta for delta in self._deltas if delta.request_id != request_id]
        self._ended = [ended for ended in self._ended if ended.request_id != request_id]
        used = self._drop(request_id)
        if used is not None:
            self._meter.cancelled(used)

    def step(self) -> list[Finished]:
        """Make one model call for all running requests, and return those that ended."""
        phase, began = self._meter.phase, self._now()
        with phase(Phase.TAKE):
            self._prepare()
        with phase(Phase.ADMIT):
            self._admit_waiting()
            self._end_late()
        with phase(Phase.DRAFT):
            plan = plan_step([running.pending for running in self._running], self._step_tokens)
            drafts = self._with_room(self._draft(plan.counts))
        with phase(Phase.RESERVE):
            drafts, segments = self._reserve(drafts)
        if segments:
            with phase(Phase.FORWARD):
                outputs = self._forward(segments)
            with phase(Phase.SETTLE):
                self._settle(drafts, outputs)
            self._step_times.note(sum(plan.counts), self._now() - began)
            self._closing_times.fade()
        ended, self._ended = self._ended, []
        return ended

    def take_deltas(self) -> list[Delta]:
        """What steps added to the texts that are streamed, since this was last called."""
        deltas, self._deltas = self._deltas, []
        return deltas

    def stats(self) -> EngineStats:
        """What the engine has done so far, and what it holds now."""
        running = {running.request_id for running in self._running}
        return self._meter.stats(
            [group.usage() for group in self._groups.values()],
            running=len(running),
            waiting=len(self._preparing) + len(self._groups) - len(running),
            cache=self._cache,
        )

    def count_anew(self) -> None:
        """Forget what was counted so far, as behind a warm-up."""
        self._meter = Meter()

    def check(self) -> None:
        """Raise unless the cache adds up and every running answer has something to compute."""
        self._cache.check()
        assert self._running or not self._cache.num_open, "blocks are held for nobody"
        for running in self._running:
            running.check()

    # --- on the way in --------------------------------------------------------------------

    def _submit(
        self, request_id: str, request: GenerationRequest, received: float | None, *, stream: bool
    ) -> None:
        now = self._now()
        urgency = Urgency.of(request, now if received is None else received)
        urgency.check(now)
        if (
            request_id in self._groups
            or request_id in self._preparing
            or any(ended.request_id == request_id for ended in self._ended)
        ):
            raise RequestError(f"request id {request_id!r} is in use", field="request_id")
        if stream and request.has_candidates:
            raise RequestError(
                "several answers cannot be streamed", field="n", hint="ask for one, or for all"
            )
        asked = self._asked(request_id, request, urgency, stream=stream)
        if asked.matcher.go_on():
            self._take(asked)
        else:
            self._preparing.join(asked)

    def _asked(
        self, request_id: str, request: GenerationRequest, urgency: Urgency, *, stream: bool
    ) -> Preparation:
        clock = RequestClock()
        schema = request.constraint if request.show_schema else None
        shown = schema.text if isinstance(schema, JsonSchema) else None
        prompt = self._render(request.prompt, shown)
        matcher = self._preparing.compiling(
            request.constraint, partial(self._start, request.constraint)
        )
        return Preparation(request_id, request, prompt, urgency, stream, clock, matcher)

    def _prepare(self) -> None:
        """Do a slice of compiling, and take the requests that waited for it alone."""
        for asked in self._preparing.go_on():
            with self._isolated(asked.request_id):
                self._take(asked)

    def _take(self, asked: Preparation) -> None:
        group = admit(
            asked,
            asked.matcher.result(),
            vocabulary=self._vocabulary,
            context_window=self.context_window,
            largest_request=self._cache.most_tokens(self._step_tokens) or self.context_window,
            max_batch=self._max_batch,
            block_size=self._cache.block_size,
            judge=self._judge,
        )
        group.clock.queue()
        if group.is_finished:
            self._emit(group)
        else:
            self._groups[group.request_id] = group
            self._waiting.join(group.first, group.urgency.turn)

    def _admit_waiting(self) -> None:
        """Start the waiting in turn; nobody overtakes, or a large one would wait for ever.

        Whoever is alone always has room, as it would not have been admitted otherwise.
        """
        size, step_tokens = self._cache.block_size, self._step_tokens
        while self._waiting:
            waiting = self._waiting.first
            places = waiting.num_places + sum(each.num_places for each in self._running)
            if places > self._max_batch:
                return
            salt = self._groups[waiting.request_id].cache_salt
            blocks = self._cache.open(waiting.tokens, salt=salt)
            needs = [each.needs(size, step_tokens) for each in self._running]
            mine = waiting.needs(blocks, size, step_tokens)
            if needs and not has_room(self._cache, [*needs, mine]):
                blocks.release()
                return
            self._waiting.leave_first()
            self._groups[waiting.request_id].clock.start()
            with self._isolated(waiting.request_id):
                self._running.append(self._run(waiting, blocks))

    def _run(self, waiting: Waiting, blocks: SequenceBlocks) -> Running:
        try:
            return waiting.run(blocks, self._open_drafter)
        except BaseException:
            blocks.release()
            raise

    # --- one step -------------------------------------------------------------------------

    def _draft(self, counts: tuple[int, ...]) -> list[StepWork]:
        planned = tuple(zip(self._running, counts, strict=True))
        guessing = sum(count == running.pending for running, count in planned)
        drafts = []
        for running, count in planned:
            if running not in self._running:  # another answer to its request failed
                continue
            budget = DraftBudget(
                self._widest_draft, self._costs, certain=sum(counts), sequences=guessing
            )
            with self._isolated(running.request_id):
                drafts.append(running.draft(count, budget))
        return [draft for draft in drafts if draft.running in self._running]

    def _with_room(self, drafts: list[StepWork]) -> list[StepWork]:
        """The drafts that the cache has blocks for, all at once.

        Guesses are given up first, then whose turn is last, which waits again.
        """
        if not self._fit(drafts):
            drafts = [draft.without_guesses() for draft in drafts]
        while not self._fit(drafts):
            last = max(reversed(drafts), key=lambda draft: self._turn(draft.running))
            drafts.remove(last)
            self._preempt(last.running)
        return drafts

    def _fit(self, drafts: list[StepWork]) -> bool:
        return has_room(self._cache, [draft.demand() for draft in drafts])

    def _preempt(self, running: Running) -> None:
        self._running.remove(running)
        self._waiting.join(running.stop(), self._turn(running))
        self._meter.preempted += 1

    def _turn(self, running: Running) -> float:
        return self._groups[running.request_id].urgency.turn

    def _reserve(self, drafts: list[StepWork]) -> tuple[list[StepWork], list[list[Segment]]]:
        """What is computed, and for whom; a request that fails here gives its rows back."""
        reserved = []
        for draft in drafts:
            if draft.running in self._running:  # unless another answer to its request failed
                with self._isolated(draft.running.request_id):
                    reserved.append((draft, self._segments(draft)))
        kept = [pair for pair in reserved if pair[0].running in self._running]
        return [draft for draft, _ in kept], [segments for _, segments in kept]

    def _segments(self, draft: StepWork) -> list[Segment]:
        segments = []
        for segment in draft.reserve():
            self._copy([rows.copies for rows in segment.rows])
            self._meter.reserved(segment.rows)
            segments.append(segment)
        self._meter.held(draft.running.tables)
        return segments

    def _copy(self, copies: Items[SlotCopies]) -> None:
        if any(len(of_group) for of_group in copies):
            self._runner.copy(copies)

    def _forward(self, segments: list[list[Segment]]) -> list[list[SegmentOutput]]:
        """What the model says to each segment, in the same lists."""
        self._meter.model_calls += 1
        every = [segment for some in segments for segment in some]
        split = iter(self._runner.forward(StepBatch(tuple(every))).split(every))
        return [[next(split) for _ in some] for some in segments]

    def _settle(self, drafts: list[StepWork], outputs: list[list[SegmentOutput]]) -> None:
        """Go on with every answer, and hand out what became certain of each request."""
        groups = {d.running.request_id: self._groups[d.running.request_id] for d in drafts}
        chosen = {request_id: group.num_chosen for request_id, group in groups.items()}
        for group in groups.values():
            group.model_calls += 1
        for draft, output in zip(drafts, outputs, strict=True):
            if draft.running in self._running:  # unless another answer to its request failed
                with self._isolated(draft.running.request_id):
                    self._go_on(draft, output)
        for request_id, group in groups.items():
            with self._isolated(request_id):
                if group.num_chosen > chosen[request_id]:
                    group.clock.tokens_came()
                if request_id in self._groups:
                    self._hand_out(group)

    def _go_on(self, draft: StepWork, outputs: list[SegmentOutput]) -> None:
        running, settled = draft.running, draft.settle(outputs)
        self._copy(settled.copies)
        behind = self._running.index(running) + 1
        self._running[behind:behind] = settled.forks
        for each in (running, *settled.forks):
            if each.is_finished:
                self._leave(each)

    # --- on the way out -------------------------------------------------------------------

    def _end_late(self) -> None:
        """End what would be late after one more step: closed if it has begun, else refused."""
        tokens = min(self._step_tokens, sum(running.pending for running in self._running))
        now = self._now()
        soon = now + self._step_times.expected(tokens) + self._closing_times.expected
        preparing = [asked for asked in self._preparing if asked.urgency.is_late(soon)]
        groups = [group for group in self._groups.values() if group.urgency.is_late(soon)]
        for asked in preparing:
            with self._isolated(asked.request_id):
                asked.urgency.check(soon)
        for group in groups:
            with self._isolated(group.request_id):
                if not group.num_chosen:
                    group.urgency.check(soon)
                self._stop(group.request_id)
                group.close_for_deadline()
                self._emit(group)
        ended = [asked.urgency for asked in preparing] + [group.urgency for group in groups]
        if ended:
            self._closing_times.note(self._now() - now)
        if not all(urgency.is_late(now) for urgency in ended):
            self._step_times.doubt(tokens)

    def _hand_out(self, group: Group) -> None:
        if group.is_finished:
            self._emit(group)
        else:
            self._stream(group)

    def _stream(self, group: Group) -> None:
        if text := group.new_text():
            self._deltas.append(Delta(group.request_id, text))

    def _emit(self, group: Group) -> None:
        group.clock.end()
        try:
            result = group.result(self._vocabulary)
        finally:
            self._stream(group)  # an error comes behind the text, too
        self._groups.pop(group.request_id, None)
        self._meter.answered(group.clock, result)
        self._ended.append(Finished(group.request_id, result))

    def _drop(self, request_id: str) -> Usage | None:
        """Let a request be prepared, wait or run no more; what it used, if it is known."""
        self._stop(request_id)
        if group := self._groups.pop(request_id, None):
            return group.usage()
        return Usage() if self._preparing.leave(request_id) else None

    def _stop(self, request_id: str) -> None:
        """Let nothing of a request wait or run any more."""
        self._waiting.leave(request_id)
        for running in tuple(self._running):
            if running.request_id == request_id:
                self._leave(running)

    def _leave(self, running: Running) -> None:
        self._running.remove(running)
        running.stop()

    def _isolated(self, request_id: str) -> Isolation:
        return Isolation(request_id, self._fail)

    def _fail(self, request_id: str, error: GuidedError) -> None:
        used = self._drop(request_id)
        if used is None:
            self._meter.refused()
        else:
            self._meter.failed(used)
        self._ended.append(Finished(request_id, error))
