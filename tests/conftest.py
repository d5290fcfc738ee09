"""Settings for all tests.

Examples have no deadline: the first one may wait for machine code to be made. They are the same in
every run, except in the long form. Without a CUDA device Triton's kernels are interpreted: Triton
reads that setting when it is imported.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

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
    """Exit if the modules compiled ahead of time are older than their sources."""
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
    """Freeze the imported modules: scanning them for garbage took a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _freeze_what_stays() -> Iterator[None]:
    """Freeze what the tests of a module leave: most of it are libraries that they imported."""
    yield
    gc.collect()
    gc.freeze()


_SHARED: Final = ("server", "thinker", "_tiny_server", "shared_echo_server")
"""Servers that tests of several files share, the slowest to start first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of each shared server side by side, so that one worker starts it for most."""
    items.sort(key=_first_shared)


def _first_shared(item: pytest.Item) -> int:
    names = getattr(item, "fixturenames", ())
    return next((at for at, name in enumerate(_SHARED) if name in names), len(_SHARED))


@pytest.fixture(autouse=True)
def _quick_freezing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let loading an engine not scan what is frozen here, each time for half a second."""
    load = sys.modules.get("guided.engine.load")
    if load is not None and request.path.name != "test_gc_freeze.py":
        monkeypatch.setattr(load, "freeze_heap", lambda _: gc.collect())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Restore the number of torch's threads from before the test.

    Loading a model sets one for each core, but tests that run side by side have one core each:
    later tests would be ten times slower, since threads wait for each other by spinning.
    """
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else None
    result = yield
    if torch and torch.get_num_threads() != before:
        torch.set_num_threads(before)
    return result
