"""The engine: many requests, one model call a step."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import torch

from guided.decoding.cost_curve import CostCurve
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.drafting import OpenDrafter, no_drafter
from guided.engine.admission import admit
from guided.engine.meter import Meter
from guided.engine.preparation import Preparation
from guided.engine.request_clock import RequestClock
from guided.engine.result import Delta, Finished
from guided.engine.room import cache_groups, demand, has_room
from guided.engine.running import Draft, RunningSequence
from guided.engine.scheduler import plan_step
from guided.engine.sequence import Sequence
from guided.engine.sliced import Sliced
from guided.engine.step_times import StepTimes
from guided.engine.urgency import Urgency
from guided.engine.waiting_line import WaitingLine
from guided.errors import DeadlineExceededError, GuidedError, RequestError
from guided.kv.block_cache import BlockCache
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import Segment, StepBatch
from guided.model.runner import ModelRunner
from guided.spec import Constraint, GenerationRequest, JsonSchema, Message, TokenId, Usage
from guided.stats import EngineStats, Phase
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``widest_draft`` is how many tokens may be guessed for one sequence in one step.

        ``costs`` says which of them pay; without it, all do. ``clock`` tells seconds and never goes
        back.
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
        self._clock = clock
        self._step_times = StepTimes()
        self._preparing: list[Preparation] = []
        self._waiting = WaitingLine()
        self._running: list[RunningSequence] = []
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
        return bool(self._preparing or self._waiting or self._running or self._ended)

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
        now = self._clock()
        urgency = Urgency.of(request, now if received is None else received)
        if urgency.is_late(now):
            raise _too_late()
        if request_id in self._request_ids():
            raise RequestError(f"request id {request_id!r} is in use", field="request_id")
        with self._meter.taking():
            schema = request.constraint if request.show_schema else None
            shown = schema.text if isinstance(schema, JsonSchema) else None
            clock = RequestClock()
            prompt = self._render(request.prompt, shown)
            matcher = Sliced(partial(self._start, request.constraint))
            asked = Preparation(request_id, request, prompt, urgency, stream, clock, matcher)
            is_ready = matcher.go_on()
            if is_ready:
                self._take(asked)
        if not is_ready:
            self._preparing.append(asked)

    def cancel(self, request_id: str) -> None:
        """Forget a request and free its memory; it gets no ``Finished``. Unknown ids are fine."""
        self._deltas = [delta for delta in self._deltas if delta.request_id != request_id]
        self._ended = [ended for ended in self._ended if ended.request_id != request_id]
        used = self._drop(request_id)
        if used is not None:
            self._meter.cancelled(used)

    def step(self) -> list[Finished]:
        """Make one model call for all running requests, and return those that ended."""
        phase, started = self._meter.phase, self._clock()
        with phase(Phase.TAKE):
            self._prepare()
        with phase(Phase.ADMIT):
            self._admit_waiting()
            self._end_late()
        with phase(Phase.DRAFT):
            plan = plan_step([running.pending for running in self._running], self._step_tokens)
            drafts = self._with_room(self._draft(plan.counts))
        with phase(Phase.RESERVE):
            segments = [self._reserve(draft) for draft in drafts]
        if segments:
            with phase(Phase.FORWARD):
                logits = self._forward(segments)
            with phase(Phase.SETTLE):
                self._settle(drafts, logits)
            self._step_times.note(sum(plan.counts), self._clock() - started)
        ended, self._ended = self._ended, []
        return ended

    def take_deltas(self) -> list[Delta]:
        """What steps added to the texts that are streamed, since this was last called."""
        deltas, self._deltas = self._deltas, []
        return deltas

    def stats(self) -> EngineStats:
        """What the engine has done so far, and what it holds now."""
        running = [running.sequence for running in self._running]
        return self._meter.stats(running, tuple(self._waiting), self._cache)

    def count_anew(self) -> None:
        """Forget what was counted so far, as behind a warm-up."""
        self._meter = Meter()

    def check(self) -> None:
        """Raise unless the cache adds up and every running sequence has something to compute."""
        self._cache.check()
        for running in self._running:
            assert running.pending > 0, f"{running.sequence.request_id!r} has nothing pending"
            assert running.blocks.reserved == 0, f"{running.sequence.request_id!r} holds rows"

    def _request_ids(self) -> set[str]:
        known = {asked.request_id for asked in self._preparing}
        return known | {sequence.request_id for sequence in self._sequences()}

    def _sequences(self) -> Iterator[Sequence]:
        yield from self._waiting
        for running in self._running:
            yield running.sequence

    def _prepare(self) -> None:
        """Do a slice of compiling, for who came first."""
        for asked in self._preparing[:1]:
            with self._isolated(asked.request_id):
                if asked.matcher.go_on():
                    self._preparing.remove(asked)
                    self._take(asked)

    def _take(self, asked: Preparation) -> None:
        sequence = admit(
            asked.request_id,
            asked.request,
            asked.prompt,
            asked.matcher.result(),
            urgency=asked.urgency,
            stream=asked.stream,
            clock=asked.clock,
            vocabulary=self._vocabulary,
            context_window=self.context_window,
            largest_request=self._cache.most_tokens(self._step_tokens) or self.context_window,
        )
        if sequence.finish_reason is None:
            self._waiting.join(sequence)
        else:
            self._emit(sequence)

    def _admit_waiting(self) -> None:
        """Start the waiting in turn; nobody overtakes, or a large one would wait for ever.

        A sequence alone always has room, as it would not have been admitted otherwise.
        """
        while self._waiting and len(self._running) < self._max_batch:
            sequence = self._waiting.first
            blocks = self._cache.open(sequence.tokens)
            demands = [self._demand(each.sequence, each.blocks) for each in self._running]
            if demands and not has_room(self._cache, [*demands, self._demand(sequence, blocks)]):
                blocks.release()
                return
            self._waiting.leave(sequence.request_id)
            sequence.admitted(blocks.committed)
            # Who starts over keeps what its drafter has learnt.
            sequence.drafter = sequence.drafter or self._open_drafter(sequence.forcing)
            self._running.append(RunningSequence(sequence, blocks, sequence.drafter))

    def _demand(self, sequence: Sequence, blocks: SequenceBlocks) -> tuple[int, ...]:
        # A block more than is pending, so that nobody has to give way at once.
        count = len(sequence.tokens) - blocks.committed + self._cache.block_size
        return demand(blocks, count, self._step_tokens)

    def _draft(self, counts: tuple[int, ...]) -> list[Draft]:
        planned = tuple(zip(self._running, counts, strict=True))
        guessing = sum(count == running.pending for running, count in planned)
        drafts = []
        for running, count in planned:
            budget = DraftBudget(
                self._widest_draft, self._costs, certain=sum(counts), sequences=guessing
            )
            with self._isolated(running.sequence.request_id):
                drafts.append(running.draft(count, budget))
        return drafts

    def _with_room(self, drafts: list[Draft]) -> list[Draft]:
        """The drafts that the cache has blocks for, all at once.

        Guesses are given up first, then the sequences whose turn is last, which wait again.
        """
        if not self._fit(drafts):
            drafts = [draft.without_guesses() for draft in drafts]
        while not self._fit(drafts):
            last = max(drafts, key=lambda draft: draft.running.sequence.urgency.turn)
            drafts.remove(last)
            self._preempt(last.running)
        return drafts

    def _fit(self, drafts: list[Draft]) -> bool:
        return has_room(
            self._cache,
            [demand(each.running.blocks, len(each.tree), len(each.tree)) for each in drafts],
        )

    def _preempt(self, running: RunningSequence) -> None:
        self._leave(running)
        self._waiting.join(running.sequence)
        self._meter.preempted += 1

    def _reserve(self, draft: Draft) -> Segment:
        segment = draft.reserve()
        self._runner.copy([rows.copies for rows in segment.rows])
        self._meter.reserved(draft.running.blocks.tables, segment.rows)
        return segment

    def _forward(self, segments: list[Segment]) -> tuple[torch.Tensor, ...]:
        self._meter.model_calls += 1
        logits = self._runner.forward(StepBatch(tuple(segments)))  # [rows, vocabulary]
        return torch.split(logits, [len(segment.deciding) for segment in segments])

    def _settle(self, drafts: list[Draft], logits: tuple[torch.Tensor, ...]) -> None:
        for draft, rows in zip(drafts, logits, strict=True):
            with self._isolated(draft.running.sequence.request_id):
                self._runner.copy(draft.settle(rows.numpy()))
                self._emit_what_is_certain(draft.running)

    def _end_late(self) -> None:
        """End what would be late after one more step: closed if it has begun, else refused."""
        tokens = min(self._step_tokens, sum(running.pending for running in self._running))
        soon = self._clock() + self._step_times.expected(tokens)
        for asked in [one for one in self._preparing if one.urgency.is_late(soon)]:
            self._fail(asked.request_id, _too_late())
        for sequence in [one for one in self._sequences() if one.urgency.is_late(soon)]:
            with self._isolated(sequence.request_id):
                if not sequence.has_begun:
                    raise _too_late()
                self._drop(sequence.request_id)
                sequence.close_for_deadline()
                self._emit(sequence)

    def _emit_what_is_certain(self, running: RunningSequence) -> None:
        if running.sequence.finish_reason is None:
            self._stream(running.sequence)
        else:
            self._emit(running.sequence)
            self._leave(running)

    def _stream(self, sequence: Sequence) -> None:
        if text := sequence.new_text():
            self._deltas.append(Delta(sequence.request_id, text))

    def _emit(self, sequence: Sequence) -> None:
        self._stream(sequence)
        result = sequence.result(self._vocabulary)
        self._meter.answered(sequence, result)
        self._ended.append(Finished(sequence.request_id, result))

    def _drop(self, request_id: str) -> Usage | None:
        """Let a request be prepared, wait or run no more; returns what it used, if it is known."""
        used = None
        for asked in self._preparing:
            if asked.request_id == request_id:
                asked.matcher.give_up()
                used = Usage()
        for sequence in tuple(self._sequences()):
            if sequence.request_id == request_id:
                used = sequence.usage()
        self._preparing = [one for one in self._preparing if one.request_id != request_id]
        self._waiting.leave(request_id)
        for running in tuple(self._running):
            if running.sequence.request_id == request_id:
                self._leave(running)
        return used

    def _leave(self, running: RunningSequence) -> None:
        self._running.remove(running)
        running.blocks.release()

    @contextmanager
    def _isolated(self, request_id: str) -> Iterator[None]:
        """What goes wrong with one request ends that request and no other.

        A fault of our own is caught as well, and logged: the neighbours in the batch have no part
        in it, and the request hears that its engine failed.
        """
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
        self._meter.failed(self._drop(request_id) or Usage())
        self._ended.append(Finished(request_id, error))


def _too_late() -> DeadlineExceededError:
    return DeadlineExceededError(
        "the deadline came before the model had chosen anything of the answer",
        hint="allow more time, or send less at once",
    )
