"""The engine: many requests, one model call a step."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import torch

from guided.decoding.cost_curve import CostCurve
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.drafting import OpenDrafter, no_drafter
from guided.engine.admission import admit
from guided.engine.result import Finished
from guided.engine.room import cache_groups, demand, has_room
from guided.engine.running import Draft, RunningSequence
from guided.engine.scheduler import plan_step
from guided.engine.sequence import Sequence
from guided.errors import GuidedError, RequestError
from guided.kv.block_cache import BlockCache
from guided.kv.sequence_blocks import SequenceBlocks
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
        self._waiting: deque[Sequence] = deque()
        self._running: list[RunningSequence] = []
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
        if any(sequence.request_id == request_id for sequence in self._sequences()):
            raise RequestError(f"request id {request_id!r} is in use", field="request_id")
        schema = request.constraint if request.show_schema else None
        shown = schema.text if isinstance(schema, JsonSchema) else None
        sequence = admit(
            request_id,
            request,
            self._render(request.prompt, shown),
            self._start(request.constraint),
            vocabulary=self._vocabulary,
            context_window=self.context_window,
            largest_request=self._cache.most_tokens(self._step_tokens) or self.context_window,
        )
        if sequence.finish_reason is None:
            self._waiting.append(sequence)
        else:
            self._emit(sequence)

    def cancel(self, request_id: str) -> None:
        """Forget a request and free its memory; it gets no ``Finished``. Unknown ids are fine."""
        self._waiting = deque(s for s in self._waiting if s.request_id != request_id)
        self._ended = [ended for ended in self._ended if ended.request_id != request_id]
        for running in tuple(self._running):
            if running.sequence.request_id == request_id:
                self._leave(running)

    def step(self) -> list[Finished]:
        """Make one model call for all running requests, and return those that ended."""
        self._admit_waiting()
        plan = plan_step([running.pending for running in self._running], self._step_tokens)
        drafts = self._with_room(self._draft(plan.counts))
        segments = [self._reserve(draft) for draft in drafts]
        if segments:
            logits = self._forward(segments)
            for draft, rows in zip(drafts, logits, strict=True):
                with self._isolated(draft.running):
                    self._runner.copy(draft.settle(rows.numpy()))
                    self._emit_if_finished(draft.running)
        ended, self._ended = self._ended, []
        return ended

    def check(self) -> None:
        """Raise unless the cache adds up and every running sequence has something to compute."""
        self._cache.check()
        for running in self._running:
            assert running.pending > 0, f"{running.sequence.request_id!r} has nothing pending"
            assert running.blocks.reserved == 0, f"{running.sequence.request_id!r} holds rows"

    def _sequences(self) -> Iterator[Sequence]:
        yield from self._waiting
        for running in self._running:
            yield running.sequence

    def _admit_waiting(self) -> None:
        """Start the waiting in their order; nobody overtakes, or a large one would wait for ever.

        A sequence alone always has room, as it would not have been admitted otherwise.
        """
        while self._waiting and len(self._running) < self._max_batch:
            sequence = self._waiting[0]
            blocks = self._cache.open(sequence.tokens)
            demands = [self._demand(each.sequence, each.blocks) for each in self._running]
            if demands and not has_room(self._cache, [*demands, self._demand(sequence, blocks)]):
                blocks.release()
                return
            self._waiting.popleft()
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
            with self._isolated(running):
                drafts.append(running.draft(count, budget))
        return drafts

    def _with_room(self, drafts: list[Draft]) -> list[Draft]:
        """The drafts that the cache has blocks for, all at once.

        Guesses are given up first, then the sequences that started last, which wait again.
        """
        if not self._fit(drafts):
            drafts = [draft.without_guesses() for draft in drafts]
        while not self._fit(drafts):
            self._preempt(drafts.pop().running)
        return drafts

    def _fit(self, drafts: list[Draft]) -> bool:
        return has_room(
            self._cache,
            [demand(each.running.blocks, len(each.tree), len(each.tree)) for each in drafts],
        )

    def _preempt(self, running: RunningSequence) -> None:
        self._leave(running)
        self._waiting.appendleft(running.sequence)
        self.num_preempted += 1

    def _reserve(self, draft: Draft) -> Segment:
        segment = draft.reserve()
        self._runner.copy([rows.copies for rows in segment.rows])
        return segment

    def _forward(self, segments: list[Segment]) -> tuple[torch.Tensor, ...]:
        logits = self._runner.forward(StepBatch(tuple(segments)))  # [rows, vocabulary]
        return torch.split(logits, [len(segment.deciding) for segment in segments])

    def _emit_if_finished(self, running: RunningSequence) -> None:
        if running.sequence.finish_reason is not None:
            self._emit(running.sequence)
            self._leave(running)

    def _emit(self, sequence: Sequence) -> None:
        self._ended.append(Finished(sequence.request_id, sequence.result(self._vocabulary)))

    def _leave(self, running: RunningSequence) -> None:
        self._running.remove(running)
        running.blocks.release()

    @contextmanager
    def _isolated(self, running: RunningSequence) -> Iterator[None]:
        """What goes wrong with one request ends that request and no other.

        A fault of our own is caught as well, and logged: the neighbours in the batch have no part
        in it, and the request hears that its engine failed.
        """
        request_id = running.sequence.request_id
        try:
            yield
        except GuidedError as error:
            self._fail(running, error)
        except Exception as fault:
            _log.exception("request %r failed inside the engine", request_id)
            failure = GuidedError(
                f"the engine failed on request {request_id!r}: {type(fault).__name__}: {fault}",
                hint="this is a fault of the engine; its log holds the details",
            )
            failure.__cause__ = fault
            self._fail(running, failure)

    def _fail(self, running: RunningSequence, error: GuidedError) -> None:
        self._ended.append(Finished(running.sequence.request_id, error))
        self._leave(running)
