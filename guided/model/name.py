"""What a caller calls a model: nothing, a folder, or an id on the hub."""

from __future__ import annotations

import re
from pathlib import Path

from guided.errors import ModelError
from guided.model.default_model import fetch_default_model
from guided.model.progress import Progress

__all__ = ["resolve_model"]

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_CALL_IT = "name a model folder of transformers, an id on its hub, or 'default'"


def resolve_model(name: str | None, progress: Progress) -> Path | str:
    """The folder of a model, or its id on the hub; ``None`` and ``default`` mean our own choice."""
    if name is None or name == "default":
        return fetch_default_model(progress)
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"{path} is not a model folder: it has no config.json", hint=_CALL_IT)
        return path.absolute()
    if path.exists():
        raise ModelError(f"{path} is a file, not a model folder", hint=_CALL_IT)
    if name[0:1] in ("/", "~", ".") or not _HUB_ID.fullmatch(name):
        raise ModelError(f"there is no model folder {name!r}", hint=_CALL_IT)
    # A slip in a folder's name would else be met as a puzzling message of the hub.
    with progress.step(f"there is no folder {name!r} here; asking the hub for that id"):
        return name
