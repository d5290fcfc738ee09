"""Threads may read one stream together, though the transport has messages read one at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from guided.client import Request, Stream
from guided.client.retry import Attempts, Connection, Terms
from guided.v1 import generation_pb2 as pb

TEXT = "".join(map(chr, range(0x100, 0x180)))
THOUGHTS = "".join(map(chr, range(0x200, 0x220)))


class OneAtATime:
    """The messages of a call, which refuses a second reader as grpcio does."""

    def __init__(self, *messages: pb.GenerateStreamResponse) -> None:
        self._messages = iter(messages)
        self._reading = Lock()

    def __iter__(self) -> Iterator[pb.GenerateStreamResponse]:
        return self

    def __next__(self) -> pb.GenerateStreamResponse:
        if not self._reading.acquire(blocking=False):
            raise ValueError("another thread reads")
        try:
            time.sleep(0.0005)
            return next(self._messages)
        finally:
            self._reading.release()

    def cancel(self) -> bool:
        return False


def opened() -> Stream[str]:
    finished = pb.GenerateResponse(text=TEXT, finish_reason=pb.FINISH_REASON_STOP)
    messages = [
        *(pb.GenerateStreamResponse(reasoning_delta=character) for character in THOUGHTS),
        *(pb.GenerateStreamResponse(delta=character) for character in TEXT),
        pb.GenerateStreamResponse(answer=finished),
    ]
    attempts = Attempts(Terms(9.0, 0, 1), Connection())
    return Stream(Request[str]("?"), attempts, lambda _: OneAtATime(*messages))


def test_each_piece_is_read_by_one_of_the_threads() -> None:
    stream = opened()
    with ThreadPoolExecutor(4) as threads:
        read = [*threads.map(lambda _: [*stream], range(4))]
    assert sum(map(bool, read)) > 1
    assert sorted(character for pieces in read for character in pieces) == [*TEXT]
    assert all(pieces == sorted(pieces) for pieces in read), "each thread reads in order"
    assert stream.answer.text == TEXT


def test_threads_that_read_thoughts_lose_nothing_of_the_answer() -> None:
    stream = opened()
    with ThreadPoolExecutor(4) as threads:
        read = [*threads.map(lambda _: [*stream.thoughts()], range(4))]
    assert sorted(thought for pieces in read for thought in pieces) == [*THOUGHTS]
    assert "".join(stream) == TEXT
