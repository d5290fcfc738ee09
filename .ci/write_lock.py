"""Writes requirements.lock: what serving takes, each with its version and the hash of its wheel.

``make lock``, or ``python .ci/write_lock.py``. pip resolves the extras ``server``, ``client`` and
``http`` within ``constraints.txt`` from the index that it is set to use, for this interpreter and
platform, and reports what it would install; nothing is installed.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).parents[1]
_LOCK: Final = _ROOT / "requirements.lock"
_OURS: Final = "guided-decoding"
_HEAD: Final = """\
# What serving takes, for {machine}: written by `make lock`, installed by
#     python -m pip install --require-hashes -r requirements.lock
# torch is built for several devices under one version. This is the build for the CPU; for another,
# platform or index, write the file anew.
"""


def main() -> int:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.json")
        command = [
            *(sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"),
            *("--quiet", "--only-binary", ":all:", "--report", str(file)),
            *("-c", "constraints.txt", "-e", ".[server,client,http]"),
        ]
        subprocess.run(command, check=True, cwd=_ROOT)
        report = json.loads(file.read_text("utf-8"))
    lines = sorted(_lines(report), key=str.lower)
    python = ".".join(platform.python_version_tuple()[:2])
    machine = f"{platform.python_implementation()} {python} on {sys.platform} {platform.machine()}"
    _LOCK.write_text(_HEAD.format(machine=machine) + "".join(lines), "utf-8")
    sys.stdout.write(f"{_LOCK.name}: {len(lines)} packages\n")
    return 0


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """One requirement for each package of pip's report, without any that is built here."""
    for item in report["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        if name == _OURS:
            continue
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        # Without the label of a build, which another index may not have: the hash tells.
        public = version.partition("+")[0]
        yield f"{name}=={public} \\\n    --hash=sha256:{digest}\n"


if __name__ == "__main__":
    sys.exit(main())
