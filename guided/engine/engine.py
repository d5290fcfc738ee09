"""The engine: many requests, one model call a step.

::

    submit    CompileQueue ─▶ Admission ─▶ Group, whose Runnables wait in the Scheduler

    step      Scheduler    which of them run, and how many tokens each computes
              Drafting     certain tokens, and drafted ones after them
              Scheduler    room in the cache for all of it
              ModelCall    rows reserved, one forward pass, outputs split
              Runnable     each verifies its output and commits its rows
              Results      texts and finished answers
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from guided.decoding.draft_budget import CostCurve
from guided.decoding.drafter import Drafter
from guided.decoding.trace import Trace
from guided.drafters.union import DrafterUnion
from guided.engine.admission import Admission
from guided.engine.cache_size import StepLimits, open_cache
from guided.engine.compile_queue import CompileQueue, Start
from guided.engine.deadlines import Deadlines
from guided.engine.drafting import Drafting
from guided.engine.group import Group
from guided.engine.haste import Haste, TakesLongError
from guided.engine.isolation import Isolation, error_for, is_of_request
from guided.engine.meter import Meter
from guided.engine.model_call import ModelCall
from guided.engine.prompts import PreparedPrompt, Prompts, Render
from guided.engine.results import Delta, Finished, Results
from guided.engine.runnable import Runnable, Step
from guided.engine.scheduler import Scheduler
from guided.engine.scoring import Judge
from guided.engine.settling import Settling
from guided.engine.sliced_work import SLICE_SECONDS, Kernels
from guided.engine.submission import ServiceOrder, Submission
from guided.engine.workbench import Workbench
from guided.errors import GuidedError, RequestError
from guided.masks.vocabulary import Vocabulary
from guided.model.batch import Segment, SegmentOutput
from guided.model.runner import ModelRunner
from guided.spec import Constraint, GenerationRequest, Usage
from guided.spec.prompt_bound import PromptBound
from guided.stats import EngineStats, Phase

__all__ = ["Engine"]


class Engine:
    """Takes requests, and makes their answers step by step; for use from one thread.

    ``prepare`` alone is for all.
    """

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
        drafters: Sequence[Drafter] = (),
        widest_draft: int = 0,
        costs: CostCurve | None = None,
        judge: Judge | None = None,
        prompt_bound: PromptBound | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``prompt_bound`` tells without ``render`` which prompts are too long.

        ``drafters`` propose tokens in their order, for one sequence in one step at most
        ``widest_draft``.

        ``costs`` says which of them pay; without it, all do. ``judge`` scores answers where a
        request asks for that. ``clock`` tells seconds and never goes back.
        """
        limits = StepLimits(max_batch, step_tokens, block_size, widest_draft)
        self.model_name = model_name
        """The model's name, as a caller would give it."""
        self.context_window = runner.context_window(context_window)
        """Most tokens of prompt and answer together."""
        self._cache = open_cache(runner, cache_tokens, limits, reuse_prefixes=reuse_prefixes)
        self._vocabulary = vocabulary
        self._prompts = Prompts(render, prompt_bound, clock)
        self._now = clock
        self._model = ModelCall(runner)
        self._meter = Meter()
        self._deadlines = Deadlines()
        self._haste = Haste()
        kernels = Kernels()
        self._compiling = CompileQueue(start, kernels)
        self._is_asides_turn = False
        self.workbench = Workbench(vocabulary, start, kernels=kernels)
        """Where constraints are checked beside the answers; whoever steps runs its slices."""
        self.drafters = tuple([drafter.name for drafter in drafters])
        """What drafts tokens, by the names that requests use, in their order."""
        union = DrafterUnion(drafters) if drafters else None
        self._scheduler = Scheduler(self._cache, limits)
        self._settling = Settling(self._model, self._scheduler, self._haste, kernels, self._resumed)
        self._aside = self._settling.aside
        self._admission = Admission(
            vocabulary,
            context_window=self.context_window,
            largest_request=self._cache.most_tokens(step_tokens) or self.context_window,
            limits=limits,
            drafter=union,
            judge=judge,
        )
        self._drafting = Drafting(union, widest_draft, costs, self._haste)
        self._groups: dict[str, Group] = {}
        self._results = Results(vocabulary)

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens the model knows, as bytes."""
        return self._vocabulary

    @property
    def prompt_bound(self) -> PromptBound | None:
        """How long a prompt may be in bytes; ``None`` where only its tokens tell."""
        return self._prompts.bound

    @property
    def vocabulary_size(self) -> int:
        """Tokens the model knows."""
        return len(self._vocabulary)

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(len(self._compiling) or self._groups or len(self._results))

    def submit(
        self,
        request_id: str,
        request: GenerationRequest,
        *,
        received: float | None = None,
        stream: bool = False,
        trace: Trace | None = None,
        prompt: PreparedPrompt | None = None,
    ) -> None:
        """Take a request, or refuse it with the error that says why.

        A constraint that takes long to compile is compiled between steps, and its errors are in
        the request's ``Finished``.

        Its deadline and its queue key count from the moment it was ``received``; ``None`` is now.
        ``stream`` asks for its text as it grows, from ``take_deltas``. ``trace`` notes how its
        answer comes to be; only one that is drawn by itself can be traced. ``prompt`` is what
        ``prepare`` made of the same request, where that was done beforehand.
        """
        with self._meter.phase(Phase.TAKE):
            try:
                self._submit(request_id, request, received, stream, trace, prompt)
            except BaseException as fault:
                self._meter.refused()
                if isinstance(fault, GuidedError) or not is_of_request(fault):
                    raise
                raise error_for(request_id, fault) from fault

    def prepare(
        self, request: GenerationRequest, *, received: float | None = None
    ) -> PreparedPrompt:
        """Make the tokens of a request's prompt for ``submit``; may be called from any thread.

        Raises what is wrong with the prompt, and DeadlineExceededError.
        """
        return self._prompts.prepare(request, received)

    def refuse(self) -> None:
        """Count a request that was refused before it was submitted."""
        self._meter.refused()

    def cancel(self, request_id: str) -> None:
        """Forget a request and free its memory; it gets no ``Finished``. Unknown ids are fine."""
        # It may have ended in a step whose results nobody has taken yet.
        self._results.forget(request_id)
        used = self._drop(request_id)
        if used is not None:
            self._meter.cancelled(used)

    def step(self) -> list[Finished]:
        """Make one model call for all running requests, and return those that ended."""
        phase, began = self._meter.phase, self._now()
        self._haste.begin_step()
        # Compilation takes turns with the model call, as Python beside that would slow it down.
        with phase(Phase.TAKE):
            self._work_in_slices()
        with phase(Phase.ADMIT):
            self._start_waiting()
            self._end_late()  # after starting, as what was started makes the step longer
        with phase(Phase.DRAFT):
            plan = self._scheduler.plan()
            steps = self._make_room(
                self._drafting.draft(plan, self._isolated, self._settling.begin_aside)
            )
        with phase(Phase.RESERVE):
            steps, segments = self._reserve(steps)
        if steps:
            with phase(Phase.FORWARD) as forward:
                outputs = self._model.forward(segments, self._meter)
            with phase(Phase.SETTLE):
                self._haste.begin_step()
                self._share_time(steps, forward.seconds)
                self._verify_and_commit(steps, outputs)
            # Without drafts, as deadlines foresee a step before anything is drafted for it.
            tokens = sum([count for _, count in plan])
            self._deadlines.note_step(tokens, self._now() - began)
        return self._results.take_finished()

    def take_deltas(self) -> list[Delta]:
        """What steps added to the texts that are streamed, since this was last called."""
        return self._results.take_deltas()

    def stats(self) -> EngineStats:
        """Counters of everything done so far, and the state now."""
        running = {runnable.request_id for runnable in self._scheduler.running}
        return self._meter.stats(
            [group.usage() for group in self._groups.values()],
            running=len(running),
            waiting=len(self._compiling) + len(self._groups) - len(running),
            cache=self._cache,
        )

    def count_anew(self) -> None:
        """Forget what was counted so far, as after a warm-up."""
        # How long steps take is kept: that holds for the requests to come as well.
        self._meter = Meter()

    def check(self) -> None:
        """Raise unless the cache adds up and every running answer has something to compute."""
        self._scheduler.check()

    # --- taking requests ------------------------------------------------------------------

    def _submit(
        self,
        request_id: str,
        request: GenerationRequest,
        received: float | None,
        stream: bool,
        trace: Trace | None,
        prompt: PreparedPrompt | None,
    ) -> None:
        """Check a request and begin to compile its constraint; admit it if that is done at once."""
        now = self._now()
        order = ServiceOrder.of(request, now if received is None else received)
        order.check(now)
        if any(request_id in known for known in (self._groups, self._compiling, self._results)):
            raise RequestError(f"request id {request_id!r} is in use", field="request_id")
        if stream and request.has_candidates:
            raise RequestError(
                "several answers cannot be streamed", field="n", hint="ask for one, or for all"
            )
        if trace is not None and (request.has_candidates or request.sampling.is_contrastive):
            raise RequestError(
                "only one answer, drawn token by token, can be traced",
                field="n",
                hint="leave out n, best_of, beams and the penalty of contrastive search",
            )
        if prompt is None:
            prompt = self._prompts.prepare(request, received)
        matcher = self._compiling.work_for(request.constraint)
        submission = Submission(
            *(request_id, request, prompt.tokens, order, stream, prompt.clock, matcher), trace=trace
        )
        # Most constraints are compiled in one slice, so most errors are told at once.
        if matcher.run_slice():
            self._admit(submission)
        else:
            self._compiling.join(submission)

    def _work_in_slices(self) -> None:
        """Do a slice of what takes long: for an answer under way, or in turn of compilation."""
        is_alone = not any(not runnable.is_paused for runnable in self._scheduler.running)
        self._is_asides_turn = bool(self._aside) and not (self._is_asides_turn and self._compiling)
        if self._is_asides_turn:
            paused = self._aside.run_slice(is_alone=is_alone)
            if paused is not None:
                with self._isolated(paused.runnable.request_id):
                    paused.go_on()
            return
        for submission in self._compiling.run_slice(is_alone=is_alone):
            with self._isolated(submission.request_id):
                self._admit(submission)

    def _admit(self, submission: Submission) -> None:
        try:
            matcher = submission.matcher.result()
            with self._haste.hurried(SLICE_SECONDS):
                group = self._admission.admit(submission, matcher)
            group.clock.queue()
            # Where every token is certain there is nothing to ask the model.
            if group.is_finished:
                self._emit(group)
        except TakesLongError:
            submission.end()
            self._compiling.join_again(submission)
            return
        except BaseException:
            # No group of it is known, so nobody else could give back what it opened.
            submission.end()
            raise
        if not group.is_finished:
            self._groups[group.request_id] = group
            self._scheduler.wait(group.first)

    def _start_waiting(self) -> None:
        """Start what waits, as long as there is room."""
        while (entry := self._scheduler.take_next()) is not None:
            runnable, blocks = entry
            self._groups[runnable.request_id].clock.start()
            with self._isolated(runnable.request_id):
                self._scheduler.start(runnable, blocks)

    # --- one step -------------------------------------------------------------------------

    def _make_room(self, steps: list[Step]) -> list[Step]:
        """The steps that the cache has blocks for; what gives way for them waits again."""
        # Where one answer to a request failed, its others are gone as well.
        steps = [step for step in steps if step.runnable.is_running]
        before = len(self._scheduler.running)
        steps = self._scheduler.make_room(steps)
        self._meter.preempted += before - len(self._scheduler.running)
        return steps

    def _reserve(self, steps: Sequence[Step]) -> tuple[list[Step], list[list[Segment]]]:
        """Set rows of the cache aside; a request that fails here gives its rows back."""
        reserved = []
        for step in steps:
            if step.runnable.is_running:
                with self._isolated(step.runnable.request_id):
                    reserved.append((step, self._model.reserve(step, self._meter)))
        # One that failed took other answers of its request with it, which had reserved before.
        kept = [pair for pair in reserved if pair[0].runnable.is_running]
        return [step for step, _ in kept], [segments for _, segments in kept]

    def _share_time(self, steps: Sequence[Step], seconds: float) -> None:
        """Charge each request with its part of a model call, by the tokens computed for it."""
        tokens = sum([step.num_tokens for step in steps])
        self._drafting.note_call(tokens, seconds)
        each = 1e9 * seconds / tokens
        for step in steps:
            group = self._groups[step.runnable.request_id]
            group.target_nanoseconds += round(each * step.num_tokens)

    def _verify_and_commit(
        self, steps: Sequence[Step], outputs: Sequence[list[SegmentOutput]]
    ) -> None:
        """Continue every answer, then hand out texts and results of each request."""
        ids = [step.runnable.request_id for step in steps]
        groups = {request_id: self._groups[request_id] for request_id in ids}
        # Several answers of one request are in the step; it counts one call, and streams once.
        for group in groups.values():
            group.begin_call()
        # The clock is read once a step of a request: what ends one measurement begins the next.
        began = time.perf_counter_ns()
        for step, output in zip(steps, outputs, strict=True):
            if step.runnable.is_running:  # unless another answer to its request failed
                with self._isolated(step.runnable.request_id):
                    self._settling.settle(step, output)
            ended = time.perf_counter_ns()
            groups[step.runnable.request_id].mask_nanoseconds += ended - began
            began = ended
        for request_id, group in groups.items():
            with self._isolated(request_id):
                group.end_call()
                if request_id in self._groups:  # unless it failed
                    self._hand_out(group)

    def _resumed(self, runnable: Runnable) -> None:
        """Hand out what an answer that had paused has now."""
        group = self._groups[runnable.request_id]
        group.end_call()
        self._hand_out(group)

    # --- ending requests ------------------------------------------------------------------

    def _end_late(self) -> None:
        """End what would be late after one more step: closed if it has begun, else refused."""
        tokens, now = self._scheduler.next_tokens, self._now()
        soon = self._deadlines.next_end(now, tokens)
        # What is still compiling has no group yet.
        compiling = [each for each in self._compiling if each.order.is_late(soon)]
        groups = [group for group in self._groups.values() if group.order.is_late(soon)]
        for submission in compiling:
            with self._isolated(submission.request_id):
                submission.order.check(soon)
        for group in groups:
            with self._isolated(group.request_id):
                # What is built aside for the constraint holds its lock.
                self._aside.drop(group.request_id)
                self._let_go(group.submission.request.constraint)
                # Where the model chose nothing yet, the completion alone would be no answer.
                if not group.num_chosen:
                    group.order.check(soon)
                self._scheduler.drop(group.request_id)
                group.close_for_deadline()
                self._emit(group)
        ended = [each.order for each in compiling] + [group.order for group in groups]
        if ended:
            self._deadlines.note_closings(ended, tokens, now, self._now())

    def _let_go(self, constraint: Constraint) -> None:
        self._aside.let_go(constraint)
        self._compiling.let_go(constraint)

    def _hand_out(self, group: Group) -> None:
        if group.is_finished:
            self._emit(group)
        else:
            self._results.stream(group)

    def _emit(self, group: Group) -> None:
        group.clock.end()
        result = self._results.finish(group)
        # After the result: where that raises, the group still has to tell what the request used.
        self._groups.pop(group.request_id, None)
        group.submission.end()
        self._meter.answered(group.clock, result)

    def _drop(self, request_id: str) -> Usage | None:
        """Remove a request wherever it is; return what it used, or ``None`` for an unknown one."""
        self._aside.drop(request_id)
        self._scheduler.drop(request_id)
        if group := self._groups.pop(request_id, None):
            used = group.usage()
            group.submission.end()
            return used
        return Usage() if self._compiling.leave(request_id) else None

    def _isolated(self, request_id: str) -> Isolation:
        return Isolation(request_id, self._fail)

    def _fail(self, request_id: str, error: GuidedError) -> None:
        used = self._drop(request_id)
        # One that is known to nobody was compiled just now and refused by admission.
        if used is None:
            self._meter.refused()
        else:
            self._meter.failed(used)
        self._results.fail(request_id, error)
