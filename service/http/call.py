"""The life of a call over HTTP, from its header to the end of its answer.

::

    header ──▶ token ──▶ body, in bounds ──▶ Asked ──▶ a place ──▶ the engine ──▶ answer or events
       │ 401     │ 413, 415, 408   │ 400       │ 429, 503   │ the caller leaves: cancelled
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import msgspec
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from guided.bearer import token_of
from guided.errors import RequestCancelledError, UnauthenticatedError
from guided.spec import GenerationRequest, GenerationResult, SchemaReport
from guided.spec.tool_format import FORMATS
from guided.v1 import generation_pb2 as pb
from guided.wire_request import encode_request
from guided_service.config import ServerConfig
from guided_service.door import Admitted, Caller, Door
from guided_service.grammar_servicer import report_beside, unreported
from guided_service.held_bytes import count_held
from guided_service.http.asked import Asked, Form, FormOfSeveral, Shown
from guided_service.http.body import read_body, read_json
from guided_service.http.carrier import carrier_of
from guided_service.http.dialect import Dialect, dialect_of
from guided_service.http.errors import JsonObject, refusal_of
from guided_service.http.find_model import find_model
from guided_service.http.sent_names import CameFrom
from guided_service.http.side_by_side import OneAtATime, all_or_none
from guided_service.http.thinking import thinking_if_able
from guided_service.intake import Readers
from guided_service.large_answers import encoded_answer, scored_bytes
from guided_service.object_sizes import memory_of
from guided_service.request_record import (
    RequestRecord,
    note_client,
)
from guided_service.request_watch import UNREAD, WatchesRequests, item_of_call
from guided_service.servicers import Engine
from guided_service.token_book import TokenBook

__all__ = [
    "Answers",
    "Face",
    "Reads",
    "Response",
    "fail",
    "taken_call",
    "while_connected",
]

Reads: TypeAlias = Callable[[dict[str, Any], ServerConfig], Asked]
"""Turns the body of a call into what it requests; raises RequestError."""

Made: TypeAlias = tuple[GenerationResult, JsonObject | None]
"""An answer, and the report on its constraint if one was requested."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Face:
    """What all calls over HTTP share, most of it with those over gRPC."""

    engine: Engine
    door: Door
    readers: Readers
    watch: WatchesRequests
    book: TokenBook | None
    """The tokens of which callers must show one; ``None`` to require none."""
    config: ServerConfig

    def caller(self, scope: Scope, headers: Headers) -> Caller:
        """Return the caller; raises ``UnauthenticatedError`` if it lacks a required token."""
        if self.book is None:
            return self.door.stranger(carrier_of(scope).identity())
        shown = _shown_tokens(headers)
        if len(shown) > 1:  # whose call it is would be unclear
            raise UnauthenticatedError(
                "the call's headers do not show one and the same token",
                hint="pass one, as 'x-api-key: ...' or as 'Authorization: Bearer ...'",
            )
        token = next(iter(shown), None)
        found = None if token is None else self.book.find(token)
        if found is None:
            raise UnauthenticatedError(
                "the call shows no token that this server knows",
                hint="pass it as api_key=... to the client, or as 'Authorization: Bearer ...'",
            )
        caller = self.door.holder(*found)
        note_client(caller.client.name)
        return caller


def _shown_tokens(headers: Headers) -> set[str | None]:
    """Return the tokens that a call shows as OpenAI's clients do or as Anthropic's.

    ``None`` is among them for an ``authorization`` without one.
    """
    bearers = [token_of(value) for value in headers.getlist("authorization")]
    return {*bearers, *headers.getlist("x-api-key")}


@dataclass(slots=True)
class Response:
    """Sends the response to one call."""

    scope: Scope
    send: Send
    request_id: str
    stall_seconds: float
    is_begun: bool = field(default=False, init=False)
    is_stream: bool = field(default=False, init=False)

    @property
    def dialect(self) -> Dialect:
        """Whose API the call speaks."""
        return dialect_of(self.scope)

    async def whole(
        self, body: JsonObject, status: int = 200, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Send an answer at once."""
        await self.content(_encode(body), "application/json", status, headers)

    async def content(
        self,
        content: bytes,
        kind: str,
        status: int = 200,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Send some content of a media type at once."""
        named = (("content-type", kind), ("content-length", str(len(content))))
        await self._begin(status, (*named, *headers))
        await self._put({"type": "http.response.body", "body": content})

    async def piece(self, events: bytes) -> None:
        """Send some events of a stream, which the first call begins."""
        if not self.is_begun:
            self.is_stream = True
            kind = ("content-type", "text/event-stream; charset=utf-8")
            # Keeps proxies from buffering the stream.
            await self._begin(
                200, (kind, ("cache-control", "no-cache"), ("x-accel-buffering", "no"))
            )
        await self._put({"type": "http.response.body", "body": events, "more_body": True})

    async def end(self) -> None:
        """End a stream."""
        await self._put({"type": "http.response.body", "body": b""})

    async def _begin(self, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        self.is_begun = True
        ids = [(name, self.request_id) for name in self.dialect.id_headers]
        named = (*headers, *ids)
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in named]
        await self._put({"type": "http.response.start", "status": status, "headers": raw})

    async def _put(self, message: Message) -> None:
        """Send a message, once the caller has read enough of those before it."""
        try:
            async with asyncio.timeout(self.stall_seconds):
                await self.send(message)
        except TimeoutError as error:
            carrier_of(self.scope).cut()
            raise RequestCancelledError(
                f"the caller read nothing of the answer for {self.stall_seconds:g} s",
                hint="read faster, or ask for less at once",
            ) from error


class Answers:
    """The application of one path: answers calls that ask the model for something."""

    def __init__(
        self, face: Face, method: str, prefix: str, read: Reads, *, is_watched: bool = False
    ) -> None:
        """``method`` is its name in logs, ``prefix`` begins the ids of its answers.

        Streams of watched answers are lines of ``guided_service.watching``.
        """
        self._face = face
        self._is_watched = is_watched
        self._method = method
        self._prefix = prefix
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        taken = taken_call(self._face, self._method, scope, send)
        async with taken as (record, caller, response):
            asked, size = await self._asked(record, Headers(scope=scope), receive)
            received = time.monotonic()
            await self._answer(asked, caller, receive, response, size, received)

    async def _asked(
        self, record: RequestRecord, headers: Headers, receive: Receive
    ) -> tuple[Asked, int]:
        """Return what a call requests, and the size of its body, which is not kept."""
        face = self._face
        body = await read_body(headers, receive, face.config)
        asked, message, made = await face.readers.do(partial(self._read_body, body), len(body))
        count_held(made)
        face.watch.note_message(record, message)
        return asked, len(body)

    def _read_body(
        self, body: bytes
    ) -> tuple[Asked, pb.GenerateRequest | pb.GenerateBatchRequest, int]:
        """Return what the body requests, as a message too, and the memory that both take."""
        config = self._face.config
        asked = self._read(read_json(body, config.max_message_fields), config)
        message = encode_request(asked.request)
        size = memory_of(asked.request) + message.ByteSize()
        # The prompts share the rest of the request here, but not on the way to the engine.
        of_first = len(message.text.encode()) or message.tokens.ByteSize()
        shared = message.ByteSize() - of_first
        size += sum([2 * memory_of(each.prompt) + shared for each in asked.others])
        return asked, pb.GenerateBatchRequest() if asked.others else message, size

    async def _answer(
        self,
        asked: Asked,
        caller: Caller,
        receive: Receive,
        response: Response,
        size: int,
        received: float,
    ) -> None:
        form: Form | None = None
        try:
            asked, shown = await self._checked(asked, response, size)
            if asked.several is None:
                form = one = asked.form(shown)
                making = self._made(asked, caller, one, response, size, received)
            else:
                form = several = asked.several(shown)
                making = self._made_several(asked, caller, several, response, size, received)
            await while_connected(receive, making)
        except Exception as error:
            await fail(response, error, self._face, asked.came_from, form)

    async def _checked(self, asked: Asked, response: Response, size: int) -> tuple[Asked, Shown]:
        """Return what a call requests of the model that is to answer, and what answers state."""
        face = self._face
        model = find_model(asked.model, face.engine, face.config)
        adapter = asked.model if asked.model in model.adapters else asked.request.adapter
        if asked.thinks_if_able:
            able = thinking_if_able(asked.request, model, asked.thoughts_fault)
            asked = replace(asked, request=able)
        requests = [replace(each, model=model.name, adapter=adapter) for each in asked.requests]

        def check_prompts() -> None:
            for request in requests:
                face.engine.check_prompt(request)

        await face.readers.do(check_prompts, size)
        shown = Shown(
            f"{self._prefix}{response.request_id}",
            int(time.time()),
            adapter or model.name,
            FORMATS[model.tool_format],
            model.context_window,
        )
        return replace(asked, request=requests[0], others=tuple(requests[1:])), shown

    async def _made(
        self,
        asked: Asked,
        caller: Caller,
        form: Form,
        response: Response,
        size: int,
        received: float,
    ) -> None:
        """Generate an answer and send it; a stream holds its place until its last text is taken."""
        piece = response.piece if asked.is_streamed else None
        result, told = await self._one(asked.request, caller, form, piece, size, received)
        # The place is free by now: an answer that waits to be read delays nobody else.
        if asked.is_streamed:
            async with encoded_answer(partial(form.ended, report=told), result) as encoded:
                await response.piece(encoded)
            await response.end()
        else:
            whole = partial(form.whole, report=told)
            async with encoded_answer(lambda answer: _encode(whole(answer)), result) as encoded:
                await response.content(encoded, "application/json")

    async def _made_several(
        self,
        asked: Asked,
        caller: Caller,
        form: FormOfSeveral,
        response: Response,
        size: int,
        received: float,
    ) -> None:
        """Generate an answer to each prompt, and send them together or as they grow."""
        requests, face = asked.requests, self._face
        # Read for what all of them have in common.
        message = await face.readers.do(partial(encode_request, asked.request), size)
        # Admit the prompts together or not at all.
        face.door.check_room(caller, requests, size)
        piece = OneAtATime(response.piece) if asked.is_streamed else None

        async def one(number: int, request: GenerationRequest) -> Made:
            with item_of_call(face.watch, number, message):
                of_prompt = form.beside(number)
                result, told = await self._one(
                    request, caller, of_prompt, piece, size // len(requests), received
                )
                if piece is None:
                    count_held(scored_bytes(result))  # it waits for those of the other prompts
                    return result, told
                async with encoded_answer(of_prompt.last, result) as last:
                    await piece(last)
                # The end of the stream says no more than what all answers cost.
                return replace(result, logprobs=(), candidates=()), told

        made = await all_or_none([one(*each) for each in enumerate(requests)])
        results, told = [result for result, _ in made], made[0][1]
        if piece is not None:
            await piece(form.end(results, told))
            await response.end()
        else:
            encoded = await asyncio.to_thread(lambda: _encode(form.together(results, told)))
            await response.content(encoded, "application/json")

    async def _one(
        self,
        request: GenerationRequest,
        caller: Caller,
        form: Form,
        piece: Callable[[bytes], Awaitable[None]] | None,
        size: int,
        received: float,
    ) -> Made:
        """Return a request's answer, and the report on it; ``piece`` sends its text as it grows."""
        name, engine = caller.client.name, self._face.engine
        async with (
            self._face.door.admitted(caller, request, size, received) as admitted,
            report_beside(engine, request, name) as report,
        ):
            if piece is not None:
                result = await self._grown(admitted, name, form, piece)
            else:
                asked = unreported(admitted.request)
                result = await engine.generate(asked, admitted.received, name)
            admitted.answered(result)
            return result, None if report is None else _told(await report)

    async def _grown(
        self,
        admitted: Admitted,
        client: str,
        form: Form,
        piece: Callable[[bytes], Awaitable[None]],
    ) -> GenerationResult:
        stream = self._face.engine.stream(
            unreported(admitted.request), admitted.received, client, is_watched=self._is_watched
        )
        sent = set[int]()
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, GenerationResult):
                    return _without_scores(event, sent)
                if event.is_thought:
                    grown = form.thought(event.text, event.index)
                else:
                    grown = form.grown(event.text, event.logprobs, event.index)
                if event.ended is not None:
                    async with encoded_answer(form.closed, event.ended) as closed:
                        await piece(grown + closed)
                    sent.add(event.ended.index)
                elif grown:
                    await piece(grown)
        raise AssertionError("a stream ended without its answer")


def _without_scores(result: GenerationResult, sent: Collection[int]) -> GenerationResult:
    """Return a result without the log-probabilities of those candidates that were sent."""
    if not sent:
        return result
    candidates = [
        replace(one, logprobs=()) if one.index in sent else one for one in result.candidates
    ]
    return replace(result, logprobs=(), candidates=tuple(candidates))


def _told(report: SchemaReport) -> JsonObject:
    """Return a report by the names that it has over gRPC too."""
    told: JsonObject = msgspec.to_builtins(report)
    # Only a client knows the validators of a Python type.
    del told["unenforced_validators"]
    return told


@asynccontextmanager
async def taken_call(
    face: Face, method: str, scope: Scope, send: Send
) -> AsyncIterator[tuple[RequestRecord, Caller, Response]]:
    """Take a known caller's call: record it in the log, bound what it holds, and answer with the
    error if the block raises one.
    """
    client = scope["client"] or ("unknown", 0)
    record = RequestRecord(
        service=dialect_of(scope).service,
        method=method,
        peer=f"http:{client[0]}:{client[1]}",
        operation=UNREAD,
        route=scope["path"],
        request_id=carrier_of(scope).call_id(),
    )
    response = Response(scope, send, record.request_id, face.config.stall_seconds)
    headers = Headers(scope=scope)
    with face.watch.watching(record, None, dict(headers.items())):
        try:
            caller = face.caller(scope, headers)
            face.engine.check_ready()
            with face.door.held.of_call(caller.client.name):
                yield record, caller, response
        except Exception as error:
            await fail(response, error, face)


async def fail(
    response: Response,
    error: Exception,
    face: Face,
    came_from: CameFrom | None = None,
    form: Form | None = None,
) -> None:
    """End a call with an error: as its answer, or as the last event of a stream."""
    refusal = refusal_of(error, face.config.retry_after_seconds, came_from)
    body = response.dialect.error(refusal, response.request_id)
    try:
        if not response.is_begun:
            await response.whole(body, refusal.status, refusal.headers)
        elif response.is_stream and form is not None:
            await response.piece(form.failed(body))
            await response.end()
        # Else the answer was being sent, and its caller is not reading it.
    except RequestCancelledError:
        return  # nobody reads the error


async def while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do some work; if the caller leaves, cancels it and raises RequestCancelledError."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise RequestCancelledError("the caller left before its answer was complete")
        working.result()
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
