"""The training loop: transformers' Trainer, which resumes where a killed run stopped.

``accelerate launch`` takes the settings that spread it over processes; see examples/train.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from guided.errors import RequestError
from guided.model.load import native_dtype
from guided.train.accuracy import Accuracy
from guided.train.examples import Example
from guided.train.lesson import Lesson
from guided.train.progress import TrainingProgress

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState

__all__ = ["Schedule", "Trained", "last_checkpoint", "train", "trained_module"]

_CHECKPOINT: Final = re.compile(r"checkpoint-(\d+)")
_STATE: Final = "trainer_state.json"
_SETTINGS: Final = "training.json"
_CHECKPOINTS: Final = "checkpoints"
_TRAINED: Final = "trained"
_WARM_UP: Final = 0.05


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long, and how, to train."""

    steps: int
    minutes: float | None
    """Training ends after this many minutes of a run even if steps are left."""
    batch: int
    """Texts of one step in one process."""
    learning_rate: float
    save_every: int
    """Steps from one checkpoint to the next."""
    seed: int


@dataclass(frozen=True, slots=True)
class Trained:
    """The outcome of a training."""

    steps: int
    seconds: float
    """The seconds of this run."""
    losses: tuple[tuple[int, float], ...]
    """The mean loss up to some steps, since the previous entry."""
    accuracy: Accuracy
    """On held-out answers; only the first process has it."""
    depth_name: str


class _Tell(TrainerCallback):
    """Reports the loss where no bar shows it."""

    def __init__(self, progress: TrainingProgress) -> None:
        self._progress = progress
        self._began = time.monotonic()

    def on_log(
        self,
        args: TrainingArguments,  # noqa: ARG002 - given by the caller
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002 - given by the caller
        **given: Any,
    ) -> None:
        logs: Mapping[str, float] = given["logs"]
        if "loss" in logs:
            self._progress.note(
                f"step {state.global_step} of {state.max_steps}: loss {float(logs['loss']):.3f}, "
                f"after {time.monotonic() - self._began:.0f} s"
            )


class _TimeLimit(TrainerCallback):
    """Ends the training in all processes at the same step."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60 * minutes

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002 - given by the caller
        state: TrainerState,  # noqa: ARG002 - given by the caller
        control: TrainerControl,
        **_: Any,
    ) -> None:
        from accelerate.utils import broadcast_object_list

        # Their clocks differ, so the first process decides.
        (is_over,) = broadcast_object_list([time.monotonic() > self._end])
        if is_over:
            control.should_training_stop = True
            control.should_save = True


def train(
    lesson: Lesson,
    training: Sequence[Example],
    held_out: Sequence[Example],
    folder: Path,
    schedule: Schedule,
    *,
    device: torch.device,
    facts: str,
    progress: TrainingProgress,
) -> Trained:
    """Train, or continue from the last checkpoint below the folder; then measure and save.

    The card has ``facts`` before the steps and the accuracies. Raises ``RequestError`` if the
    checkpoints are those of a training with other settings.
    """
    _check_settings(lesson, folder)
    torch.manual_seed(schedule.seed)
    trainer = Trainer(
        model=lesson.make_module(),
        args=_arguments(folder / _CHECKPOINTS, schedule, device),
        data_collator=lesson.collate,
        train_dataset=training,
    )
    trainer.remove_callback(PrinterCallback)
    if trainer.args.disable_tqdm:
        trainer.add_callback(_Tell(progress))
    if schedule.minutes is not None:
        trainer.add_callback(_TimeLimit(schedule.minutes))
    last = last_checkpoint(folder / _CHECKPOINTS)
    if last is not None:
        progress.note(f"going on from {last}")
    began = time.monotonic()
    trainer.train(resume_from_checkpoint=None if last is None else str(last))
    seconds = time.monotonic() - began
    steps = trainer.state.global_step
    losses = tuple(
        (int(entry["step"]), float(entry["loss"]))
        for entry in trainer.state.log_history
        if "loss" in entry
    )
    # However it was spread, this writes everything that was trained into one file.
    whole = folder / _CHECKPOINTS / _TRAINED
    trainer.save_model(str(whole))
    trainer.accelerator.wait_for_everyone()
    accuracy = Accuracy()
    if trainer.is_world_process_zero():
        module = trained_module(lesson, folder)
        accuracy = lesson.measure(module, held_out)
        shares = accuracy.markdown(lesson.depth_name)
        lesson.save(module, folder, f"{facts} It was trained for {steps} steps.\n\n{shares}")
    trainer.accelerator.wait_for_everyone()
    return Trained(steps, seconds, losses, accuracy, lesson.depth_name)


def last_checkpoint(folder: Path) -> Path | None:
    """Return the last checkpoint that was written to its end."""
    found = {}
    for path in folder.glob("checkpoint-*"):
        name = _CHECKPOINT.fullmatch(path.name)
        if name is not None and _is_whole(path):
            found[int(name[1])] = path
    return found[max(found)] if found else None


def _is_whole(checkpoint: Path) -> bool:
    """Whether a checkpoint has its state, which is written last."""
    try:
        json.loads((checkpoint / _STATE).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _check_settings(lesson: Lesson, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file, told = folder / _SETTINGS, json.loads(json.dumps(lesson.told()))
    if not file.exists():
        file.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        return
    before = json.loads(file.read_text(encoding="utf-8"))
    if before != told:
        differing = sorted(name for name in before | told if before.get(name) != told.get(name))
        raise RequestError(
            f"{folder} holds a training run with other settings ({', '.join(differing)})",
            hint="name another folder with --out, or delete this one",
        )


def _arguments(folder: Path, schedule: Schedule, device: torch.device) -> TrainingArguments:
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=schedule.steps,
        per_device_train_batch_size=schedule.batch,
        learning_rate=schedule.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=round(_WARM_UP * schedule.steps),
        weight_decay=0.0,
        logging_steps=max(1, min(10, schedule.steps // 10)),
        save_strategy="steps",
        save_steps=schedule.save_every,
        save_total_limit=2,
        seed=schedule.seed,
        use_cpu=device.type == "cpu",
        bf16=native_dtype(device) == torch.bfloat16,
        disable_tqdm=not sys.stderr.isatty(),
        report_to="none",
        # The lesson makes batches of examples, on the target's device.
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        # Buffers do not change, so they need not be sent to every process at every step.
        ddp_broadcast_buffers=False,
        ddp_find_unused_parameters=False,
    )
    # One process is for one device: batches cannot be cut into equal parts along one dimension.
    arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments


def trained_module(lesson: Lesson, folder: Path) -> nn.Module:
    """Return the trained module of a training that ended in a folder, for one process."""
    from safetensors.torch import load_file

    module = lesson.make_module()
    module.load_state_dict(load_file(folder / _CHECKPOINTS / _TRAINED / "model.safetensors"))
    return module.eval()
