"""What holds for all tests.

Examples have no deadline each: the first one may wait for machine code to be made. They are the
same in every run, but in the long form. Kernels of Triton are interpreted without a CUDA device: it
asks that when it is imported.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from tests.kit.effort import is_long

settings.register_profile("guided", deadline=None, derandomize=not is_long())
settings.load_profile("guided")

if find_spec("triton") is not None:
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"


def pytest_sessionstart() -> None:
    """Leave when what was compiled ahead of time is older than its sources."""
    root = Path(__file__).parents[1]
    library = {*root.glob("guided/runtime/*__mypyc*.so")}
    built = max((file.stat().st_mtime for file in library), default=0.0)
    for extension in {*root.glob("guided/**/*.so")} - library:
        source = extension.with_name(extension.name.split(".")[0] + ".py")
        if not source.exists() or source.stat().st_mtime > built:
            raise pytest.UsageError(
                f"{source.relative_to(root)} was changed or is gone since it was compiled: "
                "run 'make native' or 'make interpreted'"
            )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among the modules that tests import, where a quarter of the time went.

    Tests do not look there either.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Give torch back the threads that it had before the test.

    Loading a model takes one for each core, of which tests that run side by side have one; what
    came after would be ten times slower, since threads wait for each other by spinning.
    """
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else None
    result = yield
    if torch and torch.get_num_threads() != before:
        torch.set_num_threads(before)
    return result
