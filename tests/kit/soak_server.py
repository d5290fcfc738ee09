"""A server as ``guided serve`` runs it, which reports the tasks of its event loop on SIGUSR1."""

from __future__ import annotations

import asyncio
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Final

from guided_service.config import ServerConfig
from guided_service.engine_supervisor import log_choice_of
from guided_service.logs import configure_logs
from guided_service.server import run_server
from tests.kit.soak_engine import SOAK_ENGINE

_THREADS: Final = 6


async def _run() -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, _tell, loop)
    await _fill_pool(loop)
    await run_server(ServerConfig(), SOAK_ENGINE)


async def _fill_pool(loop: asyncio.AbstractEventLoop) -> None:
    """Start all threads of ``asyncio.to_thread``, so that their first count is also the largest.

    Otherwise it starts them one by one under load.
    """
    loop.set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="to_thread"))
    together = Barrier(_THREADS)
    await asyncio.gather(*(asyncio.to_thread(together.wait) for _ in range(_THREADS)))


def _tell(loop: asyncio.AbstractEventLoop) -> None:
    sys.stderr.write(f"tasks {len(asyncio.all_tasks(loop))}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    configure_logs(log_choice_of(ServerConfig()))
    asyncio.run(_run())
