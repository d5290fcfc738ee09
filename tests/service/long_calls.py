"""Many calls with one long message at once, over several connections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc

from guided.v1 import generation_pb2 as pb
from tests.service.server_process import ServerProcess

__all__ = ["long_calls"]

_CONNECTIONS = 8
_POOL = (("grpc.use_local_subchannel_pool", 1),)


@contextmanager
def long_calls(server: ServerProcess, number: int, nbytes: int) -> Iterator[list[Any]]:
    """Make ``number`` calls with a schema of ``nbytes`` bytes, which are cancelled at the end."""
    schema = json.dumps({"description": "x" * nbytes})
    message = pb.GenerateRequest(
        text="wait", constraint=pb.Constraint(json_schema=schema), max_tokens=10
    ).SerializeToString()
    with ExitStack() as opened:
        channels = [
            opened.enter_context(grpc.insecure_channel(server.address, options=_POOL))
            for _ in range(_CONNECTIONS)
        ]
        # Raw bytes: the sender is not under test.
        methods: list[Any] = [
            each.unary_unary("/guided.v1.GenerationService/Generate") for each in channels
        ]
        calls = [methods[each % _CONNECTIONS].future(message, timeout=60) for each in range(number)]
        for call in calls:
            opened.callback(call.cancel)
        yield calls
