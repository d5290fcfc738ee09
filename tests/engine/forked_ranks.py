"""Forked ranks, for tests to which it does not matter how ranks are started."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from unittest.mock import patch

import msgspec

from guided.model.parallel import ranks, worker
from guided.model.parallel.messages import RankSettings
from tests.kit.forks import forking

__all__ = ["forked"]


@contextmanager
def forked() -> Iterator[list[int]]:
    """Fork the ranks that are started meanwhile; yields their process ids, as they start."""
    ids: list[int] = []

    def started(settings: RankSettings, control: Connection[bytes, bytes]) -> _Forked:
        process = _Forked(settings, control)
        ids.append(process.pid)
        return process

    with patch.object(ranks, "_start_process", started):
        yield ids


class _Forked:
    """The methods of a rank's process that the engine uses."""

    def __init__(self, settings: RankSettings, control: Connection[bytes, bytes]) -> None:
        self._process = forking().Process(target=_be_rank, args=(settings, control), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._waiting = threading.Lock()

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        """Wait for the exit status, in any thread; the system reports it only once."""
        with self._waiting:
            self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode


def _be_rank(settings: RankSettings, control: Connection[bytes, bytes]) -> None:
    told = msgspec.structs.replace(settings, control=control.fileno())
    sys.argv = [worker.__file__, msgspec.json.encode(told).decode()]
    os._exit(worker.main())
