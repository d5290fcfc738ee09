"""Judges schemas in a forked process, replaced after a crash, a hang, or too much memory."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import resource
import signal
import time
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.adapter import Adapter
from benchmarks.peers.judging import Document, Job, Judged, Status, judge

__all__ = ["Worker"]

_START_SECONDS: Final = 180
_GRACE_SECONDS: Final = 1.0
"""How long a schema may pass its limit before its worker is killed."""
_WARM_UP: Final = Job(
    {"type": "object", "properties": {"a": {"type": "string"}}},
    [Document({"a": "b"}, True)],
    limit=30,
)


class Worker:
    """One engine in a process of its own, on one thread."""

    def __init__(self, adapter: Adapter, gibibytes: float = 6.0) -> None:
        self._adapter = adapter
        self._gibibytes = gibibytes
        self._process: ForkProcess | None = None

    def run(self, job: Job) -> Judged:
        """Judge a schema; what came before a crash or a hang is kept."""
        process = self._process or self._start()
        part = Judged()
        last = time.monotonic() + job.limit + _GRACE_SECONDS
        try:
            self._connection.send(job)
            while True:
                if self._connection.poll(0.05):
                    is_done, judged = self._connection.recv()
                    if not is_done:
                        part.take(judged)
                        continue
                    if _resident(process.pid) > self._gibibytes * 0.75:
                        self.stop()  # what one schema leaves must not fail the next
                    assert isinstance(judged, Judged)
                    return judged
                if not process.is_alive():
                    raise EOFError
                if time.monotonic() > last:
                    return self._broken_off(part, "timeout", f"{_place(part)} (killed)")
                if _resident(process.pid) > self._gibibytes:
                    full = f"memory over {self._gibibytes} GiB, {_place(part)}"
                    return self._broken_off(part, "crash", full)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            process.join(5)
            return self._broken_off(part, "crash", f"status {process.exitcode}, {_place(part)}")

    def stop(self) -> None:
        """End the process; the next schema starts another."""
        if self._process is None:
            return
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._process = None

    def _start(self) -> ForkProcess:
        context = multiprocessing.get_context("fork")
        self._connection, far = context.Pipe()
        self._process = context.Process(target=_serve, args=(far, self._adapter), daemon=True)
        self._process.start()
        far.close()
        with contextlib.suppress(EOFError):
            if self._connection.poll(_START_SECONDS) and self._connection.recv() == "ready":
                return self._process
        self.stop()
        raise RuntimeError(f"the worker of {self._adapter.name} did not start")

    def _broken_off(self, part: Judged, status: Status, detail: str) -> Judged:
        self.stop()
        part.status, part.detail = status, detail
        return part


def _serve(connection: Connection, adapter: Adapter) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    adapter.attach()
    # Code paths, and pages shared with the parent: no schema is the first of its process.
    judge(adapter, _WARM_UP)
    gc.collect()
    gc.freeze()
    connection.send("ready")
    while True:
        job: Any = connection.recv()
        gc.disable()
        judged = judge(adapter, job, lambda part: connection.send((False, part)))
        gc.enable()
        gc.collect()
        connection.send((True, judged))


def _place(part: Judged) -> str:
    return "compiling" if part.ttfm_us is None else "in the walk"


def _resident(process: int | None) -> float:
    """Return the gibibytes of a process; 0 if it is gone."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * resource.getpagesize() / 2**30
