"""The API keeps buf's rules of style, and stays compatible with its release: checked by buf."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROTO = Path(__file__).parents[2] / "proto"
RELEASED = Path(__file__).with_name("released_api.binpb")
"""The last release, as `make release-proto` writes it."""
BUF = Path(sys.executable).with_name("buf")


def buf(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BUF), *arguments], capture_output=True, text=True, check=False)


def changed(folder: Path, name: str, before: str, after: str) -> Path:
    """The files of the API with a change in one of them."""
    copied = folder / "proto"
    shutil.copytree(PROTO, copied)
    file = copied / "guided" / "v1" / name
    text = file.read_text("utf-8")
    assert before in text
    file.write_text(text.replace(before, after, 1), "utf-8")
    return copied


def test_the_api_keeps_to_the_rules() -> None:
    done = buf("lint", str(PROTO))
    assert (done.returncode, done.stdout) == (0, "")


def test_what_was_released_still_holds() -> None:
    done = buf("breaking", str(PROTO), "--against", str(RELEASED))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("name", "before", "after", "told"),
    [
        ("generation.proto", "string cache_salt = 18;", "string cache_salt = 99;", "cache_salt"),
        ("generation.proto", "string cache_salt = 18;", "bytes cache_salt = 18;", "cache_salt"),
        ("generation.proto", "string cache_salt = 18;", "string salt = 18;", "cache_salt"),
        ("generation.proto", "string cache_salt = 18;", "", "cache_salt"),
        ("generation.proto", "  VERIFICATION_TYPICAL = 3;\n", "", '"3" on enum'),
    ],
)
def test_a_change_that_breaks_callers_is_found(
    tmp_path: Path, name: str, before: str, after: str, told: str
) -> None:
    done = buf("breaking", str(changed(tmp_path, name, before, after)), "--against", str(RELEASED))
    assert done.returncode != 0
    assert told in done.stdout


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("string cache_salt = 18;", "string cacheSalt = 18;", "lower_snake_case"),
        ("FORCING_UNSPECIFIED = 0;", "FORCING_NOTHING = 0;", "_UNSPECIFIED"),
        ("rpc Generate(", "rpc generate(", "PascalCase"),
        ("package guided.v1;", "package guided;", "version"),
    ],
)
def test_a_name_that_breaks_a_rule_is_found(
    tmp_path: Path, before: str, after: str, told: str
) -> None:
    done = buf("lint", str(changed(tmp_path, "generation.proto", before, after)))
    assert done.returncode != 0
    assert told in done.stdout
