"""What the stages share: arguments of TRL's trainers, checkpoints, and the resulting folder.

OUT/sft.part/checkpoints/checkpoint-N   during training, only the last one
OUT/sft.part/model                      while it is written
OUT/sft                                 the final name, once it is whole
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from huggingface_hub import constants as hub

from guided.errors import ModelError
from guided.model.load import LoadedModel, load_model
from guided.model.model_files import ModelFiles
from guided.model.progress import SilentProgress
from guided.train.loop import last_checkpoint
from guided.train.reward_tune.settings import Settings, Stage

__all__ = ["TRAINING_LOG", "arguments", "load_policy", "processes", "train"]

TRAINING_LOG = "training_log.json"
"""The log of a trainer, beside the model that it made."""
_WARM_UP_SHARE = 20
"""The rate rises over one of this many steps."""
_LOGS = 20
"""The most entries of the log."""


def arguments(settings: Settings, stage: Stage, work: Path) -> dict[str, Any]:
    """Return the arguments that the configurations of all three trainers take."""
    # TRL reports which trainer runs where; users of guided have not agreed to that.
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    hub.HF_HUB_DISABLE_TELEMETRY = True
    steps = settings.steps(stage)
    return {
        "output_dir": str(work / "checkpoints"),
        "max_steps": steps,
        "per_device_train_batch_size": settings.batch(stage),
        "learning_rate": settings.rate(stage),
        "lr_scheduler_type": "linear",
        "warmup_steps": steps // _WARM_UP_SHARE,
        "logging_steps": max(1, steps // _LOGS),
        "save_steps": settings.save_every,
        "save_total_limit": 1,
        "seed": settings.seed,
        "bf16": settings.bf16,
        "use_cpu": not torch.cuda.is_available(),
        "dataloader_pin_memory": torch.cuda.is_available(),
        "activation_checkpointing": False,
        "report_to": "none",
    }


def processes() -> PartialState:
    """Return which process of a launcher this is, and the means to wait for the others."""
    # By default it does not connect processes on CPUs.
    return PartialState(cpu=not torch.cuda.is_available())


def load_policy(files: ModelFiles) -> LoadedModel:
    """Load the model to be trained, in float32; raises ``ModelError`` if it takes no messages."""
    loaded = load_model(files, dtype=torch.float32, progress=SilentProgress())
    if not loaded.has_chat_template:
        raise ModelError(
            f"{loaded.name} has no chat template, so it cannot be tuned on messages",
            hint="choose a model that was made to answer",
        )
    return loaded


def train(trainer: Any, work: Path, finished: Path, state: PartialState) -> None:
    """Train from the last checkpoint on, and write the model's folder, all or nothing.

    ``trainer`` is one of TRL's. All processes call this; the first of them renames the folder.
    """
    last = last_checkpoint(work / "checkpoints")
    trainer.train(resume_from_checkpoint=None if last is None else str(last))
    written = work / "model"
    trainer.save_model(str(written))
    state.wait_for_everyone()
    if state.is_main_process:
        # It is a pickle, and says nothing that the settings do not.
        (written / "training_args.bin").unlink(missing_ok=True)
        log = json.dumps(trainer.state.log_history, indent=1)
        (written / TRAINING_LOG).write_text(log + "\n", encoding="utf-8")
        written.replace(finished)
        shutil.rmtree(work)
    state.wait_for_everyone()
