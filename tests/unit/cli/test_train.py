"""The flags of ``guided train medusa | eagle | draft``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.in_process import call_guided

COMMANDS = ("medusa", "eagle", "draft")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flag", [(), ("--model",)])
def test_the_model_is_named_with_and_without_its_flag(
    command: str, flag: tuple[str, ...], tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    done = call_guided("train", command, *flag, "./missing", "--out", out, folder=tmp_path)
    assert done.returncode == 1
    assert "error: there is no model folder or file './missing'" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_one_model_is_trained_for(command: str, tmp_path: Path) -> None:
    both = ("./a", "--model", "./b", "--out", str(tmp_path / "out"))
    done = call_guided("train", command, *both, folder=tmp_path)
    assert done.returncode == 2
    assert "two models are given, './a' and --model './b'" in done.stderr
