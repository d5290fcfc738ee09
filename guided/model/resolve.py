"""Finds the folder of a model by what a caller calls it: a folder, a GGUF file, an id on the hub.

A GGUF file is converted once, into a folder of the cache that is named by its contents. Of a
model on the hub only the files that are loaded are fetched, and no pickles.
"""

from __future__ import annotations

import hashlib
import re
from functools import partial
from importlib import import_module
from pathlib import Path

from guided.errors import ModelError
from guided.extras import needing
from guided.model.cache import make_once, remove_all_but
from guided.model.checkpoint import weight_files
from guided.model.convert import TOKENIZER_FILES, convert_gguf
from guided.model.default_model import fetch_default_gguf, fetch_default_model
from guided.model.gguf_texts import REASON, write_texts
from guided.model.progress import Progress
from guided.model.transformers_calls import reading

__all__ = ["resolve_model", "resolve_stored", "resolve_texts"]

# A name that ends like a GGUF file is one of a file that does not exist.
_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(?<!\.gguf)")
_HUB_GGUF = re.compile(r"([\w-][\w.-]*/[\w-][\w.-]*)/([\w./-]+\.gguf)")
_CALL_IT = "name a model folder of transformers, a GGUF file, an id on the hub, or 'default'"
_TEXTS = ["*.json", "*.jinja", "*.txt", "tokenizer.model"]
_WAY = 1
"""Counts the ways of converting: another way uses another folder."""
_CHUNK = 1 << 22
_DIGITS = 24
_TEXTS_SPACE = 50_000_000
_LARGEST_SHARE = 8
"""Weights of 2 bits become bf16."""


def resolve_model(name: str | None, progress: Progress) -> Path:
    """Return the folder of a model of transformers; ``None`` and ``default`` mean our own choice.

    A GGUF file is converted once, and a model on the hub is fetched: ``owner/name``, or
    ``owner/name/file.gguf``.
    """
    if name is None or name == "default":
        return fetch_default_model(progress)
    path = Path(name).expanduser()
    if path.is_dir():
        return _folder(path.absolute())
    if path.is_file():
        return _folder_of_gguf(path.absolute(), progress)
    if name[0:1] not in ("/", "~", "."):
        if found := _HUB_GGUF.fullmatch(name):
            return _folder_of_gguf(_fetch_file(found[1], found[2], progress), progress)
        if _HUB_ID.fullmatch(name):
            return _fetch_folder(name, progress)
    raise ModelError(f"there is no model folder or file {name!r}", hint=_CALL_IT)


def resolve_stored(name: str | None, progress: Progress) -> tuple[Path, Path] | str | None:
    """Return a GGUF file and the folder of its texts, or why its weights are not used as stored;
    ``None`` if ``name`` is not a GGUF file."""
    if name is None or name == "default":
        return fetch_default_gguf(progress)
    path = Path(name).expanduser()
    if path.is_file():
        file = path.absolute()
    elif not path.exists() and (found := _HUB_GGUF.fullmatch(name)):
        file = _fetch_file(found[1], found[2], progress)
    else:
        return None
    with needing(f"reading {file.name}", "server"):
        import_module("gguf")
    folder = make_once(
        f"gguf-{_digest(file, progress)[:_DIGITS]}-texts-{_WAY}",
        partial(_write_texts, file=file, progress=progress),
        what=file.name,
        space_needed=_TEXTS_SPACE,
        progress=progress,
    )
    reason = folder / REASON
    return reason.read_text("utf-8") if reason.is_file() else (file, folder)


def resolve_texts(name: str | None, progress: Progress) -> Path:
    """Return the folder of a model's config and tokenizer; weights may be missing from it.

    None are fetched or converted for it, unless a GGUF file's are not used as stored: the folder of
    such a file is that of ``resolve_model``.
    """
    if isinstance(stored := resolve_stored(name, progress), tuple):
        return stored[1]
    if name is not None and _HUB_ID.fullmatch(name) and not Path(name).exists():
        return _fetch_texts(name, progress)
    return resolve_model(name, progress)


def _write_texts(work: Path, file: Path, progress: Progress) -> Path:
    remove_all_but(work)
    write_texts(file, work / "texts", progress)
    return work / "texts"


def _folder(path: Path) -> Path:
    """Return the folder of a model, if it is one; else ModelError that names a GGUF file in it."""
    if (path / "config.json").is_file():
        return path
    files = sorted(file.name for file in path.glob("*.gguf"))
    raise ModelError(
        f"{path} is not a model folder: it has no config.json",
        hint=f"name the file: {path / files[0]}" if files else _CALL_IT,
    )


def _fetch_folder(name: str, progress: Progress) -> Path:
    """Return the folder of a model in the hub's own cache; fetch what is missing."""
    from huggingface_hub import snapshot_download

    folder = _fetch_texts(name, progress)
    with reading("weights", name):
        files = [*weight_files(folder), *_TEXTS]
        return Path(snapshot_download(name, allow_patterns=files, ignore_patterns=["*/*"]))


def _fetch_texts(name: str, progress: Progress) -> Path:
    """Return the folder of a model in the hub's own cache, where weights may be missing."""
    from huggingface_hub import snapshot_download

    # Otherwise a typo in a folder's name would give a puzzling message of the hub.
    progress.note(f"there is no folder {name!r} here; asking the hub for that id")
    with reading("config", name):
        # Those in subfolders are of other formats, such as ONNX.
        texts = snapshot_download(name, allow_patterns=_TEXTS, ignore_patterns=["*/*"])
    folder = Path(texts)
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"{name} on the hub is not a model of transformers: it has no config.json",
            hint=f"if it has GGUF files, name one: {name}/FILE.gguf",
        )
    return folder


def _fetch_file(name: str, file: str, progress: Progress) -> Path:
    """Return a file of a repository, in the hub's own cache."""
    from huggingface_hub import hf_hub_download

    progress.note(f"there is no file {name}/{file!s} here; asking the hub for it")
    with reading("GGUF file", name):
        return Path(hf_hub_download(name, file))


def _folder_of_gguf(file: Path, progress: Progress) -> Path:
    """Return the folder of a GGUF file in the cache; convert it on first use."""
    name = f"gguf-{_digest(file, progress)[:_DIGITS]}-{_WAY}"
    return make_once(
        name,
        partial(_convert, file=file, progress=progress),
        what=file.name,
        space_needed=_LARGEST_SHARE * file.stat().st_size,
        progress=progress,
    )


def _convert(work: Path, file: Path, progress: Progress) -> Path:
    remove_all_but(work)
    convert_gguf(file, work / "converted", progress)
    return work / "converted"


def _digest(file: Path, progress: Progress) -> str:
    """Return the SHA-256 of the file and of the tokenizer beside it, which replaces its own."""
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
