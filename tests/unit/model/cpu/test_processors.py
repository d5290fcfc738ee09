"""Kernels for instructions that a processor lacks are in no one's way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_a_plain_processor_can_load_all_modules(tmp_path: Path) -> None:
    """LLVM ends the process where it is to compile an instruction that there is not."""
    plain = {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    loading = [sys.executable, "-c", "import guided.model.cpu"]
    subprocess.run(loading, env=os.environ | plain, check=True, timeout=120)
