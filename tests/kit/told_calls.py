"""Makes calls, and records what the server returned: the status of each, or a fault."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import grpc.aio
import httpx2
from google.protobuf.message import DecodeError

from guided.client.security import CHANNEL_OPTIONS
from guided.v1 import generation_pb2 as pb
from tests.kit.service_calls import Call

__all__ = ["Outcome", "make_calls"]

_PROPER: Final = frozenset(
    {
        *(grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE),
        *(grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.DEADLINE_EXCEEDED),
        *(grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.NOT_FOUND),
    }
)
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
_SERVER_ERRORS: Final = (503, 504)
"""Server errors that are no fault: busy or stopping, and late."""
_MEMBERS: Final = {"message", "type", "param", "code"}
_ANTHROPICS: Final = {"message", "type", "guided"}
_AT_ONCE: Final = 16


@dataclass
class Outcome:
    """The outcomes of calls."""

    told: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Counts by the place of the call and its status; items of a batch count separately as well."""
    faults: list[str] = field(default_factory=list)

    def table(self) -> str:
        """A table of how often each status was returned."""
        return "\n".join(
            f"{place.removeprefix('guided.v1.'):36} {said:20} {count:7}"
            for (place, said), count in sorted(self.told.items())
        )

    def note(self, call: Call, said: str, fault: str | None, part: str = "") -> None:
        """Count the status of a call, or of a part of it."""
        self.told[call.place + part, said] += 1
        if fault is not None:
            self.faults.append(f"{fault} for {call.place}{part} of {call.message[:2000].hex()}")


async def make_calls(
    address: str, url: str, calls: Iterator[Call], count: int, seconds: float, outcome: Outcome
) -> None:
    """Make ``count`` of the calls, some at once, each within a number of seconds.

    ``address`` is that of gRPC, and ``url`` the beginning of the paths over HTTP.
    """
    left = iter(range(count))
    async with (
        grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel,
        httpx2.AsyncClient(base_url=url, timeout=seconds) as web,
    ):

        async def caller() -> None:
            for _ in left:
                call = next(calls)
                if call.face == "grpc":
                    await _call(channel, call, seconds, outcome)
                else:
                    await _post(web, call, outcome)

        await asyncio.gather(*(caller() for _ in range(_AT_ONCE)))


async def _call(channel: grpc.aio.Channel, call: Call, seconds: float, outcome: Outcome) -> None:
    code = grpc.StatusCode.OK
    try:
        several: Any = channel.unary_stream(f"/{call.place}")
        # A method with one answer is read as a stream of one.
        async for answer in several(call.message, timeout=seconds):
            if call.place.endswith("/GenerateBatch"):
                _judge_item(call, answer, outcome)
    except grpc.aio.AioRpcError as error:
        code = error.code()
    outcome.note(call, code.name, None if code in _PROPER else code.name)


def _judge_item(call: Call, answer: bytes, outcome: Outcome) -> None:
    """Each request of a batch has a status of its own, while that of the call is OK."""
    try:
        item = pb.GenerateBatchResponse.FromString(answer)
    except DecodeError as error:
        return outcome.note(call, "unreadable", str(error), " item")
    code = _CODES.get(item.error.code, grpc.StatusCode.UNKNOWN)
    outcome.note(call, code.name, None if code in _PROPER else code.name, " item")


async def _post(web: httpx2.AsyncClient, call: Call, outcome: Outcome) -> None:
    kind = {"content-type": "application/json"}
    try:
        response = await web.post(call.place, content=call.message, headers=kind)
    except httpx2.TimeoutException:
        return outcome.note(call, "left", None)
    except httpx2.TransportError as error:
        return outcome.note(call, "cut off", repr(error))
    fault = _fault_of(response)
    said = str(response.status_code)
    if response.is_success and (told := _error_within(response)) is not None:
        said = f"{said}, then {told.get('code')}"
        fault = None if told.get("code") != "internal" else f"an event {told}"
    outcome.note(call, said, fault)


def _fault_of(response: httpx2.Response) -> str | None:
    if response.is_success:
        return None
    status = response.status_code
    if not (400 <= status < 500 or status in _SERVER_ERRORS):
        return f"{status}"
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        return f"{status} without an error: {response.text[:200]!r}"
    members = _ANTHROPICS if response.url.path.startswith("/v1/messages") else _MEMBERS
    is_whole = isinstance(error, dict) and set(error) == members
    return None if is_whole else f"{status} with another error: {error!r}"


def _error_within(response: httpx2.Response) -> dict[str, Any] | None:
    """The error that ended a stream, if one did."""
    # Not ``splitlines``: the JSON of one event may contain other line separators.
    for line in response.text.split("\n"):
        if line.startswith("data: {"):
            event = json.loads(line.removeprefix("data: "))
            if event.get("type") == "error":
                return dict(event)
            if isinstance(event.get("error"), dict):
                return dict(event["error"])
    return None
