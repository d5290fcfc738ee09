"""Constraints without answers: ``client.grammars`` checks them, and keeps some on the server.

Making requests and reading responses is shared; ``Grammars`` blocks, ``AsyncGrammars`` is awaited.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

from google.protobuf.message import Message
from typing_extensions import TypeForm

from guided.client.options import Schema
from guided.client.prompt import RawPrompt
from guided.client.request import NO_MODEL, Request
from guided.client.services import LoopServices, Services
from guided.errors import RequestError
from guided.spec import GrammarInfo, JsonOptions, SchemaReport, Stored, Structure, TextReport
from guided.v1 import generation_pb2 as pb
from guided.v1 import grammar_pb2
from guided.wire import encodable
from guided.wire_grammar import decode_info, decode_report, decode_text_report
from guided.wire_request import encode_constraint

__all__ = ["AsyncGrammars", "ConstraintOptions", "Grammars"]

R = TypeVar("R")


class _Ask(Protocol):
    """Makes a call of the server within a time, ``None`` for the client's own."""

    def __call__(self, call: Callable[..., R], message: Message, timeout: float | None) -> R: ...


class _AsyncAsk(Protocol):
    """Makes a call of the server, to be awaited."""

    async def __call__(
        self, call: Callable[..., Awaitable[R]], message: Message, timeout: float | None
    ) -> R: ...


class ConstraintOptions(TypedDict, total=False):
    """The constraint, as in a request, unless a response model gives it."""

    schema: Schema | None
    grammar: Structure | re.Pattern[str] | None
    json_options: JsonOptions
    documents: Mapping[str, Schema]
    model: str
    """The model whose tokens count, on a server with several; empty means the first."""
    cache_salt: str
    """The salt that constraints are stored under and named by; empty means no salt."""
    timeout: float | None
    """In seconds; ``None`` takes the client's."""


class _Question:
    """A question to the server, checked like a request, and how its response is read."""

    def __init__(self, model: TypeForm[Any], options: ConstraintOptions) -> None:
        given: dict[str, Any] = {**options}
        self.timeout: float | None = given.pop("timeout", None)
        # A request checks the combination of options; this one's prompt is never sent.
        self._request: Request[Any] = Request(RawPrompt("-"), model, **given)
        asked = self._request.specification
        if asked.constraint is None:
            raise RequestError(
                "there is no constraint",
                field="constraint",
                hint="pass a response_model, a schema or a grammar",
            )
        self._constraint = encode_constraint(asked.constraint)
        self._of: dict[str, str] = {"cache_salt": asked.cache_salt, "model": asked.model}

    def check(self) -> grammar_pb2.CheckRequest:
        return grammar_pb2.CheckRequest(constraint=self._constraint, **self._of)

    def compile(self) -> grammar_pb2.CompileRequest:
        return grammar_pb2.CompileRequest(constraint=self._constraint, **self._of)

    def validate(self, text: str) -> grammar_pb2.ValidateTextRequest:
        if not isinstance(text, str):
            raise RequestError(f"{text!r} is no text", field="text", hint="pass a string")
        with encodable("text"):
            return grammar_pb2.ValidateTextRequest(
                constraint=self._constraint, text=text, **self._of
            )

    def report(self, message: pb.EnforcementReport) -> SchemaReport:
        return self._request.with_validators(decode_report(message))

    def info(self, response: grammar_pb2.CompileResponse) -> GrammarInfo:
        return replace(decode_info(response.grammar), report=self.report(response.report))


def _list(cache_salt: str) -> grammar_pb2.ListRequest:
    with encodable("cache_salt"):
        return grammar_pb2.ListRequest(cache_salt=cache_salt)


def _infos(response: grammar_pb2.ListResponse) -> list[GrammarInfo]:
    return [decode_info(each) for each in response.grammars]


def _delete(constraint: str | Stored, cache_salt: str) -> grammar_pb2.DeleteRequest:
    name = constraint.constraint_id if isinstance(constraint, Stored) else constraint
    if not isinstance(name, str):
        raise RequestError(
            f"{constraint!r} is no id of a constraint", field="constraint", hint="pass a string"
        )
    with encodable("constraint"):
        return grammar_pb2.DeleteRequest(constraint_id=name, cache_salt=cache_salt)


class Grammars:
    """Works on constraints without answers; threads may share it.

    >>> client.grammars.check(Ticket).shortest_answer
    >>> kept = client.grammars.compile(Ticket)
    >>> client.generate("Card payments fail.", Ticket, grammar=kept.constraint)
    """

    def __init__(self, services: Services, ask: _Ask) -> None:
        self._services = services
        self._ask = ask

    def check(
        self, response_model: TypeForm[Any] = NO_MODEL, **options: Unpack[ConstraintOptions]
    ) -> SchemaReport:
        """Report how far answers would be held to a constraint; raises if it is unenforceable."""
        asked = _Question(response_model, options)
        told = self._ask(self._services.grammars.Check, asked.check(), asked.timeout)
        return asked.report(told.report)

    def compile(
        self, response_model: TypeForm[Any] = NO_MODEL, **options: Unpack[ConstraintOptions]
    ) -> GrammarInfo:
        """Check a constraint and keep it on the server for requests to name (``Stored``)."""
        asked = _Question(response_model, options)
        told = self._ask(self._services.grammars.Compile, asked.compile(), asked.timeout)
        return asked.info(told)

    def validate(
        self,
        text: str,
        response_model: TypeForm[Any] = NO_MODEL,
        **options: Unpack[ConstraintOptions],
    ) -> TextReport:
        """Report whether a text, or its beginning, fits, and where it leaves the constraint."""
        asked = _Question(response_model, options)
        told = self._ask(self._services.grammars.ValidateText, asked.validate(text), asked.timeout)
        return decode_text_report(told)

    def list(
        self, *, cache_salt: str = "", timeout: float | None = None
    ) -> builtins.list[GrammarInfo]:
        """Return the constraints kept for a salt, the least recently used first."""
        return _infos(self._ask(self._services.grammars.List, _list(cache_salt), timeout))

    def delete(
        self, constraint: str | Stored, *, cache_salt: str = "", timeout: float | None = None
    ) -> None:
        """Have the server forget a constraint; raises UnknownConstraintError."""
        self._ask(self._services.grammars.Delete, _delete(constraint, cache_salt), timeout)


class AsyncGrammars:
    """Constraints without answers, as ``Grammars``, for the event loop of its client."""

    def __init__(self, services: LoopServices, ask: _AsyncAsk) -> None:
        self._services = services
        self._ask = ask

    async def check(
        self, response_model: TypeForm[Any] = NO_MODEL, **options: Unpack[ConstraintOptions]
    ) -> SchemaReport:
        """Report how far answers would be held to a constraint; raises if it is unenforceable."""
        asked = _Question(response_model, options)
        told = await self._ask(self._services.grammars.Check, asked.check(), asked.timeout)
        return asked.report(told.report)

    async def compile(
        self, response_model: TypeForm[Any] = NO_MODEL, **options: Unpack[ConstraintOptions]
    ) -> GrammarInfo:
        """Check a constraint and keep it on the server for requests to name (``Stored``)."""
        asked = _Question(response_model, options)
        told = await self._ask(self._services.grammars.Compile, asked.compile(), asked.timeout)
        return asked.info(told)

    async def validate(
        self,
        text: str,
        response_model: TypeForm[Any] = NO_MODEL,
        **options: Unpack[ConstraintOptions],
    ) -> TextReport:
        """Report whether a text, or its beginning, fits, and where it leaves the constraint."""
        asked = _Question(response_model, options)
        call = self._services.grammars.ValidateText
        told = await self._ask(call, asked.validate(text), asked.timeout)
        return decode_text_report(told)

    async def list(
        self, *, cache_salt: str = "", timeout: float | None = None
    ) -> builtins.list[GrammarInfo]:
        """Return the constraints kept for a salt, the least recently used first."""
        return _infos(await self._ask(self._services.grammars.List, _list(cache_salt), timeout))

    async def delete(
        self, constraint: str | Stored, *, cache_salt: str = "", timeout: float | None = None
    ) -> None:
        """Have the server forget a constraint; raises UnknownConstraintError."""
        await self._ask(self._services.grammars.Delete, _delete(constraint, cache_salt), timeout)
