"""An installation has all packages and files of data."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def _files(top: Path, *kinds: str) -> list[Path]:
    """The files of some kinds below a folder, also those that links lead to."""
    return [
        Path(folder, name)
        for folder, _, names in os.walk(top, followlinks=True)
        for name in names
        if name.rpartition(".")[2] in kinds
    ]


def test_all_packages_are_installed() -> None:
    """An editable installation also finds packages that a regular one would miss."""
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    folders = {name: _ROOT / folder for name, folder in settings["package-dir"].items()}
    found = {*folders}
    for name, top in {"guided": _ROOT / "guided", **folders}.items():
        for file in _files(top, "py"):
            found.add(".".join((name, *file.parent.relative_to(top).parts)))
    assert sorted(settings["packages"]) == sorted(found)


def test_all_files_of_data_are_installed() -> None:
    """The files of a package that are neither Python nor made by a tool."""
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    kinds = ("css", "html", "js", "json", "jsonl", "svg", "txt")
    for name, folder in {"guided": "guided", "guided_service": "service"}.items():
        known, top = settings["package-data"][name], _ROOT / folder
        data = [file for file in _files(top, *kinds) if file.parts[-2] not in ("library", "proto")]
        assert data
        for file in data:
            assert any(file.relative_to(top).match(pattern) for pattern in known), file
