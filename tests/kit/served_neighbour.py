"""How long the stream of one caller of a server waits while other callers do something."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided.wire_request import encode_request
from tests.kit.neighbour import NEIGHBOUR, Gaps
from tests.service.server_process import ServerProcess

__all__ = ["served_gaps"]

_FEWEST = 40
_PAUSE = 0.01


@dataclass
class _Reader:
    """Reads the neighbour's streams, one after another, and notes when a piece came."""

    address: str
    engine: int
    marks: list[tuple[float, float]] = field(default_factory=list)
    """Moments by the clock and in the engine's processor time."""
    is_closing: bool = False
    fault: Exception | None = None

    def read(self) -> None:
        try:
            self._read()
        except Exception as fault:
            self.fault = fault

    def _read(self) -> None:
        asked = pb.GenerateStreamRequest(request=encode_request(NEIGHBOUR))
        with grpc.insecure_channel(self.address) as channel:
            stub: Any = GenerationServiceStub(channel)
            while not self.is_closing:
                for piece in stub.GenerateStream(asked, timeout=600):
                    if piece.delta:
                        self.marks.append((time.perf_counter(), _processor_seconds(self.engine)))
                    if self.is_closing:
                        return

    def wait_for(self, count: int) -> None:
        while len(self.marks) < count:
            if self.fault is not None:
                raise self.fault
            time.sleep(_PAUSE)


@contextmanager
def _reading(server: ServerProcess) -> Iterator[_Reader]:
    reader = _Reader(server.address, server.engine_process_id())
    thread = threading.Thread(target=reader.read, daemon=True)
    thread.start()
    try:
        yield reader
    finally:
        reader.is_closing = True
        thread.join()


def served_gaps(server: ServerProcess, hostile: Callable[[], str] | None) -> Gaps:
    """The neighbour's gaps until other work beside it is done, or its usual gaps."""
    with _reading(server) as reader:
        reader.wait_for(3)
        first, began = len(reader.marks) - 1, time.perf_counter()
        outcome = "" if hostile is None else hostile()
        wall = time.perf_counter() - began
        reader.wait_for(first + _FEWEST + 1)
        marks = reader.marks[first:]
    clock, work = (
        tuple([after - before for before, after in itertools.pairwise(each)])
        for each in zip(*marks, strict=True)
    )
    return Gaps(clock, work, outcome, wall)


def _processor_seconds(process: int) -> float:
    """The processor time of all threads of a process: on Linux its clock has this number."""
    return time.clock_gettime(~process << 3 | 2)
