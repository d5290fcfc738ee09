"""The engine process's loop: takes messages, steps, sends answers, and ends with its server."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import zmq
from structlog.contextvars import bound_contextvars

from guided.engine.request_isolation import is_request_error
from guided.error_record import record_error
from guided.errors import GuidedError, incident_of
from guided.spec import GenerationRequest, GenerationResult, PromptTokens
from guided.spec.delta import Delta
from guided.spec.findings import Finding
from guided.spec.prompt_bound import PromptBound
from guided.spec.tool_format import ToolFormat
from guided.stats import EngineStats, ModelInfo
from guided_service.garbage import Garbage
from guided_service.inspection import task_of
from guided_service.messages import (
    Answered,
    Cancel,
    Detokenize,
    EngineSettings,
    Failed,
    Found,
    FromEngine,
    Grown,
    Inspect,
    ModelChoice,
    NotStarted,
    Pulse,
    Ready,
    Report,
    Stop,
    Submit,
    ToEngine,
    Tokenize,
    read_to_engine,
    write,
)
from guided_service.process_life import is_orphan
from guided_service.prompt_thread import Prepared, PromptThread
from guided_service.request_ids import name_in
from guided_service.token_texts import describe_tokens, text_of
from guided_service.watching import HasVocabulary, Watches

if TYPE_CHECKING:
    from guided.decoding.trace import Trace
    from guided.engine.constraint_tasks import ConstraintTasks

__all__ = [
    "FinishedRequest",
    "Loader",
    "RunningEngine",
    "run_engine",
]

_POLL_MILLIS = 1000
"""How long an idle engine sleeps before it checks that the server still exists."""

_REPORT_SECONDS = 1.0
"""Least time between two reports of the engine's statistics."""

_PULSE_SECONDS = 1.0

_TAKING_SECONDS = 0.02
"""How long requests are taken between steps, at least one; short prompts are tokenised then."""

_SWITCH_SECONDS = 0.0005
"""How long a thread that prepares a prompt may run Python while the engine waits for the
interpreter, as it does after each part of a model call; a tenth of Python's default."""

_SHORT_BYTES = 2**14
"""Largest message of a request that is prepared between two steps, in a few milliseconds. Preparing
it in another thread would slow a model call by more."""


class FinishedRequest(Protocol):
    """A request that left the engine, with its outcome."""

    @property
    def request_id(self) -> str: ...
    @property
    def outcome(self) -> GenerationResult | GuidedError: ...


class RunningEngine(HasVocabulary, Protocol):
    """What the loop needs from an engine."""

    @property
    def constraint_tasks(self) -> ConstraintTasks: ...

    @property
    def model_name(self) -> str: ...
    @property
    def context_window(self) -> int: ...
    @property
    def vocabulary_size(self) -> int: ...
    @property
    def drafters(self) -> tuple[str, ...]: ...
    @property
    def instruction_set(self) -> str: ...
    @property
    def tool_format(self) -> ToolFormat: ...
    @property
    def adapters(self) -> tuple[str, ...]: ...
    @property
    def thinks(self) -> bool: ...
    @property
    def has_work(self) -> bool: ...
    @property
    def prompt_bound(self) -> PromptBound | None: ...
    def prepare(self, request: GenerationRequest, *, received: float) -> Any: ...
    def submit(
        self,
        request_id: str,
        request: GenerationRequest,
        *,
        received: float,
        stream: bool,
        trace: Trace | None = None,
        prompt: Any = None,
        client: str = "",
    ) -> None: ...
    def count_refused(self) -> None: ...
    def cancel(self, request_id: str) -> None: ...
    def step(self) -> Sequence[FinishedRequest]: ...
    def stats(self) -> EngineStats: ...
    def take_deltas(self) -> Sequence[Delta]: ...


Loader = Callable[[ModelChoice], RunningEngine]
"""Makes an engine; raises ``GuidedError`` if the model or a setting is wrong."""


_Waiting: TypeAlias = Submit | Tokenize | Detokenize | Prepared
"""What the loop takes between two steps."""


def run_engine(settings: EngineSettings, load: Loader) -> int:
    """Load an engine and serve the server that listens at the endpoint; returns the exit status."""
    with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.set_hwm(0)
        socket.connect(settings.endpoint)
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            engine = load(settings.choice)
        except GuidedError as error:
            socket.send(write(NotStarted(record_error(error))))
            return 1
        model = ModelInfo(
            engine.model_name,
            engine.context_window,
            engine.vocabulary_size,
            engine.drafters,
            engine.instruction_set,
            engine.tool_format.name,
            engine.adapters,
            engine.thinks,
        )
        with (
            closing(_Heart(context, settings.pulse_endpoint)) as heart,
            closing(PromptThread(engine.prepare)) as prompts,
        ):
            _send(socket, Ready(model, engine.prompt_bound))
            _serve(engine, socket, settings.parent, heart, prompts)
    return 0


class _Heart:
    """Sends a pulse each second from a thread of its own, until it is closed.

    A process that is stopped or swapped out sends none; one in a long model call does.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        self.turns = 0
        self._context = context
        self._endpoint = endpoint
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._is_closing.set()
        self._thread.join()

    def _beat(self) -> None:
        with self._context.socket(zmq.PUSH) as socket:
            # Pulses that were not read in time are useless later.
            socket.set_hwm(2)
            socket.linger = 0
            socket.connect(self._endpoint)
            while not self._is_closing.wait(_PULSE_SECONDS):
                try:
                    socket.send(write(Pulse(self.turns)), zmq.DONTWAIT)
                except zmq.Again:
                    continue  # the server may listen later


def _serve(
    engine: RunningEngine,
    socket: zmq.Socket[bytes],
    parent: int,
    heart: _Heart,
    prompts: PromptThread,
) -> None:
    next_report = time.monotonic()
    garbage = Garbage()
    waiting: dict[str, _Waiting] = {}
    tasks: ConstraintTasks | None = None  # fetched at the first inspection
    watches = Watches(engine)
    poller = zmq.Poller()
    poller.register(socket, zmq.POLLIN)
    poller.register(prompts.bell, zmq.POLLIN)
    while not is_orphan(parent):
        heart.turns += 1
        if time.monotonic() >= next_report:
            _send(socket, Report(engine.stats()))
            next_report = time.monotonic() + _REPORT_SECONDS
        has_tasks = tasks is not None and tasks.has_work
        is_idle = not (engine.has_work or waiting or has_tasks)
        garbage.collect(is_idle=is_idle)
        if is_idle:
            poller.poll(_POLL_MILLIS)
        # Read all messages before taking any request, so that a request cancelled meanwhile costs
        # nothing, however long its prompt.
        for message in _received(socket):
            match message:
                case Submit() | Tokenize() if len(message.message) > _SHORT_BYTES:
                    prompts.add(message)
                case Submit() | Tokenize() | Detokenize():
                    waiting[message.request_id] = message
                case Inspect(request_id, deadline=deadline, client=client):
                    tasks = engine.constraint_tasks
                    tasks.submit(request_id, partial(task_of, message), deadline, client)
                case Cancel(request_id):
                    if tasks is not None:
                        tasks.cancel(request_id)
                    watches.end(request_id)
                    if waiting.pop(request_id, None) is None and not prompts.drop(request_id):
                        engine.cancel(request_id)
                case Stop():
                    return
        waiting |= {prepared.asked.request_id: prepared for prepared in prompts.take()}
        _take_waiting(engine, socket, waiting, watches)
        for task in () if tasks is None else tasks.run_slice(may_wait=not engine.has_work):
            _send(socket, _message(task.request_id, task.outcome))
        # An error raised by a step leaves the engine in an unknown state: the process ends with it,
        # and the server starts another.
        if engine.has_work:
            ended = engine.step()
            told = watches.told([finished.request_id for finished in ended])
            deltas = (*engine.take_deltas(), *(Delta(name, line) for name, line in told))
            if deltas:
                _send(socket, Grown(deltas))
            for finished in ended:
                _send(socket, _message(finished.request_id, finished.outcome))


def _take_waiting(
    engine: RunningEngine,
    socket: zmq.Socket[bytes],
    waiting: dict[str, _Waiting],
    watches: Watches,
) -> None:
    """Take what waits in order, for as long as running answers may be delayed."""
    began = time.monotonic()
    while waiting and time.monotonic() - began < _TAKING_SECONDS:
        request_id = next(iter(waiting))
        try:
            found = _take(engine, waiting.pop(request_id), watches)
        except GuidedError as error:
            watches.end(request_id)
            _send(socket, _message(request_id, error))
        except BaseException as error:
            # A request that was not admitted has affected no other, so it fails alone.
            if not is_request_error(error):
                raise
            watches.end(request_id)
            with bound_contextvars(request_id=name_in(request_id)):
                incident = incident_of(error)
            _send(socket, _message(request_id, incident))
        else:
            if found is not None:
                _send(socket, Found.of(request_id, found))


def _received(socket: zmq.Socket[bytes]) -> Iterator[ToEngine]:
    while socket.poll(0):
        yield read_to_engine(socket.recv())


def _take(engine: RunningEngine, asked: _Waiting, watches: Watches) -> PromptTokens | bytes | None:
    """Submit a request for an answer, or return what else is asked for."""
    match asked:
        case Detokenize(tokens=tokens):
            return text_of(engine.vocabulary, tokens)
        case Tokenize():
            prompt = engine.prepare(asked.request(), received=asked.received)
            return describe_tokens(engine.vocabulary, prompt.tokens, texts=asked.texts)
        case Submit():
            _submit(engine, asked, asked.request(), None, watches)
        case Prepared(Tokenize(texts=texts), outcome):
            if isinstance(outcome, GuidedError):
                raise outcome
            return describe_tokens(engine.vocabulary, outcome[1].tokens, texts=texts)
        case Prepared(submit, outcome):
            if isinstance(outcome, GuidedError):
                engine.count_refused()
                raise outcome
            assert isinstance(submit, Submit), f"{submit!r} has a prompt"
            _submit(engine, submit, *outcome, watches)
    return None


def _submit(
    engine: RunningEngine, submit: Submit, request: GenerationRequest, prompt: Any, watches: Watches
) -> None:
    engine.submit(
        submit.request_id,
        request,
        received=submit.received,
        stream=submit.stream,
        trace=watches.begin(submit.request_id) if submit.watch else None,
        prompt=prompt,
        client=submit.client,
    )


def _message(request_id: str, outcome: GenerationResult | Finding | GuidedError) -> FromEngine:
    if isinstance(outcome, GuidedError):
        return Failed(request_id, record_error(outcome))
    if isinstance(outcome, GenerationResult):
        return Answered(request_id, outcome)
    return Found.of(request_id, outcome)


def _send(socket: zmq.Socket[bytes], message: FromEngine) -> None:
    socket.send(write(message))
