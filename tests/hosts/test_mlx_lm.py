"""mlx-lm itself with our processor: ``make test-mlx``, in the environment that GUIDED_MLX names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from guided.model.default_model import fetch_default_model
from guided.model.progress import RichProgress

PYTHON = os.environ.get("GUIDED_MLX", "")
PROGRAM = Path(__file__).parent / "programs/mlx_answers.py"

pytestmark = pytest.mark.skipif(not PYTHON, reason="make test-mlx runs these")


def test_answers_of_mlx_lm_fit() -> None:
    folder = str(fetch_default_model(RichProgress()))
    subprocess.run([PYTHON, str(PROGRAM), folder], check=True)
