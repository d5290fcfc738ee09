"""Kernels are right on processors that lack instructions, and no module fails to load there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from guided.model.cpu.block_types import BLOCK_TYPES
from guided.model.cpu.instructions import InstructionSet, best_instructions, has
from tests.kit.effort import crossed

_KERNELS = (
    "test_attention",
    "test_bf16_matrix",
    "test_int4_matrix",
    "test_int8_matrix",
    "test_numbers",
    "test_stored_matrix",
    "test_stored_rows",
)
_LESSER = {
    "haswell": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "generic": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}
_TRIED = crossed(BLOCK_TYPES, _LESSER)


def test_a_plain_processor_can_load_all_modules(tmp_path: Path) -> None:
    """LLVM ends the process if it has to compile an instruction that is missing."""
    plain = {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    loading = [sys.executable, "-c", "import guided.model.cpu"]
    subprocess.run(loading, env=os.environ | plain, check=True, timeout=120)


@pytest.mark.parametrize("processor", _LESSER)
def test_kernels_are_right_on_a_lesser_processor(processor: str) -> None:
    """Compiled for it, so with none of the instructions and registers that it lacks.

    Each type of block is tried on one processor, in the long form on all.
    """
    if processor == "haswell" and not has(InstructionSet.AVX2):
        pytest.skip("this processor has no AVX2")
    if processor == "haswell" and best_instructions() is InstructionSet.AVX2:
        pytest.skip("this processor is one, so that the other tests try all of it")
    environment = {"NUMBA_CPU_NAME": processor} | _LESSER[processor]
    files = [str(Path(__file__).with_name(f"{name}.py")) for name in _KERNELS]
    elsewhere = {*BLOCK_TYPES} - {kind for kind, name in _TRIED if name == processor}
    left_out = ["-k", " and ".join(f"not {kind}" for kind in sorted(elsewhere))]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *left_out, *files],
        env={key: os.environ[key] for key in os.environ if not key.startswith("PYTEST")}
        | environment,
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
