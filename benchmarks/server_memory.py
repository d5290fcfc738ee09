"""Measures memory: `python -m benchmarks.server_memory WORKLOAD [--batch N] [--threads N]`.

WORKLOAD is as for `model_calls.py`. Prints the peak of server and engine so far (VmHWM), which
peers are compared by, and what they and the standby have together, with shared pages counted once
(PSS): when the server is ready, and after the requests. GUIDED_MODEL, GUIDED_DTYPE and the other
settings of the server are read from the environment.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.e2e_adapter import mebibytes, processes_of, serving
from guided.client import Client
from tests.kit.processes import shared_mebibytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", type=Path)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.workload.read_text("utf-8").splitlines()]
    settings = {"GUIDED_THREADS": str(options.threads), "GUIDED_REUSE_PREFIXES": "false"}
    with serving(settings) as (process, address), Client(address) as client:

        def ask(row: dict[str, Any]) -> None:
            message = [{"role": "user", "content": row["prompt"]}]
            client.generate(
                message, schema=row["schema"], max_tokens=row["max_tokens"], show_schema=False
            )

        tell("ready", process.pid)
        with ThreadPoolExecutor(options.batch) as pool:
            list(pool.map(ask, rows))
        tell(f"after {len(rows)} requests", process.pid)


def tell(moment: str, server: int) -> None:
    together = sum(shared_mebibytes(process)[1] for process in processes_of(server))
    most = mebibytes(server, "VmHWM")
    print(f"{moment}: server and engine {most:.0f} MiB at most, all together {together:.0f} MiB")


if __name__ == "__main__":
    main()
