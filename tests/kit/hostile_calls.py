"""Calls made to keep a server busy: for answers, to work on constraints, with very long prompts.

``python -m tests.kit.hostile_calls ADDRESS NAME`` makes them from a separate process when it reads
a line, and prints their outcome.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import grpc
import typer

from guided.errors import GuidedError
from guided.spec import GenerationRequest, Structure
from guided.v1 import generation_pb2 as pb
from guided.v1 import grammar_pb2
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided.v1.grammar_pb2_grpc import GrammarServiceStub
from guided.wire_request import encode_constraint, encode_request
from tests.kit.hostile_constraints import HOSTILE

__all__ = ["HOSTILE_CALLS", "hostile_caller"]

_HostileCall = Callable[[grpc.Channel], str]
"""Makes calls over a channel, and returns their outcome in words."""

_SECONDS: Final = 300.0
_PROMPTS: Final = 156
_PROMPT_BYTES: Final = 3_800_000
_PROMPTS_SECONDS: Final = 6.0
_WORKED_ON: Final = (
    "20,000 dots",
    "one of 40 overlapping objects",
    "an enum of 980 KB",
    "60 tools to call",
    "a grammar of 4,000 rules",
)
"""Constraints with which texts are also checked, compiled and read."""


def _answered(make: Callable[[], Structure], channel: grpc.Channel) -> str:
    try:
        message = encode_request(GenerationRequest("x", make(), max_tokens=24))
    except GuidedError as error:
        return type(error).__name__
    return _told(GenerationServiceStub(channel).Generate.future(message, timeout=_SECONDS))


def _worked_on(method: str, make: Callable[[], Structure], channel: grpc.Channel) -> str:
    constraint = encode_constraint(make())
    stub = GrammarServiceStub(channel)
    asked: Mapping[str, tuple[Any, Any]] = {
        "Check": (stub.Check, grammar_pb2.CheckRequest(constraint=constraint)),
        "Compile": (stub.Compile, grammar_pb2.CompileRequest(constraint=constraint)),
        "ValidateText": (
            stub.ValidateText,
            grammar_pb2.ValidateTextRequest(constraint=constraint, text="x" * 50_000),
        ),
    }
    call, message = asked[method]
    return _told(call.future(message, timeout=_SECONDS))


def _long_prompts(channel: grpc.Channel) -> str:
    """Send long prompts all at once, and give up those that have not ended after some seconds."""
    text = "a few words again and again " * (_PROMPT_BYTES // 28)
    message = pb.GenerateRequest(text=text, max_tokens=24).SerializeToString()
    method: Any = channel.unary_unary("/guided.v1.GenerationService/Generate")
    calls = [method.future(message, timeout=_SECONDS) for _ in range(_PROMPTS)]
    end = time.monotonic() + _PROMPTS_SECONDS
    while time.monotonic() < end and not all(call.done() for call in calls):
        time.sleep(0.1)
    for call in calls:
        call.cancel()
    told = Counter(map(_told, calls))
    return ", ".join(f"{count} {code}" for code, count in told.most_common())


def _told(call: Any) -> str:
    try:
        call.result()
    except grpc.FutureCancelledError:
        return grpc.StatusCode.CANCELLED.name
    except grpc.RpcError:
        pass  # only its code is needed
    name: str = call.code().name
    return name


HOSTILE_CALLS: Final[Mapping[str, _HostileCall]] = {
    **{name: partial(_answered, make) for name, make in HOSTILE.items()},
    **{
        f"{method}, {name}": partial(_worked_on, method, HOSTILE[name])
        for name in _WORKED_ON
        for method in ("Check", "Compile", "ValidateText")
    },
    f"{_PROMPTS} prompts of 3.8 MB": _long_prompts,
}
"""By description."""


@contextmanager
def hostile_caller(address: str, name: str) -> Iterator[Callable[[], str]]:
    """A function that makes calls of this name in another process, sharing no lock with ours."""
    command = (sys.executable, "-m", "tests.kit.hostile_calls", address, name)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # wait until it has loaded everything

        def call() -> str:
            told, _ = process.communicate("go\n")
            return told.strip()

        yield call


def main() -> None:
    address, name = sys.argv[1:]
    typer.echo("ready")
    sys.stdin.readline()
    with grpc.insecure_channel(address) as channel:
        typer.echo(HOSTILE_CALLS[name](channel))


if __name__ == "__main__":
    main()
