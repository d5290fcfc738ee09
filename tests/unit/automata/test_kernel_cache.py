"""Kernels on the disk are those of the sources that are there."""

import subprocess
import sys
from pathlib import Path

import guided

_PART = """
from guided.automata.kernel import inlined

@inlined
def part():
    return {number}
"""
_WHOLE = """
from guided.automata.kernel import kernel
from part import part

@kernel
def whole():
    return part()
"""
_RUN = """
import sys
from pathlib import Path
from guided.automata import kernel_cache

kernel_cache._ROOT = Path(sys.argv[1])
sys.path.insert(0, sys.argv[1] + "/tokens")
from whole import whole
print(whole(), sum(whole.stats.cache_hits.values()))
"""


def _run(root: Path) -> str:
    command = [sys.executable, "-c", _RUN, str(root)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_kernel_is_compiled_anew_when_what_it_takes_in_has_changed(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    folder.mkdir()
    (folder / "whole.py").write_text(_WHOLE)
    (folder / "part.py").write_text(_PART.format(number=1))
    assert [_run(tmp_path), _run(tmp_path)] == ["1 0", "1 1"]
    (folder / "part.py").write_text(_PART.format(number=22))
    assert _run(tmp_path) == "22 0"


def test_kernels_are_made_where_that_is_seen_to() -> None:
    root = Path(guided.__file__).parent
    makers = {file for file in root.rglob("*.py") if "import njit" in file.read_text("utf-8")}
    makers |= {file for file in root.rglob("*.py") if "import cfunc" in file.read_text("utf-8")}
    assert makers == {root / "automata/kernel.py", root / "model/cpu/kernel.py"}
