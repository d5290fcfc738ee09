"""The calls of ``GrammarService``: work in the engine process, and stored constraints."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal, Protocol, TypeAlias
from uuid import uuid4

from typing_extensions import override

from guided.errors import RequestError
from guided.spec import (
    CheckedConstraint,
    GenerationRequest,
    SchemaReport,
    TextReport,
    check_salt,
)
from guided.spec.findings import Finding
from guided.v1 import grammar_pb2
from guided.v1.grammar_pb2_grpc import GrammarServiceServicer
from guided.wire import refuse_unknown_fields
from guided.wire_grammar import encode_cost, encode_info, encode_report, encode_text_report
from guided.wire_request import encode_constraint
from guided_service.calls import aborts_on_error
from guided_service.config import ServerConfig
from guided_service.constraint_store import ConstraintStore
from guided_service.defaults import fill_constraint
from guided_service.door import Door
from guided_service.held_bytes import count_held
from guided_service.messages import Inspect
from guided_service.object_sizes import memory_of
from guided_service.status import Context

__all__ = ["GrammarServicer", "Inspector", "report_beside", "unreported"]

_Asking: TypeAlias = (
    grammar_pb2.CheckRequest | grammar_pb2.CompileRequest | grammar_pb2.ValidateTextRequest
)


class Inspector(Protocol):
    """Works on constraints."""

    def check_ready(self) -> None:
        """Raise ``ServiceUnavailableError`` unless work is taken."""

    async def inspect(self, asked: Inspect) -> Finding:
        """Work on a constraint; cancelling the caller ends it."""


class GrammarServicer(GrammarServiceServicer):
    """Passes constraints to the engine, in places shared with answers, and keeps some of them."""

    def __init__(
        self,
        inspector: Inspector,
        door: Door,
        store: ConstraintStore,
        config: ServerConfig,
    ) -> None:
        self._inspector = inspector
        self._door = door
        self._store = store
        self._config = config

    @override
    @aborts_on_error
    async def Check(
        self, request: grammar_pb2.CheckRequest, context: Context
    ) -> grammar_pb2.CheckResponse:
        _, found = await self._inspected(request, context, "check")
        assert isinstance(found, CheckedConstraint), f"checking gave {found!r}"
        return grammar_pb2.CheckResponse(
            report=encode_report(found.report), cost=encode_cost(found.cost)
        )

    @override
    @aborts_on_error
    async def Compile(
        self, request: grammar_pb2.CompileRequest, context: Context
    ) -> grammar_pb2.CompileResponse:
        message, found = await self._inspected(request, context, "compile")
        assert isinstance(found, CheckedConstraint), f"compiling gave {found!r}"
        info = self._store.put(request.cache_salt, message, found)
        return grammar_pb2.CompileResponse(
            grammar=encode_info(info), report=encode_report(found.report)
        )

    @override
    @aborts_on_error
    async def ValidateText(
        self, request: grammar_pb2.ValidateTextRequest, context: Context
    ) -> grammar_pb2.ValidateTextResponse:
        _, found = await self._inspected(request, context, "read", request.text)
        assert isinstance(found, TextReport), f"reading a text gave {found!r}"
        return encode_text_report(found)

    @override
    @aborts_on_error
    async def List(
        self, request: grammar_pb2.ListRequest, context: Context
    ) -> grammar_pb2.ListResponse:
        refuse_unknown_fields(request)
        check_salt(request.cache_salt)
        kept = self._store.listed(request.cache_salt)
        return grammar_pb2.ListResponse(grammars=map(encode_info, kept))

    @override
    @aborts_on_error
    async def Delete(
        self, request: grammar_pb2.DeleteRequest, context: Context
    ) -> grammar_pb2.DeleteResponse:
        refuse_unknown_fields(request)
        check_salt(request.cache_salt)
        self._store.delete(request.cache_salt, request.constraint_id)
        return grammar_pb2.DeleteResponse()

    async def _inspected(
        self,
        request: _Asking,
        context: Context,
        what: Literal["check", "compile", "read"],
        text: str = "",
    ) -> tuple[bytes, Finding]:
        """Return the message of the call's constraint and the finding about it."""
        received, remaining = time.monotonic(), context.time_remaining()
        self._inspector.check_ready()
        check_salt(request.cache_salt)
        if not request.HasField("constraint"):
            raise RequestError("the call names no constraint", field="constraint")
        deadline = None if remaining is None else received + remaining
        # In addition to the call's message there is one of its constraint and one to the engine.
        count_held(2 * request.ByteSize() + memory_of(text))
        caller = self._door.caller(context)
        async with self._door.working(caller, received, seconds=remaining):
            # In a thread: a large message takes a while, and others are served meanwhile.
            await asyncio.to_thread(refuse_unknown_fields, request)
            message = self._message(request)
            if request.constraint.constraint_id:
                count_held(len(message))
            asked = Inspect(
                *(uuid4().hex, what, message, text, deadline),
                model=request.model,
                client=caller.client.name,
            )
            return message, await self._inspector.inspect(asked)

    def _message(self, request: _Asking) -> bytes:
        constraint = request.constraint
        if constraint.WhichOneof("kind") == "constraint_id":
            return self._store.message(request.cache_salt, constraint.constraint_id)
        fill_constraint(constraint, self._config)
        return constraint.SerializeToString()


@asynccontextmanager
async def report_beside(
    inspector: Inspector, request: GenerationRequest, client: str
) -> AsyncIterator[asyncio.Task[SchemaReport] | None]:
    """Yield the task of the report that a request wants; cancels it if unfinished at the end."""
    if not request.report:
        yield None
        return
    task = asyncio.create_task(_report(inspector, request, client))
    try:
        yield task
    finally:
        task.cancel()
        # If the answer failed, its error is reported, not that of the report.
        await asyncio.gather(task, return_exceptions=True)


def unreported(request: GenerationRequest) -> GenerationRequest:
    """Return the request for the engine: the report is made separately."""
    return replace(request, report=False) if request.report else request


async def _report(inspector: Inspector, request: GenerationRequest, client: str) -> SchemaReport:
    assert request.constraint is not None, "a report without a constraint"
    message = encode_constraint(request.constraint).SerializeToString()
    # Without the request's deadline: an answer that was closed to meet it must not be lost for
    # this.
    asked = Inspect(uuid4().hex, "check", message, model=request.model, client=client)
    found = await inspector.inspect(asked)
    assert isinstance(found, CheckedConstraint), f"checking gave {found!r}"
    return found.report
