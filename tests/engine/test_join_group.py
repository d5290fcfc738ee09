"""Ranks meet in a group, also after a meeting that failed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from torch import distributed

from guided.model.device import CPU
from guided.model.parallel import shares
from guided.model.parallel.shares import join_group


def test_a_meeting_that_failed_leaves_the_next_one_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other ranks are new processes, whose first group it is."""
    with monkeypatch.context() as impatient:
        impatient.setattr(shares, "_PATIENCE", timedelta(seconds=1))
        with pytest.raises(RuntimeError):
            join_group(0, 2, str(tmp_path / "alone"), CPU)
    assert not distributed.is_initialized()
    join_group(0, 1, str(tmp_path / "meeting"), CPU)
    try:
        assert distributed.group.WORLD is not None
        assert distributed.group.WORLD.group_name == "0"
    finally:
        distributed.destroy_process_group()
