"""The installations on the pages work: from a checkout, with existing extras."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from guided.extras import DISTRIBUTION
from tests.kit.pages import PAGES, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def requirements(extra: str) -> set[str]:
    """The requirements of an extra, including those of the extras that it stands for."""
    found: set[str] = set()
    for asked in EXTRAS[extra]:
        ours = re.fullmatch(rf"{DISTRIBUTION}\[(.*)\]", asked)
        found |= requirements_of(ours[1].split(",")) if ours else {asked}
    return found


def requirements_of(extras: Iterable[str]) -> set[str]:
    return {asked for extra in extras for asked in requirements(extra)}


@pytest.mark.parametrize("page", PAGES)
def test_pages_install_from_a_checkout(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert not re.search(rf"pip install '?{DISTRIBUTION}", text), "there is no release to install"
    for extras in re.findall(r"'\.\[(.*?)\]'", text):
        assert {*extras.split(",")} <= EXTRAS.keys()


def test_the_demo_installs_what_the_readme_goes_on_with(tmp_path: Path) -> None:
    """`guided serve --http-port`, right after `make demo` in a fresh checkout."""
    command = ["make", "--dry-run", "demo", f"VENV={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (extras,) = re.findall(r"-e '\.\[(.*?)\]'", done.stdout)
    assert requirements("http") <= requirements_of(extras.split(","))
