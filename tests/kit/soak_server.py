"""A server as ``guided serve`` runs it, which tells the tasks of its event loop on SIGUSR1."""

from __future__ import annotations

import asyncio
import signal
import sys

from guided_service.config import ServerConfig
from guided_service.engine_supervisor import log_choice_of
from guided_service.logs import configure_logs
from guided_service.server import ENGINE_COMMAND, run_server


async def _run() -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, _tell, loop)
    await run_server(ServerConfig(), ENGINE_COMMAND)


def _tell(loop: asyncio.AbstractEventLoop) -> None:
    sys.stderr.write(f"tasks {len(asyncio.all_tasks(loop))}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    configure_logs(log_choice_of(ServerConfig()))
    asyncio.run(_run())
