"""Answers calls that look at a constraint: the mask after some tokens, and its automaton.

Somebody waits for it in a browser, so it is given up after ``look_seconds``; HTTP has no deadline
that a caller could name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeAlias
from uuid import uuid4

import msgspec
from pydantic import Field
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from guided.errors import RequestError
from guided.spec.findings import Automaton, Finding, MaskReport
from guided.wire_request import encode_constraint
from guided_service.config import ServerConfig
from guided_service.door import Caller
from guided_service.held_bytes import count_held
from guided_service.http.body import read_body, read_json
from guided_service.http.call import (
    Face,
    Response,
    fail,
    taken_call,
    while_connected,
)
from guided_service.http.constraints import ConstraintFields
from guided_service.http.errors import JsonObject
from guided_service.http.fields import Body, Listed, TokenIdField, given
from guided_service.http.find_model import find_model
from guided_service.messages import Inspect
from guided_service.object_sizes import memory_of

__all__ = ["Findings", "describe_mask", "read_drawing", "told"]


class Look(msgspec.Struct, frozen=True):
    """What a call requests."""

    model: str
    """The model's name as the caller gave it."""
    work: Inspect
    constraint_field: str
    """The field of the body that the constraint came from, for errors."""


_Reads: TypeAlias = Callable[[Body, ServerConfig], Look]


class MaskRequest(ConstraintFields):
    """The body of a call for a mask: a constraint as in chat completions, and tokens."""

    tokens: Listed[TokenIdField] = Field(default_factory=list)
    """Ids of the tokens after which the mask is requested."""


def describe_mask(body: Body, config: ServerConfig) -> Look:
    """Read a request for the mask after some tokens; raises RequestError."""
    asked = given(MaskRequest, body)
    return _asked(asked, config, Inspect(uuid4().hex, "mask", b"", tokens=tuple(asked.tokens)))


def read_drawing(body: Body, config: ServerConfig) -> Look:
    """Read a request for the automaton of a constraint; raises RequestError."""
    return _asked(given(ConstraintFields, body), config, Inspect(uuid4().hex, "draw", b""))


def _asked(fields: ConstraintFields, config: ServerConfig, work: Inspect) -> Look:
    wanted = fields.wanted(config)
    if wanted is None:
        raise RequestError("the call names no constraint", field="response_format")
    message = encode_constraint(wanted.structure).SerializeToString()
    whole = msgspec.structs.replace(work, constraint=message)
    return Look(fields.model, whole, wanted.field)


def told(finding: Finding) -> JsonObject:
    """Return a finding as JSON."""
    match finding:
        case MaskReport():
            return {
                "allowed": finding.allowed,
                "forbidden": finding.forbidden,
                "may_end": finding.may_end,
                "forced": _text(finding.forced),
                "first": [{"id": each.token, "shown": _text(each.text)} for each in finding.first],
            }
        case Automaton():
            built: JsonObject = msgspec.to_builtins(finding)
            return built
    raise AssertionError(f"{finding!r} was not asked for")


def _text(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")


class Findings:
    """The application of one path: has the engine work on a constraint while answers run."""

    def __init__(self, face: Face, method: str, read: _Reads) -> None:
        """``method`` is its name in logs."""
        self._face = face
        self._method = method
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        face = self._face
        async with taken_call(face, self._method, scope, send) as (_, caller, response):
            body = await read_body(Headers(scope=scope), receive, face.config)
            look = await face.readers.do(partial(self._asked, body), len(body))
            count_held(memory_of(look.work))
            model = find_model(look.model, face.engine, face.config)
            work = msgspec.structs.replace(look.work, model=model.name)
            try:
                await while_connected(receive, self._done(work, caller, response))
            except Exception as error:
                await fail(response, error, face, {"constraint": look.constraint_field})

    def _asked(self, body: bytes) -> Look:
        config = self._face.config
        return self._read(read_json(body, config.max_message_fields), config)

    async def _done(self, work: Inspect, caller: Caller, response: Response) -> None:
        received, seconds = time.monotonic(), self._face.config.look_seconds
        work = msgspec.structs.replace(work, deadline=received + seconds, client=caller.client.name)
        async with self._face.door.working(caller, received, seconds=seconds):
            finding = await self._face.engine.inspect(work)
        await response.whole(told(finding))
