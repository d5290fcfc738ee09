"""Kernels that are not compiled yet are compiled in another process, while a model is loaded."""

from __future__ import annotations

import os
import signal
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from guided.engine import kernel_process
from guided.engine.kernel_process import KernelProcess
from guided.runtime.kernel_cache import KernelCache

_KERNEL = """
from guided.runtime.kernel import kernel

@kernel
def twice(number):
    return 2 * number
"""


def test_a_kernel_is_on_the_disk_once_it_was_compiled(tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    file.write_text(_KERNEL)
    spec = spec_from_file_location("made", file)
    assert spec is not None
    assert spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    cache, context = made.twice._cache, made.twice.targetctx
    assert not cache.is_on_disk(context)
    assert made.twice(21) == 42
    assert cache.is_on_disk(context)


@pytest.mark.parametrize(
    ("is_there", "cores", "is_started"),
    [(False, {0, 1}, True), (True, {0, 1}, False), (False, {0}, False)],
)
def test_another_process_compiles_what_is_missing_where_it_has_a_core(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_there: bool,
    cores: set[int],
    is_started: bool,
) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    code = f"import time; open({str(begun)!r}, 'w').close(); time.sleep(600)"

    def looked_for(_: KernelCache, __: Any) -> bool:
        return is_there

    def allowed(_: int) -> set[int]:
        return cores

    monkeypatch.setattr(kernel_process, "_PREPARE", code)
    monkeypatch.setattr(KernelCache, "is_on_disk", looked_for)
    monkeypatch.setattr(os, "sched_getaffinity", allowed)
    kernels = KernelProcess()
    assert kernels.is_needed != is_there
    assert (kernels._process is not None) == is_started
    if kernels._process is not None:
        begun.open().close()  # after the other process has opened it as well
        kernels.end()
        assert kernels._process.returncode == -signal.SIGKILL
