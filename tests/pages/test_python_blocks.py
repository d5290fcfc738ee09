"""Every block of Python on every page runs, in the order of its page.

A new page runs unchanged, with ``guided`` and a ``client`` of a server without a model. A page that
takes more for granted has a stage in ``stages.py``; one that cannot run here is listed there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.pages import PAGES, ROOT, blocks
from tests.pages.running import run_page
from tests.pages.stages import ELSEWHERE, NOWHERE, STAGES, Stage

WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]
HERE = [page for page in WITH_PYTHON if page not in ELSEWHERE and page not in NOWHERE]


@pytest.mark.parametrize("page", HERE)
def test_the_blocks_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if STAGES.get(page, Stage()).is_alone:
        monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
        command = [sys.executable, "-m", "tests.pages.running", page]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    else:
        monkeypatch.chdir(tmp_path)
        run_page(page)


def test_pages_with_a_stage_have_blocks_to_run() -> None:
    assert {*STAGES} <= {*HERE}
    assert {*ELSEWHERE, *NOWHERE} <= {*WITH_PYTHON}


@pytest.mark.parametrize("page", ELSEWHERE)
def test_a_page_that_is_run_elsewhere_is_run_there(page: str) -> None:
    assert f'"{page}"' in (ROOT / ELSEWHERE[page]).read_text("utf-8")
