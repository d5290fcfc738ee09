"""The engine: many requests, one model call a step."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import torch

from guided.decoding.drafting import Drafter, no_guesses
from guided.engine.admission import admit
from guided.engine.result import Finished
from guided.engine.running import Draft, RunningSequence
from guided.engine.scheduler import admissible, plan_step
from guided.engine.sequence import Sequence
from guided.errors import GuidedError, RequestError
from guided.kv.pool import SlotPool
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
        drafter: Drafter = no_guesses,
        widest_draft: int = 0,
    ) -> None:
        if not 1 <= max_batch <= step_tokens:
            raise RequestError(
                f"max_batch {max_batch!r} is not between 1 and step_tokens ({step_tokens})",
                field="max_batch",
            )
        if cache_tokens <= widest_draft:
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
        self._drafter = drafter
        self._widest_draft = widest_draft
        self._pool = SlotPool(cache_tokens)
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
            largest_request=self._pool.total - self._widest_draft,
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
        drafts = self._draft(plan.counts)
        segments = [draft.reserve() for draft in drafts]
        if segments:
            logits = self._forward(segments)
            for draft, rows in zip(drafts, logits, strict=True):
                with self._isolated(draft.running):
                    draft.settle(rows.numpy())
                    self._emit_if_finished(draft.running)
        ended, self._ended = self._ended, []
        return ended

    def check(self) -> None:
        """Raise unless the cache adds up and every running sequence has something to compute."""
        self._pool.check()
        held = sum(running.slots.capacity for running in self._running)
        assert self._pool.free + held == self._pool.total, "slots are held by no running sequence"
        for running in self._running:
            assert running.pending > 0, f"{running.sequence.request_id!r} has nothing pending"
            assert running.slots.reserved == 0, f"{running.sequence.request_id!r} holds rows"

    def _sequences(self) -> Iterator[Sequence]:
        yield from self._waiting
        for running in self._running:
            yield running.sequence

    def _admit_waiting(self) -> None:
        needs = [self._need(sequence) for sequence in self._waiting]
        places = self._max_batch - len(self._running)
        for _ in range(admissible(needs, places=places, free_slots=self._pool.free)):
            sequence = self._waiting.popleft()
            capacity = self._need(sequence)
            slots = self._pool.open(capacity)
            storage = self._runner.open_storage(capacity)
            self._running.append(RunningSequence(sequence, slots, storage))

    def _need(self, sequence: Sequence) -> int:
        return sequence.prompt_length + sequence.chooser.max_tokens + self._widest_draft

    def _draft(self, counts: tuple[int, ...]) -> list[Draft]:
        drafts = []
        for running, count in zip(tuple(self._running), counts, strict=True):
            with self._isolated(running):
                drafts.append(running.draft(count, self._drafter, self._widest_draft))
        return drafts

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
        self._pool.release(running.slots)

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
