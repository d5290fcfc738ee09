"""The stubs in the package match the definition of the API."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def generated(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*_pb2*.py*")}


def test_generating_the_stubs_again_changes_nothing(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "proto" / "generate.py"), str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    fresh = generated(tmp_path / "guided" / "v1")
    assert len(fresh) == 12
    assert generated(ROOT / "guided" / "v1") == fresh
