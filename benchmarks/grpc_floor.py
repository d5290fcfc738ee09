"""Measures grpcio's first message of a stream between two processes that do nothing else.

`python benchmarks/grpc_floor.py [--rounds N] [--pause SECONDS]`

The server echoes messages, by threads or under asyncio, and so do the clients send them; no stream
over gRPC can begin sooner. With a pause before each round, processes must be woken and caches
refilled, as when calls come rarely. Prints the 10th and the 50th percentile of the times.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
import numpy as np

_METHOD: Final = "/floor.Floor/Echo"
_MESSAGE: Final = b"x" * 100
_WARM: Final = 50
"""Rounds that do not count."""


def main() -> None:
    parser = argparse.ArgumentParser(description="What grpcio takes for a first message.")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--serve", choices=["threads", "asyncio"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve == "threads":
        _serve_by_threads()
    elif options.serve == "asyncio":
        asyncio.run(_serve_under_asyncio())
    else:
        for kind in ("threads", "asyncio"):
            _measure(kind, options.rounds, options.pause)


def _measure(kind: str, rounds: int, pause: float) -> None:
    command = [sys.executable, __file__, "--serve", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = f"127.0.0.1:{server.stdout.readline().strip()}"
        _print(f"server: {kind}, client: blocking", _by_blocking(address, rounds, pause))
        _print(f"server: {kind}, client: asyncio", asyncio.run(_by_asyncio(address, rounds, pause)))
        server.kill()


def _by_blocking(address: str, rounds: int, pause: float) -> list[float]:
    times = []
    with grpc.insecure_channel(address) as channel:
        stream: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(_METHOD)
        for _ in range(rounds):
            time.sleep(pause)
            began = time.perf_counter()
            call = stream(_MESSAGE)
            next(call)
            times.append(time.perf_counter() - began)
            assert not [*call]
    return times


async def _by_asyncio(address: str, rounds: int, pause: float) -> list[float]:
    times = []
    async with grpc.aio.insecure_channel(address) as channel:
        stream: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(_METHOD)
        for _ in range(rounds):
            await asyncio.sleep(pause)
            began = time.perf_counter()
            call = stream(_MESSAGE)
            await call.read()
            times.append(time.perf_counter() - began)
            assert await call.read() is grpc.aio.EOF
    return times


def _print(way: str, times: list[float]) -> None:
    low, middle = np.percentile(times[_WARM:], (10, 50)) * 1e3
    print(f"{way:36} p10 {low:.2f} ms, p50 {middle:.2f} ms", flush=True)


def _serve_by_threads() -> None:
    def echo(message: bytes, _: grpc.ServicerContext) -> Iterator[bytes]:
        yield message

    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((_handler(echo),))
    _say_port(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    server.wait_for_termination()


async def _serve_under_asyncio() -> None:
    async def echo(
        message: bytes, _: grpc.aio.ServicerContext[bytes, bytes]
    ) -> AsyncIterator[bytes]:
        yield message

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_handler(echo),))
    _say_port(server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    await server.wait_for_termination()


def _handler(echo: Callable[..., Any]) -> grpc.GenericRpcHandler:
    method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(echo)
    return grpc.method_handlers_generic_handler("floor.Floor", {"Echo": method})


def _say_port(port: int) -> None:
    print(port, flush=True)


if __name__ == "__main__":
    main()
