"""What a caller calls a model: nothing, a folder, a GGUF file, or an id on the hub."""

from __future__ import annotations

import re
from pathlib import Path

from guided.errors import ModelError
from guided.model.default_model import fetch_default_model
from guided.model.gguf_folder import folder_of_gguf
from guided.model.hub import fetch_file, fetch_folder
from guided.model.progress import Progress

__all__ = ["resolve_model"]

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_HUB_GGUF = re.compile(r"([\w-][\w.-]*/[\w-][\w.-]*)/([\w./-]+\.gguf)")
_CALL_IT = "name a model folder of transformers, a GGUF file, an id on the hub, or 'default'"


def resolve_model(name: str | None, progress: Progress) -> Path:
    """The folder of a model of transformers; ``None`` and ``default`` mean our own choice.

    A GGUF file is converted once, and what is on the hub is fetched: ``owner/name``, or
    ``owner/name/file.gguf``.
    """
    if name is None or name == "default":
        return fetch_default_model(progress)
    path = Path(name).expanduser()
    if path.is_dir():
        return _folder(path.absolute())
    if path.is_file():
        return folder_of_gguf(path.absolute(), progress)
    if name[0:1] not in ("/", "~", "."):
        if found := _HUB_GGUF.fullmatch(name):
            return folder_of_gguf(fetch_file(found[1], found[2], progress), progress)
        if _HUB_ID.fullmatch(name):
            return fetch_folder(name, progress)
    raise ModelError(f"there is no model folder or file {name!r}", hint=_CALL_IT)


def _folder(path: Path) -> Path:
    if (path / "config.json").is_file():
        return path
    files = sorted(file.name for file in path.glob("*.gguf"))
    raise ModelError(
        f"{path} is not a model folder: it has no config.json",
        hint=f"name the file: {path / files[0]}" if files else _CALL_IT,
    )
