"""A whole run: tasks, stages one after the other, and how good each model is.

    OUT/settings.json, tasks.jsonl, held-out.jsonl   what the run is, written first
    OUT/answers-STAGE.jsonl                          the model's answers to learn from
    OUT/sft, OUT/dpo, OUT/grpo                       folders of transformers, each whole
    OUT/evaluation/                                  figures and answers by model

Existing files are not made again, so a run that was killed continues where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from accelerate import PartialState

from guided.errors import RequestError
from guided.model.model_files import ModelFiles, find_model
from guided.train.reward_tune.answers import Asking, answers, opened_engine
from guided.train.reward_tune.card import write_card
from guided.train.reward_tune.evaluation import Evaluation, evaluate
from guided.train.reward_tune.rewards import Judge
from guided.train.reward_tune.settings import Settings, SftAnswers, Stage, keep_settings
from guided.train.reward_tune.stages import (
    best_answers,
    dpo_trainer,
    grpo_trainer,
    preferences,
    sft_trainer,
)
from guided.train.reward_tune.tasks import Task, read_tasks, write_tasks
from guided.train.reward_tune.trainers import processes, train

__all__ = ["measure", "tune"]


def tune(settings: Settings, tasks: Sequence[Task], held_out: Sequence[Task], folder: Path) -> Path:
    """Train through all stages and return the folder of the last model; raises ``GuidedError``.

    Tasks of an earlier run in the same folder have to be the same. Under ``accelerate launch`` all
    processes call this.
    """
    state = processes()
    if state.is_main_process:
        folder.mkdir(parents=True, exist_ok=True)
        keep_settings(folder, settings)
        judge = Judge()
        for name, these in (("tasks", tasks), ("held-out", held_out)):
            _keep_tasks(folder / f"{name}.jsonl", these, judge)
    state.wait_for_everyone()
    model = settings.model
    for stage in settings.stages:
        finished = folder / stage
        if not finished.is_dir():
            _run_stage(stage, find_model(model), settings, tasks, finished, state)
            if state.is_main_process:
                write_card(finished, settings, stage, len(tasks), {})
        model = str(finished)
    return folder / settings.stages[-1]


def measure(settings: Settings, held_out: Sequence[Task], folder: Path) -> dict[str, Evaluation]:
    """Measure the original model and that of each stage, and write the figures into the cards.

    The run has to be complete; only the first process does anything.
    """
    if not processes().is_main_process:
        return {}
    kept = folder / "evaluation"
    kept.mkdir(exist_ok=True)
    judge = Judge()
    models = {"before": find_model(settings.model).folder}
    models |= {f"after {stage}": folder / stage for stage in settings.stages}
    found: dict[str, Evaluation] = {}
    for name, model in models.items():
        file = kept / name.replace(" ", "-")
        found[name] = evaluate(model, held_out, judge, settings.weights, file)
    count = len(read_tasks(folder / "tasks.jsonl"))
    for stage in settings.stages:
        write_card(folder / stage, settings, stage, count, found)
    return found


def _keep_tasks(file: Path, tasks: Sequence[Task], judge: Judge) -> None:
    """Check and keep the tasks of a run, or compare them with those kept."""
    if file.exists():
        if read_tasks(file) != tuple(tasks):
            raise RequestError(
                f"{file} holds other tasks than this run",
                hint="use the same tasks to go on with it, or another folder",
            )
        return
    for task in tasks:
        judge.check(task)
    write_tasks(file, tasks)


def _run_stage(
    stage: Stage,
    files: ModelFiles,
    settings: Settings,
    tasks: Sequence[Task],
    finished: Path,
    state: PartialState,
) -> None:
    work = finished.with_name(f"{stage}.part")
    work.mkdir(exist_ok=True)
    judge = Judge()
    drawn = partial(_drawn, files, tasks, settings, finished, state)
    match stage:
        case Stage.SFT:
            if settings.sft_answers is SftAnswers.BEST:
                best = best_answers(tasks, drawn(is_constrained=True), judge, settings.weights)
            else:
                best = _expected(tasks)
            trainer = sft_trainer(files, tasks, best, settings, work)
        case Stage.DPO:
            said = drawn(is_constrained=False)
            pairs = preferences(tasks, said, judge, settings.weights)
            trainer = dpo_trainer(files, pairs, settings, work)
        case Stage.GRPO:
            trainer = grpo_trainer(files, tasks, judge, settings, work)
    train(trainer, work, finished, state)


def _expected(tasks: Sequence[Task]) -> dict[str, str]:
    for task in tasks:
        if task.expected is None:
            raise RequestError(
                f"task {task.name!r} brings no expected answer to imitate",
                hint="imitate the model's own best ones: --sft-answers best",
            )
    return {task.name: task.expected for task in tasks if task.expected is not None}


def _drawn(
    files: ModelFiles,
    tasks: Sequence[Task],
    settings: Settings,
    finished: Path,
    state: PartialState,
    *,
    is_constrained: bool,
) -> dict[str, tuple[str, ...]]:
    """Return a group of the model's answers per task; the first process draws, the others read."""
    asking = Asking(is_constrained, settings.group, settings.temperature, settings.seed)
    file = finished.with_name(f"answers-{finished.name}.jsonl")
    with state.main_process_first(), opened_engine(files.folder) as engine:
        return answers(engine, tasks, asking, file)
