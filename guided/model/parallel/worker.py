"""The program of every rank but the first: ``python -m guided.model.parallel.worker SETTINGS``.

It does what rank 0 tells it, and ends with it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NoReturn

import torch

from guided.errors import GuidedError
from guided.model.model_files import find_model
from guided.model.parallel.messages import (
    Call,
    Copy,
    Failed,
    FromRank,
    Loaded,
    Open,
    RankSettings,
    Started,
    read_settings,
    read_to_rank,
    write,
)
from guided.model.parallel.micro_batches import micro_batches
from guided.model.parallel.shares import device_of, join_group, load_share
from guided.model.progress import SilentProgress
from guided.model.runner import ModelRunner

__all__ = ["main"]

_UNREAD: Final = 1
"""Size of the vocabulary, because nothing reads the logits of this rank."""


def main() -> int:
    """Run the rank that the first argument describes; return the exit status."""
    # An interrupt from a terminal reaches this process too; rank 0 decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    settings = read_settings(sys.argv[1])
    control: Connection[bytes, bytes] = Connection(settings.control)
    threading.Thread(target=_end_with, args=(control.fileno(),), daemon=True).start()
    try:
        _send(control, Started())
        runner, loaded = _load(settings)
        _send(control, loaded)
        _serve(runner, control, settings.split.stages)
    except GuidedError as error:
        failed = Failed(str(error))
    except Exception as error:
        # Rank 0 decides whether to show it: if another rank was lost, this one adds nothing.
        failed = Failed(f"{type(error).__name__}: {error}", traceback.format_exc())
    with suppress(OSError):  # rank 0 itself may be gone
        _send(control, failed)
    return 1


def _end_with(control: int) -> NoReturn:
    """End this process, whatever it is doing, once rank 0 is gone."""
    poll = select.poll()
    poll.register(control, select.POLLRDHUP)
    poll.poll()
    os._exit(1)


def _load(settings: RankSettings) -> tuple[ModelRunner, Loaded]:
    """Load the runner of this rank's share, and describe it."""
    torch.set_num_threads(settings.threads)
    device = device_of(settings.device, settings.rank)
    join_group(settings.rank, settings.split.ranks, settings.meeting, device)
    progress = SilentProgress()
    files = find_model(str(Path(settings.folder)), progress)
    dtype: torch.dtype = getattr(torch, settings.dtype)
    share = load_share(files, dtype, device, settings.split, settings.rank, progress)
    runner = ModelRunner(
        share.module,
        vocabulary_size=_UNREAD,
        quantise_cache=settings.quantises_cache,
        stage=share.stage,
    )
    return runner, Loaded(share.nbytes, runner.shape.layers, runner.shape.windows)


def _serve(runner: ModelRunner, control: Connection[bytes, bytes], stages: int) -> NoReturn:
    """Do what rank 0 requests, until its end of the pipe closes."""
    while True:
        match read_to_rank(control.recv_bytes()):
            case Call() as call:
                for part in micro_batches(call.batch(), stages):
                    runner.forward(part)
            case Copy() as copy:
                runner.copy(copy.copies())
            case Open(num_slots):
                runner.open_storages(num_slots)


def _send(control: Connection[bytes, bytes], message: FromRank) -> None:
    control.send_bytes(write(message))


if __name__ == "__main__":
    # Threads of torch may wait for ranks that are gone.
    os._exit(main())
