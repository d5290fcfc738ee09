"""The engine: many requests, one model call a step.

::

    submit    Arrivals     CompileQueue ─▶ Admission ─▶ Group, whose Runnables wait in the Scheduler

    step      Scheduler    which of them run, and how many tokens each computes
              Drafting     certain tokens, and drafted ones after them
              Scheduler    room in the cache for all of it
              ModelCall    rows reserved, one forward pass, outputs split
              Runnable     each verifies its output and commits its rows
              Results      texts and finished answers

    end       OpenRequests   every part that holds something of a request releases it
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from guided.decoding.draft_budget import CostCurve
from guided.decoding.drafter import Drafter
from guided.decoding.trace import Trace
from guided.drafters.union import DrafterUnion
from guided.engine.adapters import AdapterNames
from guided.engine.admission import Admission
from guided.engine.arrivals import Arrivals
from guided.engine.cache_size import StepLimits, open_cache
from guided.engine.compile_queue import CompileQueue, StartMatcher
from guided.engine.constraint_tasks import ConstraintTasks
from guided.engine.counters import EngineCounters
from guided.engine.deadlines import Deadlines
from guided.engine.drafting import Drafting
from guided.engine.hardware import Hardware
from guided.engine.model_call import ModelCall
from guided.engine.open_requests import OpenRequests
from guided.engine.paused_answers import PausedAnswers
from guided.engine.prompts import PreparedPrompt, Prompts, Render
from guided.engine.request_isolation import as_guided_error, is_request_error
from guided.engine.results import Finished, Results
from guided.engine.runnable import Step
from guided.engine.scheduler import Scheduler
from guided.engine.scoring import Judge
from guided.engine.sliced_work import RunningKernels
from guided.engine.step_committer import StepCommitter
from guided.engine.step_deadline import StepDeadline
from guided.engine.token_room import TokenRoom
from guided.errors import GuidedError
from guided.masks.vocabulary import Vocabulary
from guided.model.batch import Segment, SegmentOutput
from guided.model.runner import ModelRunner
from guided.spec import GenerationRequest
from guided.spec.delta import Delta
from guided.spec.prompt_bound import PromptBound
from guided.spec.tool_format import HERMES, ToolFormat
from guided.stats import ConstraintStats, EngineStats, Phase

if TYPE_CHECKING:
    from guided.model.chat_thoughts import ChatThoughts

__all__ = ["Engine"]


class Engine:
    """Takes requests, and makes their answers step by step; for use from one thread.

    Only ``prepare`` may be called from any thread.

    ``prompt_bound`` finds without ``render`` which prompts are too long. ``tool_format`` is how the
    model writes tool calls, and ``thinking`` makes it think before its answers, if it ``thinks``.
    ``drafters`` propose tokens in their order, at most ``widest_draft`` for one sequence in one
    step; ``costs`` says which of them pay, without it all do. ``judge`` scores answers if a request
    wants that. ``hardware`` is what the runner computes on. ``adapters`` are the names of the
    runner's adapters, in its order, by which requests choose them. ``constraint_stats`` returns
    the counts of the compiler behind ``start``. ``clock`` returns seconds and never goes back.
    """

    def __init__(
        self,
        *,
        model_name: str,
        runner: ModelRunner,
        vocabulary: Vocabulary,
        context_window: int,
        render: Render,
        start: StartMatcher,
        max_batch: int = 16,
        cache_tokens: int = 16384,
        step_tokens: int = 512,
        block_size: int = 8,
        reuse_prefixes: bool = True,
        drafters: Sequence[Drafter] = (),
        widest_draft: int = 0,
        costs: CostCurve | None = None,
        judge: Judge | None = None,
        hardware: Hardware | None = None,
        prompt_bound: PromptBound | None = None,
        tool_format: ToolFormat = HERMES,
        thinking: ChatThoughts | None = None,
        adapters: Sequence[str] = (),
        constraint_stats: Callable[[], ConstraintStats] = ConstraintStats,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = StepLimits(max_batch, step_tokens, block_size, widest_draft)
        self.model_name = model_name
        self.hardware = hardware
        self.tool_format = tool_format
        self.adapters = tuple(adapters)
        self.context_window = runner.context_window(context_window)
        """The most tokens of prompt and answer together."""
        self._cache = open_cache(runner, cache_tokens, limits, reuse_prefixes=reuse_prefixes)
        self.vocabulary = vocabulary
        """The tokens the model knows, as bytes."""
        self.vocabulary_size = len(vocabulary)
        self.prompt_bound = prompt_bound
        self.thinks = thinking is not None and thinking.has_format
        room = TokenRoom.of(self.context_window, self._cache, limits)
        self._prompts = Prompts(
            render, vocabulary, prompt_bound, tool_format, room, clock, thinking
        )
        self._now = clock
        self._counters = EngineCounters(constraint_stats)
        self._deadlines = Deadlines()
        self._step_deadline = StepDeadline()
        self._model = ModelCall(runner, self._step_deadline)
        kernels = RunningKernels()
        self._compiling = CompileQueue(start, kernels)
        self._paused = PausedAnswers()
        self._results = Results()
        self.constraint_tasks = ConstraintTasks(vocabulary, start, clock, kernels)
        """Checks constraints beside the answers; whoever steps the engine runs its slices."""
        self.drafters = tuple([drafter.name for drafter in drafters])
        union = DrafterUnion(drafters, widest_draft=widest_draft) if drafters else None
        self._scheduler = Scheduler(self._cache, limits)
        self._requests = OpenRequests(
            *(self._compiling, self.constraint_tasks, self._scheduler, self._paused),
            *(self._results, self._counters),
        )
        self._committer = StepCommitter(
            *(self._model, self._scheduler, self._paused, self._step_deadline, kernels),
            self._requests.hand_out_resumed,
        )
        admission = Admission(
            vocabulary,
            room=room,
            max_batch=max_batch,
            drafter=union,
            judge=judge,
            tool_format=tool_format,
        )
        self._arrivals = Arrivals(
            *(self._requests, self._prompts, self._compiling, admission, self._step_deadline),
            model_name,
            AdapterNames(self.adapters),
            clock,
        )
        self._drafting = Drafting(union, widest_draft, costs, self._step_deadline)

    @property
    def instruction_set(self) -> str:
        """The instructions that multiply its matrices on the CPU; empty where unknown."""
        return self.hardware.instruction_set if self.hardware is not None else ""

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(len(self._requests) or len(self._results))

    def submit(
        self,
        request_id: str,
        request: GenerationRequest,
        *,
        received: float | None = None,
        stream: bool = False,
        trace: Trace | None = None,
        prompt: PreparedPrompt | None = None,
        client: str = "",
    ) -> None:
        """Take a request, or refuse it with the error that says why.

        A constraint that takes long to compile is compiled between steps, and its errors are in
        the request's ``Finished``.

        Its deadline and its queue key count from the moment it was ``received``; ``None`` is now.
        ``stream`` makes ``take_deltas`` return its text as it grows. ``trace`` records how its
        answer comes about; only an answer that is drawn alone can be traced. ``prompt`` is the
        result of ``prepare`` for the same request, where that was called before. ``client`` is who
        sent it: clients take turns at whatever takes long to compile.
        """
        with self._counters.phase(Phase.TAKE):
            self._counters.count_submitted(request)
            try:
                self._arrivals.take(
                    request_id,
                    request,
                    received=received,
                    stream=stream,
                    trace=trace,
                    prompt=prompt,
                    client=client,
                )
            except BaseException as fault:
                self._counters.count_refused()
                if isinstance(fault, GuidedError) or not is_request_error(fault):
                    raise
                raise as_guided_error(request_id, fault) from fault

    def prepare(
        self, request: GenerationRequest, *, received: float | None = None
    ) -> PreparedPrompt:
        """Make the tokens of a request's prompt for ``submit``; may be called from any thread.

        Raises the errors of the prompt, and DeadlineExceededError.
        """
        return self._prompts.prepare(request, received)

    def count_refused(self) -> None:
        """Count a request that was refused before it was submitted."""
        self._counters.count_refused()

    def cancel(self, request_id: str) -> None:
        """Forget a request and free its memory; it gets no ``Finished``. Ignores unknown ids."""
        self._requests.cancel(request_id)

    def step(self) -> list[Finished]:
        """Make one model call for all running requests, and return the requests that ended."""
        phase, began = self._counters.phase, self._now()
        self._step_deadline.begin_step()
        # Compilation alternates with the model call, because Python would slow the call down.
        with phase(Phase.TAKE):
            self._run_slice()
        with phase(Phase.ADMIT):
            self._start_waiting()
            self._end_late()  # after starting, because started requests make the step longer
        with phase(Phase.DRAFT):
            plan = self._scheduler.plan()
            steps = self._make_room(
                self._drafting.draft(plan, self._requests.isolate, self._committer.begin_paused)
            )
        with phase(Phase.RESERVE):
            steps, segments = self._reserve(steps)
        if steps:
            with phase(Phase.FORWARD) as forward:
                outputs = self._model.forward(steps, segments, self._counters)
            with phase(Phase.SETTLE):
                self._step_deadline.begin_step()
                self._charge_time(steps, forward.seconds)
                self._verify_and_commit(steps, outputs)
            # Without drafts, because deadlines foresee a step before anything is drafted for it.
            self._deadlines.record_step(sum([count for _, count in plan]), self._now() - began)
        return self._results.take_finished()

    def take_deltas(self) -> list[Delta]:
        """Return what steps added to the streamed texts since the last call."""
        return self._results.take_deltas()

    def stats(self) -> EngineStats:
        """Return the counters of everything done so far, and the state now."""
        running = {runnable.request_id for runnable in self._scheduler.running}
        return self._counters.stats(
            self._requests.usages(),
            running=len(running),
            waiting=len(self._requests) - len(running),
            cache=self._cache,
        )

    def reset_counters(self) -> None:
        """Reset the counters, as after a warm-up; how long steps take is kept."""
        self._counters.reset()

    def check(self) -> None:
        """Raise unless the cache adds up and every running answer has something to compute."""
        self._scheduler.check()

    def close(self) -> None:
        """End the model's other processes; the engine must not be used afterwards."""
        self._model.runner.close()

    # --- one step -------------------------------------------------------------------------

    def _run_slice(self) -> None:
        """Do one slice of long work."""
        may_wait = all(runnable.is_paused for runnable in self._scheduler.running)
        if not self._paused.take_turn(is_compiling=bool(self._compiling)):
            self._arrivals.run_slice(may_wait=may_wait)
            return
        paused = self._paused.run_slice(may_wait=may_wait)
        if paused is not None:
            with self._requests.isolate(paused.runnable.request_id):
                paused.resume()

    def _start_waiting(self) -> None:
        """Start waiting runnables, as long as there is room."""
        while (entry := self._scheduler.take_next()) is not None:
            runnable, blocks = entry
            self._requests.group(runnable.request_id).clock.record_start()
            with self._requests.isolate(runnable.request_id):
                self._scheduler.start(runnable, blocks)

    def _end_late(self) -> None:
        """End the requests that would be late after one more step."""
        tokens, now = self._scheduler.next_tokens, self._now()
        ended = self._requests.end_late(self._deadlines.predict_end(now, tokens))
        if ended:
            self._deadlines.record_closings(ended, tokens, now, self._now())

    def _make_room(self, steps: list[Step]) -> list[Step]:
        """Return the steps that the cache has blocks for; what gives way for them waits again."""
        # If one answer to a request failed, its other answers are gone as well.
        steps = [step for step in steps if step.runnable.is_running]
        before = len(self._scheduler.running)
        steps = self._scheduler.make_room(steps)
        self._counters.preempted += before - len(self._scheduler.running)
        return steps

    def _reserve(self, steps: Sequence[Step]) -> tuple[list[Step], list[list[Segment]]]:
        """Reserve cache slots for each step; a request that fails here releases what it reserved.

        Returns the steps still to be made, and the segments of each.
        """
        reserved = []
        for step in steps:
            if step.runnable.is_running:
                with self._requests.isolate(step.runnable.request_id):
                    reserved.append((step, self._model.reserve(step, self._counters)))
        # A failed request takes its other answers with it, which may have reserved before: their
        # slots were released, and may be another step's by now.
        kept = [pair for pair in reserved if pair[0].runnable.is_running]
        return [step for step, _ in kept], [segments for _, segments in kept]

    def _charge_time(self, steps: Sequence[Step], seconds: float) -> None:
        """Charge each request for its part of a model call, by the tokens computed for it."""
        tokens = sum([step.num_tokens for step in steps])
        self._drafting.record_call(tokens, seconds)
        each = 1e9 * seconds / tokens
        for step in steps:
            group = self._requests.group(step.runnable.request_id)
            group.target_nanoseconds += round(each * step.num_tokens)

    def _verify_and_commit(
        self, steps: Sequence[Step], outputs: Sequence[list[SegmentOutput]]
    ) -> None:
        """Continue every answer, then hand out texts and results of each request."""
        ids = [step.runnable.request_id for step in steps]
        groups = {request_id: self._requests.group(request_id) for request_id in ids}
        # Several answers of one request may be in the step; it counts one call, and streams once.
        for group in groups.values():
            group.begin_call()
        # The clock is read once per step of a request: one measurement ends where the next begins.
        began = time.perf_counter_ns()
        for step, output in zip(steps, outputs, strict=True):
            if step.runnable.is_running:  # unless another answer to its request failed
                with self._requests.isolate(step.runnable.request_id):
                    self._committer.commit(step, output)
            ended = time.perf_counter_ns()
            groups[step.runnable.request_id].mask_nanoseconds += ended - began
            began = ended
        for request_id, group in groups.items():
            with self._requests.isolate(request_id):
                group.end_call()
                if self._requests.is_answering(request_id):  # unless it failed
                    self._requests.hand_out(group)
