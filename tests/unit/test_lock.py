"""The hashed pins are of the versions that are tested together."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
LOCKED = re.compile(r"(?:[A-Za-z0-9._-]+==\S+ \\\n    --hash=sha256:[0-9a-f]{64}\n)+")
_UNTOLD = {"setuptools"}
"""Packages of every environment, which ``pip freeze`` and so constraints.txt leave out."""


def pins(file: str) -> dict[str, str]:
    text = (ROOT / file).read_text("utf-8")
    return {_plain(name): version for name, version in PIN.findall(text)}


def _plain(name: str) -> str:
    """A name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_locked_version_is_the_tested_one() -> None:
    tested = pins("constraints.txt")
    locked = pins("requirements.lock")
    assert {name: tested.get(name) for name in locked if name not in _UNTOLD} == {
        name: version for name, version in locked.items() if name not in _UNTOLD
    }
    assert len(locked) > len(_UNTOLD)


def test_every_requirement_has_a_hash_and_names_no_index() -> None:
    text = (ROOT / "requirements.lock").read_text("utf-8")
    body = "".join(line for line in text.splitlines(keepends=True) if line[0] != "#")
    assert LOCKED.fullmatch(body)


def test_all_that_serving_takes_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["server"], *extras["client"], *extras["compiler"]]
    names = {_plain(re.split(r"[\[<>=!~ ;]", one, maxsplit=1)[0]) for one in wanted}
    assert names - {"guided-decoding"} <= pins("requirements.lock").keys()
