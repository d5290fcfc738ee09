"""One life of the engine process, seen from the server."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Self
from uuid import uuid4

import zmq
import zmq.asyncio

from guided.error_record import rebuild_error
from guided.errors import GuidedError, ServiceUnavailableError
from guided.spec import GenerationRequest, GenerationResult, PromptTokens, TokenId
from guided.spec.delta import can_stream
from guided.spec.findings import Finding
from guided.stats import EngineStats
from guided_service.config import ServerConfig
from guided_service.launcher import EngineProcess, Launcher
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
    LogChoice,
    ModelChoice,
    NotStarted,
    Pulse,
    Ready,
    Report,
    Stop,
    Submit,
    ToEngine,
    Tokenize,
    read_finding,
    read_from_engine,
    read_prompt_tokens,
    read_pulse,
    read_text,
    write,
)
from guided_service.request_ids import engine_id_of
from guided_service.request_record import current_request_id
from guided_service.socket_folder import SocketFolder
from guided_service.stream_events import Outbox, StreamEvent

__all__ = ["CutOffError", "EngineConnection"]

_MANY_PARTS = 200
"""A request with more messages and constraints than this takes a few milliseconds to serialize."""

_LAST_WORDS_SECONDS = 0.1
"""How long the last messages of an ended process may take to arrive."""


def _new_id() -> str:
    """Return an id for the engine, containing the name of the request's record if any."""
    return engine_id_of(current_request_id() or uuid4().hex)


class CutOffError(ServiceUnavailableError):
    """The request was running when its engine ended, so it may be the cause."""


class EngineConnection:
    """A running engine process and the requests that wait for it."""

    def __init__(
        self,
        process: EngineProcess,
        context: zmq.asyncio.Context,
        socket: zmq.asyncio.Socket,
        pulses: zmq.asyncio.Socket,
        folder: SocketFolder,
    ) -> None:
        self._process = process
        self._context = context
        self._socket = socket
        self._pulses = pulses
        self._folder = folder
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        """Futures of requests' results and inspections' findings."""
        self.stats: EngineStats | None = None
        """The statistics last reported; ``None`` until the engine is ready."""
        self._outboxes: dict[str, Outbox] = {}

    @classmethod
    async def start(cls, launcher: Launcher, choice: ModelChoice, logs: LogChoice) -> Self:
        """Start the process and a socket for it; does not wait for the model to load."""
        with ExitStack() as opened:
            try:
                # Private to this user, so that nobody else can reach the engine.
                folder = SocketFolder()
                opened.callback(folder.close)
                endpoint = f"ipc://{folder.path / 'engine'}"
                settings = EngineSettings(choice, endpoint, os.getpid(), logs)
                context = zmq.asyncio.Context()
                opened.callback(context.destroy, linger=0)
                socket, pulses = context.socket(zmq.PAIR), context.socket(zmq.PULL)
                # Unbounded: the budget of what calls hold (held_bytes) already bounds it.
                socket.set_hwm(0)
                socket.linger = 0
                socket.bind(endpoint)
                pulses.bind(settings.pulse_endpoint)
                process = await launcher.launch(settings)
            except (OSError, zmq.ZMQError) as error:
                raise ServiceUnavailableError(
                    f"the engine process cannot be started: {error}",
                    hint="free descriptors, memory or room for temporary files",
                ) from error
            opened.pop_all()
        return cls(process, context, socket, pulses, folder)

    @property
    def process_id(self) -> int:
        """The id of the process."""
        return self._process.pid

    async def ready(self) -> Ready:
        """Wait until the model is loaded; raises the error that prevented it."""
        message = await self._next_message()
        match message:
            case Ready():
                return message
            case NotStarted(error):
                await self._process.wait()
                raise rebuild_error(error)
            case None:
                raise ServiceUnavailableError(
                    f"the engine process {self._ending()} before its model was loaded",
                    hint="its own output says why",
                )
            case _:
                raise AssertionError(f"the engine process began with {message!r}")

    async def serve(self) -> str:
        """Hand answers to their requests until the process ends; returns how it ended."""
        while (message := await self._next_message()) is not None:
            match message:
                case Grown(deltas):
                    for delta in deltas:
                        # Text and a cancellation may cross in transit.
                        if delta.request_id in self._outboxes:
                            self._outboxes[delta.request_id].put(delta)
                case Answered(request_id, result):
                    self._settle(request_id, result)
                case Found(request_id, finding):
                    self._settle(request_id, finding)
                case Failed(request_id, error):
                    self._settle(request_id, rebuild_error(error))
                case Report(stats):
                    self.stats = stats
                case _:
                    raise AssertionError(f"the engine process said {message!r} while it ran")
        ending = self._ending()
        self.fail_all(
            CutOffError(f"the engine process {ending} while the request ran", hint="try again")
        )
        return ending

    async def watch(
        self, limits: ServerConfig, set_alive: Callable[[bool], Awaitable[None]]
    ) -> None:
        """Report when the process falls silent and when it answers again; kill one that hangs.

        Runs until cancelled, or until it has killed the process.
        """
        silent = unmoved = 0.0
        turns, is_alive, turn = -1, True, limits.silence_seconds / 4
        while True:
            began = time.monotonic()
            pulse = await self._next_pulse(turn)
            # If this process itself was paused, count little of the pause: nobody was listening.
            passed = min(time.monotonic() - began, 2 * turn)
            silent = 0.0 if pulse is not None else silent + passed
            has_moved = pulse is not None and pulse.turns != turns
            unmoved = 0.0 if has_moved else unmoved + passed
            turns = turns if pulse is None else pulse.turns
            if silent > limits.hang_seconds or unmoved > limits.stuck_seconds:
                with suppress(ProcessLookupError):  # it may just have ended
                    self._process.kill()
                return
            if is_alive != (silent < limits.silence_seconds):
                is_alive = not is_alive
                await set_alive(is_alive)

    async def _next_pulse(self, seconds: float) -> Pulse | None:
        if not await self._pulses.poll(int(seconds * 1000)):
            return None
        return read_pulse(await self._pulses.recv())

    async def generate(
        self, request: GenerationRequest, received: float, client: str = ""
    ) -> GenerationResult:
        """Generate one answer for a client; cancelling this call cancels the request."""
        request_id = _new_id()
        submit = partial(Submit.of, request_id, request)
        written = _written(request, partial(submit, received=received, stream=False, client=client))
        with self._sent(request_id, await written) as answer:
            result: GenerationResult = await answer
        return result

    async def inspect(self, asked: Inspect) -> Finding:
        """Work on a constraint; cancelling this call cancels the work."""
        with self._sent(asked.request_id, write(asked)) as future:
            return read_finding[asked.what](await future)

    async def tokenize(
        self, request: GenerationRequest, received: float, *, texts: bool
    ) -> PromptTokens:
        """Return the tokens of a request's prompt; cancelling this call cancels the work."""
        request_id = _new_id()
        make = partial(Tokenize.of, request_id, request, received=received, texts=texts)
        with self._sent(request_id, await _written(request, make)) as found:
            return read_prompt_tokens(await found)

    async def detokenize(self, tokens: tuple[TokenId, ...]) -> bytes:
        """Return the text that tokens stand for."""
        request_id = _new_id()
        with self._sent(request_id, write(Detokenize(request_id, tokens))) as found:
            return read_text(await found)

    async def stream(
        self,
        request: GenerationRequest,
        received: float,
        client: str = "",
        *,
        is_watched: bool = False,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the answers to a request as they grow, then its result; closing cancels it.

        A watched request yields lines of ``watching``, which show how its answer comes about,
        instead of text. Ranked answers are only in the result.
        """
        request_id, outbox = _new_id(), Outbox()
        grows = not is_watched and can_stream(request)
        submit = partial(Submit.of, request_id, request, received=received, client=client)
        written = _written(request, partial(submit, stream=grows, watch=is_watched))
        self._outboxes[request_id] = outbox
        try:
            with self._sent(request_id, await written) as answer:
                answer.add_done_callback(lambda _: outbox.close())
                while delta := await outbox.take():
                    yield delta
                yield await answer
        finally:
            del self._outboxes[request_id]

    @contextmanager
    def _sent(self, request_id: str, message: bytes) -> Iterator[asyncio.Future[Any]]:
        """Send a message and yield its answer's future; cancels the request if unanswered."""
        # The process may have ended while a long message was serialized.
        if self._process.returncode is not None:
            raise ServiceUnavailableError("the engine is gone", hint="try again shortly")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        try:
            self._send_bytes(message)
            del message  # the socket has its own until the engine has taken it
            yield future
        finally:
            del self._waiting[request_id]
            if future.cancelled() or not future.done():
                # If the engine is gone, nothing is left to cancel.
                with suppress(ServiceUnavailableError):
                    self._send(Cancel(request_id))
            else:
                # Retrieve the error: if the caller has left, asyncio would report it as never
                # retrieved.
                future.exception()

    def fail_all(self, error: GuidedError) -> None:
        """Fail all pending requests with an error."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)

    async def stop(self, grace_seconds: float) -> None:
        """End the process, by force if it does not end within the grace period."""
        try:
            if self._process.returncode is None:
                self._send(Stop())
                async with asyncio.timeout(grace_seconds):
                    await self._process.wait()
        except (TimeoutError, ServiceUnavailableError):
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
        self.close()

    def close(self) -> None:
        """Release the socket and its folder; the process must have ended."""
        self._socket.close()
        self._pulses.close(linger=0)
        self._context.term()
        self._folder.close()

    async def _next_message(self) -> FromEngine | None:
        """Return the next message; ``None`` once the process has ended and all are read."""
        receiving = asyncio.ensure_future(self._socket.recv())
        ended = asyncio.create_task(self._process.wait())
        try:
            await asyncio.wait({receiving, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                await asyncio.wait({receiving}, timeout=_LAST_WORDS_SECONDS)
            return read_from_engine(receiving.result()) if receiving.done() else None
        finally:
            receiving.cancel()
            ended.cancel()

    def _settle(self, request_id: str, outcome: object) -> None:
        future = self._waiting.get(request_id)
        # An answer and a cancellation may cross in transit.
        if future is None or future.done():
            return
        if isinstance(outcome, GuidedError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def _send(self, message: ToEngine) -> None:
        self._send_bytes(write(message))

    def _send_bytes(self, message: bytes) -> None:
        # With DONTWAIT the future is already done when returned.
        sent = asyncio.ensure_future(self._socket.send(message, zmq.DONTWAIT))
        error = sent.exception()
        if isinstance(error, zmq.Again):
            raise ServiceUnavailableError(
                "the engine process does not take requests", hint="try again"
            ) from error
        if error is not None:
            raise error

    def _ending(self) -> str:
        code = self._process.returncode
        assert code is not None, "the process has not ended"
        return f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"


async def _written(request: GenerationRequest, make: Callable[[], ToEngine]) -> bytes:
    """Make and serialize the message of a request, in a thread if it has many parts."""

    def write_made() -> bytes:
        return write(make())

    return await asyncio.to_thread(write_made) if _has_many_parts(request) else write_made()


def _has_many_parts(request: GenerationRequest) -> bool:
    count = len(request.prompt) if isinstance(request.prompt, tuple) else 0
    level = [] if request.constraint is None else [request.constraint]
    while level and count <= _MANY_PARTS:
        count += len(level)
        level = [inner for part in level for inner in part.inner()]
    return count > _MANY_PARTS
