"""Fetching models from the hub: only the files that are loaded, and no pickles."""

from __future__ import annotations

import json
from pathlib import Path

from guided.errors import ModelError
from guided.model.checkpoint import SINGLE, index_of
from guided.model.progress import Progress
from guided.model.reading import reading

__all__ = ["fetch_file", "fetch_folder"]

_TEXTS = ["*.json", "*.jinja", "*.txt", "tokenizer.model"]


def fetch_folder(name: str, progress: Progress) -> Path:
    """The folder of a model in the hub's own cache, fetched where it is missing."""
    from huggingface_hub import snapshot_download

    # A slip in a folder's name would else be met as a puzzling message of the hub.
    progress.note(f"there is no folder {name!r} here; asking the hub for that id")
    with reading("config", name):
        # Those below are of other formats, such as ONNX.
        texts = snapshot_download(name, allow_patterns=_TEXTS, ignore_patterns=["*/*"])
    folder = Path(texts)
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"{name} on the hub is not a model of transformers: it has no config.json",
            hint=f"if it has GGUF files, name one: {name}/FILE.gguf",
        )
    with reading("weights", name):
        index = index_of(folder)
        files = (
            [SINGLE]
            if index is None
            else sorted(set(json.loads(index.read_text())["weight_map"].values()))
        )
        return Path(
            snapshot_download(name, allow_patterns=[*files, *_TEXTS], ignore_patterns=["*/*"])
        )


def fetch_file(name: str, file: str, progress: Progress) -> Path:
    """A file of a repository, in the hub's own cache."""
    from huggingface_hub import hf_hub_download

    progress.note(f"there is no file {name}/{file!s} here; asking the hub for it")
    with reading("GGUF file", name):
        return Path(hf_hub_download(name, file))
