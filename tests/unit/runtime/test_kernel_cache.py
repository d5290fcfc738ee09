"""Kernels on the disk are those of the sources that are there."""

import subprocess
import sys
from pathlib import Path

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


def _run(root: Path) -> str:
    command = [sys.executable, "-c", _RUN, str(root)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_kernel_is_compiled_anew_when_what_it_takes_in_has_changed(tmp_path: Path) -> None:
    folder = tmp_path / "masks"
    folder.mkdir()
    (folder / "whole.py").write_text(_WHOLE)
    (folder / "part.py").write_text(_PART.format(number=1))
    assert [_run(tmp_path), _run(tmp_path)] == ["1 0", "1 1"]
    (folder / "part.py").write_text(_PART.format(number=22))
    assert _run(tmp_path) == "22 0"


def test_a_type_that_is_gone_is_no_fault_of_a_kernel_that_took_it(tmp_path: Path) -> None:
    """Indexes name the types of arguments: here one that has another name by now."""
    whole = tmp_path / "masks" / "whole.py"
    whole.parent.mkdir()
    whole.write_text(_NAMED.format(name="Before", number=1))
    assert [_run(tmp_path), _run(tmp_path)] == ["1 0", "1 1"]
    whole.write_text(_NAMED.format(name="After", number=22))
    assert [_run(tmp_path), _run(tmp_path)] == ["22 0", "22 1"]


def test_kernels_of_the_installation_are_read_and_never_written(tmp_path: Path) -> None:
    folder = tmp_path / "masks"
    folder.mkdir()
    (folder / "whole.py").write_text(_WHOLE)
    (folder / "part.py").write_text(_PART.format(number=1))
    assert _run(tmp_path) == "1 0"
    installed = tmp_path / kernel_cache.INSTALLED / "masks"
    installed.mkdir(parents=True)
    for file in (folder / "__pycache__").glob("*.nb[ic]"):
        file.rename(installed / file.name)
    there = {file.name: file.read_bytes() for file in installed.iterdir()}
    assert _run(tmp_path) == "1 1"
    # Those of other sources are left alone, and made as if there were none.
    (folder / "part.py").write_text(_PART.format(number=22))
    assert [_run(tmp_path), _run(tmp_path)] == ["22 0", "22 1"]
    assert {file.name: file.read_bytes() for file in installed.iterdir()} == there


def test_where_nothing_may_be_written_kernels_are_of_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "masks"
    folder.mkdir()
    (folder / "whole.py").write_text(_WHOLE)
    (folder / "part.py").write_text(_PART.format(number=1))
    # As for a user without a home who may not write where guided is installed.
    code = f"""
from numba.core import caching

def refuse(self):
    raise OSError

for name in ("UserProvided", "InTree", "UserWide"):
    locator = getattr(caching, name + "CacheLocator")
    locator.ensure_cache_path = refuse
{_RUN}
from guided.runtime.kernel_cache import _OfThisProcess
print(whole._cache.cache_path)
"""
    code = code.replace(
        "from guided.runtime import kernel_cache",
        """
from guided.runtime import kernel_cache
kernel_cache._OfThisProcess.ensure_cache_path = caching._CacheLocator.ensure_cache_path
""",
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    for _ in range(2):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        result, path = done.stdout.splitlines()
        assert result == "1 0"
        assert not Path(path).exists()


def test_whoever_waits_is_told_of_each_kernel_that_is_compiled(tmp_path: Path) -> None:
    folder = tmp_path / "masks"
    folder.mkdir()
    (folder / "whole.py").write_text(_WHOLE)
    (folder / "part.py").write_text(_PART.format(number=1))
    run = _RUN.replace(
        "print(whole()",
        """
from guided.runtime.kernel_events import telling_of_kernels
told = []
with telling_of_kernels(told.append):
    whole()
print(told, whole()""",
    )
    command = [sys.executable, "-c", run, str(tmp_path)]
    outputs = [
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        for _ in range(2)
    ]
    assert outputs == ["[1, 2] 1 0", "[] 1 1"]


def test_kernels_are_made_where_that_is_seen_to() -> None:
    root = Path(guided.__file__).parent
    makers = {file for file in root.rglob("*.py") if "import njit" in file.read_text("utf-8")}
    makers |= {file for file in root.rglob("*.py") if "import cfunc" in file.read_text("utf-8")}
    assert makers == {root / "runtime/kernel.py", root / "model/cpu/kernel.py"}
