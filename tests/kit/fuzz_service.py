"""Mutated messages and hostile constraints for a server: each call gets a status that says why.

The long form is ``python -m tests.kit.fuzz_service [--messages 100000] [--constraints 10000]``. A
status of the kind INTERNAL or UNKNOWN is a fault, and so is an engine that had to be started again,
and memory that stays behind: what the last call left is compared with what a tenth of them left.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import random
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import typer
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from guided.client import RawPrompt, Request
from guided.client.channel import CHANNEL_OPTIONS
from guided.errors import GuidedError
from guided.spec import Choice, Regex
from guided.v1 import generation_pb2 as pb
from guided.wire_request import encode_request
from tests.kit.callers import hostile_options
from tests.kit.fuzz_front_ends import FRONT_ENDS, mutated_text
from tests.kit.hard_schemas import hard_schema
from tests.kit.processes import facts_of
from tests.kit.soak import quiet, soak_server
from tests.service.server_process import ServerProcess

__all__ = ["Call", "Outcome", "grown", "hostile_calls", "mutated_calls", "try_calls"]

_PROPER: Final = frozenset(
    {
        *(grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE),
        *(grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.DEADLINE_EXCEEDED),
        *(grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.NOT_FOUND),
    }
)
_AT_ONCE: Final = 16
_LOOKS: Final = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Shares of the calls after which memory is looked at in the long form."""
_SHARE: Final = 1.05
"""Memory at the end, by that when what is kept was full."""

Call = tuple[str, bytes]
"""The name of a method, and its message."""


@dataclass
class Outcome:
    """What came of calls."""

    told: Counter[tuple[str, grpc.StatusCode]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    """Of server and engine in MiB, at the start and at each look; at the first of these what is
    kept is to be full."""

    def __str__(self) -> str:
        lines = [
            f"{name:15} {code.name:20} {n:7}"
            for (name, code), n in sorted(self.told.items(), key=str)
        ]
        sizes = " -> ".join(f"{server:.1f} + {engine:.1f}" for server, engine in self.memory)
        return "\n".join([*lines, f"MiB of server + engine: {sizes}", *self.faults[:50]])


def try_calls(
    server: ServerProcess,
    calls: Iterable[Call],
    count: int,
    seconds: float,
    looks: Sequence[float] = (0.1, 1.0),
    tell: Callable[[str], object] = str,
) -> Outcome:
    """Make ``count`` of the calls, each at most so long, some at once; ``tell`` gets memory at each
    of the ``looks``, which are shares of the calls."""
    outcome, engine, drawn = Outcome(), server.engine_process_id(), iter(calls)
    outcome.memory.append(_memory(server))
    for before, after in itertools.pairwise([0, *[int(count * share) for share in looks]]):
        asyncio.run(_try(server.address, drawn, after - before, seconds, outcome))
        quiet(server)
        if server.engine_process_id() != engine:
            outcome.faults.append("the engine was started again")
            engine = server.engine_process_id()
        outcome.memory.append(_memory(server))
        sizes = " + ".join(f"{size:.1f}" for size in outcome.memory[-1])
        tell(f"{after:7} calls, MiB of server + engine: {sizes}")
    return outcome


def _memory(server: ServerProcess) -> tuple[float, float]:
    engine = facts_of(server.engine_process_id())
    return facts_of(server.process.pid).mebibytes, engine.mebibytes


def grown(outcome: Outcome) -> list[str]:
    """What of the memory has not come back."""
    _, full, *_, last = outcome.memory
    return [
        f"the {name} grew from {before:.1f} to {after:.1f} MiB"
        for name, before, after in zip(("server", "engine"), full, last, strict=True)
        if after > _SHARE * before
    ]


async def _try(
    address: str, calls: Iterator[Call], count: int, seconds: float, outcome: Outcome
) -> None:
    left = iter(range(count))
    async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:

        async def caller() -> None:
            for _ in left:
                name, message = next(calls)
                code = await _status(channel, name, message, seconds)
                outcome.told[name, code] += 1
                if code not in _PROPER:
                    outcome.faults.append(f"{code.name} for {name} of {message[:2000].hex()}")

        await asyncio.gather(*(caller() for _ in range(_AT_ONCE)))


async def _status(
    channel: grpc.aio.Channel, name: str, message: bytes, seconds: float
) -> grpc.StatusCode:
    path = f"/guided.v1.GenerationService/{name}"
    alone: Any = channel.unary_unary(path)
    several: Any = channel.unary_stream(path)
    try:
        if name == "Generate":
            await alone(message, timeout=seconds)
        else:
            async for _ in several(message, timeout=seconds):
                pass
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


# Messages


def mutated_calls(rng: random.Random) -> Iterator[Call]:
    """Messages that were right until something happened to them."""
    while True:
        message = _wrapped(rng, _valid(rng))
        for _ in range(rng.choice([0, 1, 1, 3])):
            _twist(rng, message)
        packed = message.SerializeToString()
        if rng.random() < 0.6:
            for _ in range(rng.choice([1, 1, 2, 8])):
                packed = _broken(rng, packed)
        yield _METHODS[type(message)], packed


_METHODS: Final[dict[type[Message], str]] = {
    pb.GenerateRequest: "Generate",
    pb.GenerateStreamRequest: "GenerateStream",
    pb.GenerateBatchRequest: "GenerateBatch",
}


def _wrapped(rng: random.Random, request: pb.GenerateRequest) -> Message:
    match rng.randrange(4):
        case 0:
            return pb.GenerateStreamRequest(request=request)
        case 1:
            return pb.GenerateBatchRequest(requests=[request] * rng.choice([1, 2, 5]))
        case _:
            return request


def _valid(rng: random.Random) -> pb.GenerateRequest:
    constraints: tuple[dict[str, Any], ...] = (
        {"schema": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        {"schema": {"enum": ["one", 2, None]}},
        {"grammar": Regex("[a-z]{1,9}")},
        {"grammar": Choice(("left", "right"))},
        {},
    )
    options: tuple[dict[str, Any], ...] = (
        {},
        {"temperature": 1.0, "top_k": 5, "top_p": 0.9, "seed": 3},
        {"n": 2, "temperature": 1.0},
        {"stop": ("a", "b"), "top_logprobs": 2},
        {"repetition_penalty": 1.2, "logit_bias": {5: 1.0}, "priority": 3},
    )
    made = Request(
        RawPrompt("Say it: ") if rng.random() < 0.5 else "Say it.",
        **rng.choice(constraints),
        **rng.choice(options),
        max_tokens=rng.choice([1, 8, 24]),
    )
    return encode_request(made.specification)


_NUMBERS: Final = (0, 1, -1, 7, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**32 - 1)
_FLOATS: Final = (0.0, -0.0, 1e-300, -1.0, 1e300, math.nan, math.inf, -math.inf)
_TEXTS: Final = ("", "x", "\0", "é\U0001f600", "x" * 5000, "{" * 300, "<|im_end|>")


def _twist(rng: random.Random, message: Message) -> None:
    """Set some field of the message, or of one inside of it, to something far out."""
    fields: Any = message.DESCRIPTOR.fields
    known: FieldDescriptor = rng.choice(fields)
    if known.message_type is not None:
        if known.is_repeated:
            _twist(rng, getattr(message, known.name).add())
        else:
            getattr(message, known.name).SetInParent()
            _twist(rng, getattr(message, known.name))
        return
    value = _wild(rng, known)
    if value is None:
        return
    if known.is_repeated:
        getattr(message, known.name).extend([value] * rng.choice([1, 3, 200]))
    else:
        setattr(message, known.name, value)


def _wild(rng: random.Random, known: FieldDescriptor) -> Any:
    """A value that a field can hold, or ``None`` where there is none at hand."""
    if known.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return rng.choice(_FLOATS)
    if known.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if known.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        text = rng.choice(_TEXTS)
        return text if known.type == FieldDescriptor.TYPE_STRING else text.encode()
    low, high = _RANGES.get(known.cpp_type, (-(2**31), 2**31 - 1))
    return rng.choice([number for number in _NUMBERS if low <= number <= high])


_RANGES: Final = {
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def _broken(rng: random.Random, packed: bytes) -> bytes:
    """The bytes of a message with some changed, lost, doubled or put in."""
    first, last = sorted(rng.randrange(len(packed) + 1) for _ in range(2))
    match rng.randrange(6):
        case 0:
            return packed[:first] + packed[last:]
        case 1:
            return packed[:last] + packed[first:last] * rng.choice([1, 2, 20]) + packed[last:]
        case 2:
            return packed[:first] + rng.randbytes(rng.choice([1, 2, 9])) + packed[first:]
        case 3:
            # A key with the type of a field, and a length that is not there.
            key = bytes([rng.randrange(256)])
            return packed[:first] + key + struct.pack("<I", rng.getrandbits(31)) + packed[first:]
        case _:
            changed = bytearray(packed or b"\0")
            for _ in range(rng.choice([1, 1, 4])):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            return bytes(changed)


# Constraints


def hostile_calls(rng: random.Random) -> Iterator[Call]:
    """Constraints that are wrong, cannot be met, or take more work than they should."""
    while True:
        try:
            request = Request("x", **_hostile(rng), max_tokens=rng.choice([4, 32]))
        except GuidedError:
            continue  # the client itself refuses it
        yield "Generate", encode_request(request.specification).SerializeToString()


def _hostile(rng: random.Random) -> dict[str, Any]:
    kinds: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: hostile_options(rng),
        lambda: {"schema": hard_schema(rng)},
        lambda: {"grammar": _mutant(rng)},
    )
    return rng.choices(kinds, (1, 2, 4))[0]()


def _mutant(rng: random.Random) -> Any:
    make, valid = FRONT_ENDS[rng.choice(tuple(FRONT_ENDS))]
    text = rng.choice(valid)
    for _ in range(rng.choice([1, 2, 8])):
        text = mutated_text(text, rng.choice(valid), rng)
    return make(text.encode(errors="replace").decode())


def main() -> int:
    """Try as much as the command line says; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--constraints", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    given = parser.parse_args()
    typer.echo(f"seed {given.seed}")
    failed = False
    with (
        tempfile.TemporaryDirectory(prefix="guided-fuzz-") as folder,
        soak_server(Path(folder), 64) as server,
    ):
        for make, count in (
            (mutated_calls, given.messages),
            (hostile_calls, given.constraints),
        ):
            outcome = try_calls(
                server, make(random.Random(given.seed)), count, 10.0, _LOOKS, typer.echo
            )
            outcome.faults += grown(outcome)
            typer.echo(str(outcome))
            failed = failed or bool(outcome.faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
