"""Ranks meet in a group, also after meetings that failed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from torch import distributed

from guided.model.device import CPU
from guided.model.parallel import shares
from guided.model.parallel.shares import RANK_VARIABLES, join_group


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the environment: trainers of later tests would take this process for a rank."""
    for name in RANK_VARIABLES:
        monkeypatch.setenv(name, "lo")  # set once, so that monkeypatch restores it
        monkeypatch.delenv(name)
    yield
    if distributed.is_initialized():
        distributed.destroy_process_group()


def _assert_next_group_has_the_name_of_a_first(folder: Path) -> None:
    """The other ranks are new processes, for which it is the first group."""
    assert not distributed.is_initialized()
    join_group(0, 1, str(folder / "meeting"), CPU)
    assert distributed.group.WORLD is not None
    assert distributed.group.WORLD.group_name == "0"


def test_a_meeting_that_failed_leaves_the_next_one_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as impatient:
        impatient.setattr(shares, "_PATIENCE", timedelta(seconds=1))
        with pytest.raises(RuntimeError):
            join_group(0, 2, str(tmp_path / "alone"), CPU)
    _assert_next_group_has_the_name_of_a_first(tmp_path)


def test_a_meeting_of_others_that_failed_leaves_it_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="RANK expected"):
        distributed.init_process_group("gloo")
    _assert_next_group_has_the_name_of_a_first(tmp_path)
