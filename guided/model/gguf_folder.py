"""The model folder that a GGUF file is unpacked into, kept in the cache by what is in the file."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

from guided.model.convert import TOKENIZER_FILES, convert_gguf
from guided.model.once import made_once, remove_all_but
from guided.model.progress import Progress

__all__ = ["folder_of_gguf"]

_WAY = 1
"""Counts the ways of converting: another way goes into another folder."""
_CHUNK = 1 << 22
_DIGITS = 24
_LARGEST_SHARE = 8
"""Weights of 2 bits become bf16."""


def folder_of_gguf(file: Path, progress: Progress) -> Path:
    """The folder of a GGUF file in the cache; it is converted when it is met for the first time."""
    name = f"gguf-{_digest(file, progress)[:_DIGITS]}-{_WAY}"
    return made_once(
        name,
        partial(_make, file=file, progress=progress),
        what=file.name,
        space_needed=_LARGEST_SHARE * file.stat().st_size,
        progress=progress,
    )


def _make(work: Path, file: Path, progress: Progress) -> Path:
    remove_all_but(work)
    convert_gguf(file, work / "converted", progress)
    return work / "converted"


def _digest(file: Path, progress: Progress) -> str:
    """The SHA-256 of the file, and of the tokenizer beside it, which is used instead of its own."""
    digest = hashlib.sha256()
    size = file.stat().st_size
    with progress.step(f"reading {file.name}", total_bytes=size) as report, file.open("rb") as data:
        done = 0
        while chunk := data.read(_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            report(done)
    for name in TOKENIZER_FILES:
        beside = file.parent / name
        if beside.is_file():
            digest.update(hashlib.sha256(beside.read_bytes()).digest())
    return digest.hexdigest()
