"""The other ranks, as rank 0 sees them: processes that it starts, commands, and may lose."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

import msgspec
import torch
from torch import distributed

from guided.errors import GuidedError, ModelError
from guided.model.parallel.messages import (
    Failed,
    FromRank,
    Loaded,
    RankSettings,
    Started,
    ToRank,
    read_from_rank,
    write,
)
from guided.model.parallel.shares import RANK_VARIABLES, device_of, join_group
from guided.model.parallel.split import Split

__all__ = ["Ranks"]


_Kind = TypeVar("_Kind", Started, Loaded)
_PROGRAM: Final = "guided.model.parallel.worker"
_GRACE: Final = 2.0
"""Seconds in which the ends of all ranks are noticed: one that is lost takes others with it."""
_log: Final = logging.getLogger(__name__)
_HINT: Final = "load the model again; if memory ran out, choose a smaller cache or more ranks"


@dataclass(frozen=True, slots=True)
class _Loss:
    """How a rank ended."""

    error: ModelError
    failed: Failed | None
    """Its own report, perhaps of the loss of another rank; ``None`` if it was killed."""


class Ranks:
    """The ranks from 1 on. A process has one set of them at a time.

    If a call fails on any rank, the others wait for ever: then all are ended, and the model has to
    be loaded again.
    """

    def __init__(self, settings: RankSettings, place: TemporaryDirectory[str]) -> None:
        self.split: Final = settings.split
        self._place = place
        self._on_loss: Callable[[ModelError], None] | None = None
        self._losses: list[_Loss] = []
        self._has_lost = threading.Event()
        self._is_closing = False
        self._environment = {name: os.environ.get(name) for name in RANK_VARIABLES}
        """The old values of what ``join_group`` sets: the process outlives its ranks."""
        self._others: list[_Rank] = []
        atexit.register(self.close)
        for rank in range(1, settings.split.ranks):
            other = msgspec.structs.replace(settings, rank=rank)
            self._others.append(_Rank(other, self._record_loss))

    @classmethod
    def start(
        cls,
        folder: Path,
        dtype: torch.dtype,
        device: torch.device,
        split: Split,
        *,
        threads: int,
        quantises_cache: bool = False,
    ) -> Ranks:
        """Start and meet the ranks; they begin to load their shares of the model in ``folder``."""
        if distributed.is_initialized():
            raise ModelError(
                "this process is already a rank of a model",
                hint="load one model over several ranks in a process, and close it before another",
            )
        place = TemporaryDirectory(prefix="guided-ranks-")
        settings = RankSettings(
            rank=0,
            split=split,
            meeting=str(Path(place.name, "meeting")),
            control=-1,
            folder=str(folder),
            dtype=str(dtype).removeprefix("torch."),
            device=device.type,
            threads=threads,
            quantises_cache=quantises_cache,
        )
        found = cls(settings, place)
        with found.together():
            found._receive(Started)
            join_group(0, split.ranks, settings.meeting, device_of(device.type, 0))
        return found

    def wait_until_loaded(
        self, on_loss: Callable[[ModelError], None] | None = None
    ) -> list[Loaded]:
        """Wait until all have loaded; return what they hold, by rank from 1 on.

        From then on ``on_loss`` is called when a rank ends, in a thread of its own, even while no
        call is made.
        """
        with self.together():
            others = self._receive(Loaded)
        # Groups that were made during loading met there as well.
        self._place.cleanup()
        self._on_loss = on_loss
        return others

    @contextmanager
    def together(self, message: ToRank | None = None) -> Iterator[None]:
        """Send the others a message, and do the same in the block; an error there ends them all."""
        try:
            if message is not None:
                self._send(message)
            yield
        except BaseException as error:
            cause = self._cause(error)
            self.close()
            if cause is error:
                raise
            raise cause from error

    def close(self) -> None:
        """End the other ranks, and leave their group."""
        if self._is_closing:
            return
        self._is_closing = True
        atexit.unregister(self.close)
        for other in self._others:
            other.end()
        if distributed.is_initialized():
            distributed.destroy_process_group()
        for name, value in self._environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._place.cleanup()

    def _send(self, message: ToRank) -> None:
        if self._is_closing:
            raise ModelError("the ranks of this model have ended", hint=_HINT)
        payload = write(message)
        for other in self._others:
            other.send(payload)

    def _receive(self, kind: type[_Kind]) -> list[_Kind]:
        """Return the next message of each, which must be of a kind."""
        found = []
        for other in self._others:
            message = other.receive()
            if isinstance(message, ModelError):
                raise message
            assert isinstance(message, kind), f"{message!r} instead of {kind.__name__}"
            found.append(message)
        return found

    def _record_loss(self, loss: _Loss) -> None:
        """Record an end that was not requested."""
        if self._is_closing:
            return
        self._losses.append(loss)
        if self._on_loss is not None:
            # It may end the process, before a call that fails by the same loss reports it too.
            self._on_loss(self._first_loss())
        self._has_lost.set()

    def _first_loss(self) -> ModelError:
        """Return the likeliest origin: a killed rank reports nothing, and others miss it."""
        time.sleep(_GRACE / 4)
        loss = min(self._losses, key=lambda loss: loss.failed is not None)
        if loss.failed is not None and loss.failed.trace:
            _log.error("%s\n%s", loss.error, loss.failed.trace)
        return loss.error

    def _cause(self, error: BaseException) -> BaseException:
        """Return the cause of an error here: a lost rank shows as a broken connection."""
        if isinstance(error, Exception) and self._has_lost.wait(_GRACE):
            is_ended = any(loss.failed is None for loss in self._losses)
            # All ranks refuse a model for the same reason; ours is the one to report.
            return error if isinstance(error, GuidedError) and not is_ended else self._first_loss()
        return error


def _start_process(
    settings: RankSettings, control: Connection[bytes, bytes]
) -> subprocess.Popen[bytes]:
    """Start the process of a rank, which has one end of the connection."""
    with_control = msgspec.structs.replace(settings, control=control.fileno())
    return subprocess.Popen(
        [sys.executable, "-m", _PROGRAM, msgspec.json.encode(with_control).decode()],
        stdin=subprocess.DEVNULL,
        pass_fds=(control.fileno(),),
    )


class _Rank:
    """One other rank: its process, and the thread that listens to it."""

    def __init__(self, settings: RankSettings, note: Callable[[_Loss], None]) -> None:
        ours, theirs = Pipe()
        with theirs:
            self._process = _start_process(settings, theirs)
        self._rank = settings.rank
        self._control: Connection[bytes, bytes] = ours
        self._messages: SimpleQueue[FromRank | ModelError] = SimpleQueue()
        self._note = note
        name = f"rank {settings.rank}"
        self._listening = threading.Thread(target=self._listen, name=name, daemon=True)
        self._listening.start()

    def send(self, payload: bytes) -> None:
        """Send a message; raises ``OSError`` if the rank no longer receives."""
        self._control.send_bytes(payload)

    def receive(self) -> FromRank | ModelError:
        """Return the next message, or how the rank ended."""
        return self._messages.get()

    def end(self) -> None:
        """End the process, which holds nothing that has to be kept."""
        self._process.kill()
        self._process.wait()
        if threading.current_thread() is not self._listening:
            self._listening.join()
            self._control.close()

    def _listen(self) -> None:
        """Run the thread: pass on the rank's messages until it ends, then report why it ended."""
        failed: Failed | None = None
        with suppress(EOFError, OSError):
            while True:
                message = read_from_rank(self._control.recv_bytes())
                if isinstance(message, Failed):
                    failed = message
                else:
                    self._messages.put(message)
        status = self._process.wait()
        # If the model or the settings are wrong, the reason also says the way out.
        hint = None if failed is not None and not failed.trace else _HINT
        if failed is not None:
            how = f"failed: {failed.reason}"
        else:
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        error = ModelError(f"rank {self._rank} (process {self._process.pid}) {how}", hint=hint)
        self._messages.put(error)
        self._note(_Loss(error, failed))
