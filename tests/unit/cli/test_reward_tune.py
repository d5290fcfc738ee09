"""The meaning of the flags of ``guided train reward-tune``."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import typer

from guided.cli.reward_tune import read_stages, read_tasks_flags, read_weights, reward_tune
from guided.errors import RequestError
from guided.train.reward_tune.rewards import Weights
from guided.train.reward_tune.settings import Settings, Stage


def test_without_flags_the_settings_are_those_of_python() -> None:
    parameters = inspect.signature(reward_tune).parameters
    shared = [name for name in Settings.__dataclass_fields__ if name in parameters]
    assert len(shared) >= 12
    defaults = Settings()
    assert all(parameters[name].default == getattr(defaults, name) for name in shared)
    assert read_stages(parameters["stage"].default, parameters["preference"].default) == (
        defaults.stages
    )
    assert read_weights([]) == defaults.weights


@pytest.mark.parametrize(
    ("stage", "preference", "stages"),
    [
        ("all", "dpo", (Stage.SFT, Stage.DPO)),
        ("sft", "dpo", (Stage.SFT,)),
        ("dpo", "grpo", (Stage.DPO,)),
        ("grpo", "dpo", (Stage.GRPO,)),
    ],
)
def test_stages(stage: str, preference: str, stages: tuple[Stage, ...]) -> None:
    assert read_stages(stage, preference) == stages


def test_weights() -> None:
    assert read_weights(["right=2", "layout=0"]) == Weights(right=2, layout=0)
    for wrong in ("right", "wrong=1", "right=much"):
        with pytest.raises(typer.BadParameter, match=wrong):
            read_weights([wrong])


def test_the_last_fifth_of_a_file_is_held_out(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"prompt": "Hi", "schema": {}}\n' * 11, encoding="utf-8")
    train, held_out = read_tasks_flags(file, None, 1, 1, 0)
    assert [task.name for task in (*train, *held_out)] == [str(n) for n in range(1, 12)]
    assert len(held_out) == 2
    train, held_out = read_tasks_flags(file, file, 1, 1, 0)
    assert train == held_out
    file.write_text('{"prompt": "Hi", "schema": {}}\n', encoding="utf-8")
    with pytest.raises(RequestError, match="none is left"):
        read_tasks_flags(file, None, 1, 1, 0)
    with pytest.raises(RequestError, match="goes with --tasks"):
        read_tasks_flags(None, file, 1, 1, 0)
