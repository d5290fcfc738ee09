"""The published classes of SGLang with guided as their backend: ``make test-sglang``.

SGLang is not installed as a whole, which takes a GPU's libraries: its interface, its registry and
its walk over draft trees are run unchanged from the package, whose folder ``GUIDED_SGLANG`` names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from guided.model.default_model import fetch_default_model
from guided.model.progress import RichProgress

FOLDER = os.environ.get("GUIDED_SGLANG", "")
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not FOLDER, reason="make test-sglang runs this")


def test_sglangs_classes_are_served() -> None:
    program = ROOT / "tests/hosts/programs/sglang_contract.py"
    model = fetch_default_model(RichProgress())
    done = subprocess.run(
        [sys.executable, str(program), str(model), FOLDER],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
