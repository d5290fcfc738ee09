"""A check compiles no kernels but the prepared ones, whatever the schema."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.effort import is_long

_PREPARE = "from guided.constraint.preparation import prepare_kernels; prepare_kernels()"
_CHECK = """
import guided
from guided.runtime.kernel_events import report_kernel_compiles
from tests.conformance.suite import DIALECTS, Part, groups

told = []
with report_kernel_compiles(told.append):
    for part in Part:
        for draft in DIALECTS:
            for group in groups(part, draft):
                try:
                    guided.check(group.text)
                except guided.GuidedError:
                    pass
print(len(told))
"""


@pytest.mark.skipif(not is_long(), reason="compiles all kernels anew, which takes two minutes")
def test_no_check_compiles_a_kernel_once_they_are_prepared(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for code, told in ((_PREPARE, ""), (_CHECK, "0")):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.strip() == told
