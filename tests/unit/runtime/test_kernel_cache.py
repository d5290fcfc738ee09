"""Kernels on the disk are those of the current sources."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

import pytest

import guided
from guided.runtime import kernel_cache

_PART = """
from guided.runtime.kernel import inlined

@inlined
def part():
    return {number}
"""
_WHOLE = """
from guided.runtime.kernel import kernel
from part import part

@kernel
def whole():
    return part()
"""
_NAMED = """
from typing import NamedTuple
from guided.runtime.kernel import kernel

class {name}(NamedTuple):
    number: int

@kernel
def number_of(pair):
    return pair.number

class whole:
    stats = number_of.stats
    def __new__(cls):
        return number_of({name}({number}))
"""
_RUN = """
import sys
from pathlib import Path
from guided.runtime import kernel_cache

kernel_cache._ROOT = Path(sys.argv[1])
sys.path.insert(0, sys.argv[1] + "/masks")
from whole import whole
print(whole(), sum(whole.stats.cache_hits.values()))
"""
_FORKING = """
import json
import os
import sys
import numba
from guided.runtime import kernel_cache, kernel_events

numba.njit(lambda: 1)()  # has numba read what every process would have to read
for line in sys.stdin:
    program, folder = json.loads(line)
    child = os.fork()
    if not child:
        sys.argv[1:] = [folder]
        exec(program, {})
        sys.exit()
    _, status = os.waitpid(child, 0)
    print("ended", status, flush=True)
"""


class Run(Protocol):
    """Returns the output of a program in a new process, given a folder."""

    def __call__(self, folder: Path, program: str = ...) -> str: ...


def _until_ended(output: IO[str]) -> Iterator[str]:
    """Yield the lines of one program, and how it ended."""
    for line in output:
        yield line.rstrip()
        if line.startswith("ended "):
            return


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Forks from a process that has imported numba, which takes longer than the tests."""
    command = [sys.executable, "-c", _FORKING]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def run_in_child(folder: Path, program: str = _RUN) -> str:
            print(json.dumps([program, str(folder)]), file=stdin, flush=True)
            *printed, ended = _until_ended(stdout)
            assert ended == "ended 0", printed
            return "\n".join(printed)

        yield run_in_child


def test_a_kernel_is_compiled_again_when_a_function_inlined_in_it_changes(
    run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "masks"
    folder.mkdir()
    (folder / "whole.py").write_text(_WHOLE)
    (folder / "part.py").write_text(_PART.format(number=1))
    assert [run(tmp_path), run(tmp_path)] == ["1 0", "1 1"]
    (folder / "part.py").write_text(_PART.format(number=22))
    assert run(tmp_path) == "22 0"


def test_a_kernel_survives_that_an_argument_type_is_renamed(run: Run, tmp_path: Path) -> None:
    """Indexes name the types of arguments: here one that has been renamed."""
    whole = tmp_path / "masks" / "whole.py"
    whole.parent.mkdir()
    whole.write_text(_NAMED.format(name="Before", number=1))
    assert [run(tmp_path), run(tmp_path)] == ["1 0", "1 1"]
    whole.write_text(_NAMED.format(name="After", number=22))
    assert [run(tmp_path), run(tmp_path)] == ["22 0", "22 1"]


def test_kernels_of_the_installation_are_read_and_never_written(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "masks"
    folder.mkdir()
    (folder / "whole.py").write_text(_WHOLE)
    (folder / "part.py").write_text(_PART.format(number=1))
    assert run(tmp_path) == "1 0"
    installed = tmp_path / kernel_cache.INSTALLED / "masks"
    installed.mkdir(parents=True)
    for file in (folder / "__pycache__").glob("*.nb[ic]"):
        file.rename(installed / file.name)
    there = {file.name: file.read_bytes() for file in installed.iterdir()}
    assert run(tmp_path) == "1 1"
    # Kernels of other sources are left alone, and new ones are made.
    (folder / "part.py").write_text(_PART.format(number=22))
    assert [run(tmp_path), run(tmp_path)] == ["22 0", "22 1"]
    assert {file.name: file.read_bytes() for file in installed.iterdir()} == there


def test_without_a_writable_folder_kernels_are_stored_for_one_process(
    run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "masks"
    folder.mkdir()
    (folder / "whole.py").write_text(_WHOLE)
    (folder / "part.py").write_text(_PART.format(number=1))
    # As for a user without a home who may not write to the installation.
    program = f"""
from numba.core import caching
from guided.runtime import kernel_cache

def refuse(self):
    raise OSError

for name in ("UserProvided", "InTree", "UserWide"):
    locator = getattr(caching, name + "CacheLocator")
    locator.ensure_cache_path = refuse
kernel_cache._TemporaryFolderLocator.ensure_cache_path = caching._CacheLocator.ensure_cache_path
{_RUN}
print(whole._cache.cache_path)
"""
    for _ in range(2):
        result, path = run(tmp_path, program).splitlines()
        assert result == "1 0"
        assert not Path(path).exists()


def test_each_kernel_that_is_compiled_is_reported(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "masks"
    folder.mkdir()
    (folder / "whole.py").write_text(_WHOLE)
    (folder / "part.py").write_text(_PART.format(number=1))
    program = _RUN.replace(
        "print(whole()",
        """
from guided.runtime.kernel_events import report_kernel_compiles
numbers = []
with report_kernel_compiles(numbers.append):
    whole()
print(numbers, whole()""",
    )
    outputs = [run(tmp_path, program) for _ in range(2)]
    assert outputs == ["[1, 2] 1 0", "[] 1 1"]


def test_kernels_are_compiled_only_by_our_decorators() -> None:
    root = Path(guided.__file__).parent
    makers = {file for file in root.rglob("*.py") if "import njit" in file.read_text("utf-8")}
    makers |= {file for file in root.rglob("*.py") if "import cfunc" in file.read_text("utf-8")}
    assert makers == {root / "runtime/kernel.py", root / "model/cpu/kernel.py"}
