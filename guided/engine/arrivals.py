"""Takes a request from its submission to a group that waits to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from guided.decoding.trace import Trace
from guided.engine.adapters import AdapterNames
from guided.engine.admission import Admission
from guided.engine.compile_queue import CompileQueue
from guided.engine.open_requests import OpenRequests
from guided.engine.prompts import PreparedPrompt, Prompts
from guided.engine.sliced_work import SLICE_SECONDS
from guided.engine.step_deadline import StepDeadline, TakesLongError
from guided.engine.submission import ServiceOrder, Submission
from guided.errors import RequestError
from guided.spec import GenerationRequest
from guided.spec.delta import can_stream
from guided.spec.model_name import check_model

if TYPE_CHECKING:
    from guided.constraint import Matcher
    from guided.engine.group import Group

__all__ = ["Arrivals"]


class Arrivals:
    """Checks requests, compiles their constraints a slice at a time, and admits them."""

    def __init__(
        self,
        requests: OpenRequests,
        prompts: Prompts,
        compiling: CompileQueue,
        admission: Admission,
        step_deadline: StepDeadline,
        model_name: str,
        adapters: AdapterNames,
        clock: Callable[[], float],
    ) -> None:
        self._requests = requests
        self._prompts = prompts
        self._compiling = compiling
        self._admission = admission
        self._step_deadline = step_deadline
        self._model_name = model_name
        self._adapters = adapters
        self._now = clock

    def take(
        self,
        request_id: str,
        request: GenerationRequest,
        *,
        received: float | None,
        stream: bool,
        trace: Trace | None,
        prompt: PreparedPrompt | None,
        client: str,
    ) -> None:
        """Check a request and begin to compile its constraint; admit it if that is done at once.

        The arguments are those of ``Engine.submit``.
        """
        now = self._now()
        order = ServiceOrder.of(request, now if received is None else received)
        order.check(now)
        self._check(request_id, request, stream=stream, is_traced=trace is not None)
        adapter = self._adapters.number_of(request.adapter)
        if prompt is None:
            prompt = self._prompts.prepare(request, received)
        if prompt.constraint is not request.constraint:
            # The prompt already shows the schema.
            request = replace(request, constraint=prompt.constraint, show_schema=False)
        matcher = self._compiling.work_for(request.constraint)
        submission = Submission(
            *(request_id, request, prompt.tokens, order, stream, prompt.clock, matcher),
            trace=trace,
            adapter=adapter,
            client=client,
        )
        # Most constraints are compiled in one slice, so most errors are raised at once.
        if matcher.run_slice():
            self._admit(submission)
        else:
            self._compiling.add(submission)

    def run_slice(self, *, may_wait: bool) -> None:
        """Do a slice of compilation, and admit the requests whose constraints it finished.

        ``may_wait`` lets it wait for a kernel, because the caller has nothing else to do.
        """
        for submission in self._compiling.run_slice(may_wait=may_wait):
            with self._requests.isolate(submission.request_id):
                self._admit(submission)

    def _check(
        self, request_id: str, request: GenerationRequest, *, stream: bool, is_traced: bool
    ) -> None:
        """Raise RequestError for a request that cannot be answered as it stands."""
        check_model(request.model, (self._model_name,))
        if request_id in self._requests:
            raise RequestError(f"request id {request_id!r} is in use", field="request_id")
        if stream and not can_stream(request):
            field = "best_of" if request.beams is None else "beams"
            raise RequestError(
                f"answers of {field} cannot be streamed: what they say is certain only at the end",
                field=field,
                hint="draw n answers, or do not stream",
            )
        if is_traced and (request.has_candidates or request.sampling.is_contrastive):
            raise RequestError(
                "only one answer, drawn token by token, can be traced",
                field="n",
                hint="leave out n, best_of, beams and the penalty of contrastive search",
            )

    def _admit(self, submission: Submission) -> None:
        """Admit a submission whose ``work`` is done: make its group and register that.

        Making a group that takes long is interrupted, and begun again in slices. From then on it is
        continued, so it ends even if little of it is cached.
        """
        if submission.admitting is not None:
            group = submission.admitting.result()
        else:
            make_group = partial(
                self._make_group_or_release, submission, submission.matcher.result()
            )
            try:
                with self._step_deadline.within_step_time(SLICE_SECONDS):
                    group = make_group()
            except TakesLongError:
                self._compiling.requeue_for_admission(submission, make_group)
                return
        group.clock.record_queued()
        try:
            self._requests.register(group)
        except BaseException:
            submission.end()
            raise

    def _make_group_or_release(self, submission: Submission, matcher: Matcher) -> Group:
        """Make the group of a submission; if that fails or is interrupted, release what it opened.

        An interrupted submission is admitted again from the start, so until it has a group its
        ``at_end`` may hold only what ``Admission.make_group`` puts there.
        """
        try:
            return self._admission.make_group(submission, matcher)
        # TakesLongError and the cancelling of a slice too: no group refers to what was opened.
        except BaseException:
            submission.end()
            raise
