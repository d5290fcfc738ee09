"""A start logs its progress: each step with its seconds, and a long one before it is done."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from guided_service.logs import LoggedProgress
from tests.service.test_supervision import eventually


def told(lines: list[Any]) -> list[str]:
    return [line["event"] for line in lines]


def test_a_step_is_told_once_it_is_done() -> None:
    with capture_logs() as lines, LoggedProgress().step("packing weights") as report:
        report(1)
        assert not lines
    assert told(list(lines)) == ["packing weights"]
    assert 0 <= lines[0]["seconds"] < 3


def test_a_long_step_is_told_before_and_how_far_it_is() -> None:
    silence = 0.02
    began = time.monotonic()
    with (
        capture_logs() as lines,
        LoggedProgress(silence_seconds=silence).step("loading", total_bytes=200) as report,
    ):
        report(50)
        eventually(lambda: len(lines) >= 4)
    # Each pause is twice the previous one, so these lines alone took fifteen times the first.
    assert time.monotonic() - began >= 15 * silence
    first: Mapping[str, Any] = lines[0]
    assert (first["event"], first["percent"]) == ("loading ...", 25)
    assert told(list(lines))[-2:] == ["loading ...", "loading"]


def test_a_step_that_fails_is_not_told_as_done() -> None:
    with (
        capture_logs() as lines,
        pytest.raises(OSError, match="gone"),
        LoggedProgress().step("loading"),
    ):
        raise OSError("gone")
    assert lines == []


def test_notes_are_lines() -> None:
    with capture_logs() as lines:
        LoggedProgress().note("device: cpu")
    assert told(list(lines)) == ["device: cpu"]
