"""The command ``guided train reward-tune``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from guided.cli.common import shown_with
from guided.cli.flags import flag, with_flags
from guided.errors import RequestError
from guided.extras import needing
from guided.runtime.environment import prepare_environment

if TYPE_CHECKING:
    from guided.train.reward_tune.rewards import Weights
    from guided.train.reward_tune.settings import Stage
    from guided.train.reward_tune.tasks import Task

__all__ = ["read_stages", "read_tasks_flags", "read_weights", "reward_tune"]

_HELD_OUT_SHARE = 5
"""One in this many tasks of a file is held out, from its end."""


def _numbers() -> Iterator[Parameter]:
    """Yield the flags named like fields of ``Settings``, which validates them."""
    yield flag("sft_steps", int, 200, "Number of steps of sft.")
    yield flag("preference_steps", int, 30, "Number of steps of dpo or grpo.")
    yield flag("sft_batch", int, 4, "Answers per step of sft.")
    yield flag("preference_batch", int, 8, "Answers per step of grpo, or pairs per step of dpo.")
    yield flag("group", int, 4, "Answers sampled per task.")
    yield flag("temperature", float, 1.0, "Temperature of these answers.")
    yield flag("sft_rate", float, 5e-5, "Learning rate of sft.")
    yield flag("preference_rate", float, 1e-5, "Learning rate of dpo or grpo.")
    yield flag("bf16", bool, False, "Compute matrix products in bfloat16; weights stay in float32.")
    yield flag("save_every", int, 50, "Steps between checkpoints.")
    yield flag("seed", int, 0, "Seed of the tasks, the data order and the samples.")


@shown_with(
    "guided train reward-tune --out tuned --evaluate",
    "guided train reward-tune --tasks mine.jsonl --stage sft --sft-answers best --out tuned",
    "accelerate launch --config_file ddp.yaml $(which guided) train reward-tune --out tuned",
)
@with_flags(*_numbers())
def reward_tune(
    out: Annotated[Path, typer.Option(help="Folder of the run; an interrupted run is resumed.")],
    model: Annotated[
        str, typer.Option(help="Hub id or folder; 'default' is the default model.")
    ] = "default",
    tasks: Annotated[
        Path | None,
        typer.Option(
            help="File of JSON lines with prompt or messages, schema or grammar, expected and"
            " max_tokens. Default: generated tasks.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option(
            help="File of tasks to measure with. Default: the last fifth of --tasks.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    make: Annotated[int, typer.Option(min=1, help="Number of tasks to generate.")] = 400,
    make_held_out: Annotated[
        int, typer.Option(min=1, help="Number of tasks to generate and hold out.")
    ] = 64,
    stage: Annotated[
        Literal["sft", "dpo", "grpo", "all"],
        typer.Option(help="Stage to run; all is sft, followed by the one that --preference names."),
    ] = "all",
    preference: Annotated[
        Literal["grpo", "dpo"], typer.Option(help="Stage that follows sft in --stage all.")
    ] = "grpo",
    sft_answers: Annotated[
        Literal["expected", "best"],
        typer.Option(help="Imitate the expected answers, or the model's own best ones."),
    ] = "expected",
    weight: Annotated[
        list[str] | None,
        typer.Option(help="Weight of a term of the reward, e.g. right=2; may be repeated."),
    ] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Measure before and after, on held-out tasks.")
    ] = False,
    **numbers: Any,
) -> None:
    """Teach a model to answer in a given structure by itself.

    The model first imitates answers, then learns from rewards for its own: for those that their
    schema or grammar accepts, and that are right. Each stage writes a folder that guided serve
    loads. The same command again resumes an interrupted run.
    """
    prepare_environment()
    # Nothing is fetched from the hub except a model named by its hub id.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    with needing("guided train reward-tune", "tune"):
        from guided.train.reward_tune.evaluation import evaluation_table
        from guided.train.reward_tune.run import measure, tune
        from guided.train.reward_tune.settings import Settings, SftAnswers

    settings = Settings(
        model=model,
        stages=read_stages(stage, preference),
        sft_answers=SftAnswers(sft_answers),
        weights=read_weights(weight or []),
        **numbers,
    )
    training, measuring = read_tasks_flags(tasks, held_out, make, make_held_out, numbers["seed"])
    last = tune(settings, training, measuring, out)
    console = Console(soft_wrap=True)
    found = measure(settings, measuring, out) if evaluate else {}
    if found:
        console.print(evaluation_table(found))
    console.print(f"guided serve --model {last}", highlight=False, markup=False)


def read_stages(stage: str, preference: str) -> tuple[Stage, ...]:
    """Return the stages that the flags name, in order."""
    from guided.train.reward_tune.settings import Stage

    return (Stage.SFT, Stage(preference)) if stage == "all" else (Stage(stage),)


def read_weights(given: list[str]) -> Weights:
    """Return the weights of the terms, with defaults for those not given."""
    from guided.train.reward_tune.rewards import TERMS, Weights

    values: dict[str, float] = {}
    for each in given:
        name, sign, value = each.partition("=")
        if name not in TERMS or not sign:
            raise typer.BadParameter(f"--weight {each!r} is not NAME=NUMBER of {', '.join(TERMS)}")
        try:
            values[name] = float(value)
        except ValueError:
            raise typer.BadParameter(f"--weight {each!r} has no number") from None
    return Weights(**values)


def read_tasks_flags(
    file: Path | None, held_out: Path | None, make: int, make_held_out: int, seed: int
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Return tasks to train on and tasks to measure with, from files or generated."""
    from guided.train.reward_tune.extraction import extraction_tasks
    from guided.train.reward_tune.tasks import read_tasks

    if file is None:
        if held_out is not None:
            raise RequestError("--held-out goes with --tasks only", field="held_out")
        return extraction_tasks(make, make_held_out, seed)
    read = read_tasks(file)
    if held_out is not None:
        return read, read_tasks(held_out)
    count = max(1, len(read) // _HELD_OUT_SHARE)
    if len(read) == count:
        raise RequestError(f"{file} holds one task, and none is left to measure with")
    return read[:-count], read[-count:]
