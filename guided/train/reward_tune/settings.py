"""The settings of a run: frozen, and kept beside its results."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from guided.errors import RequestError
from guided.train.reward_tune.rewards import Weights

__all__ = ["Settings", "SftAnswers", "Stage", "keep_settings"]


_COUNTS: Final = ("sft_steps", "preference_steps", "sft_batch", "preference_batch", "save_every")


class Stage(StrEnum):
    """One way to train, which results in a model."""

    SFT = "sft"
    """Supervised fine-tuning on answers to imitate."""
    DPO = "dpo"
    """Direct preference optimisation (Rafailov et al. 2023) on pairs of the model's answers."""
    GRPO = "grpo"
    """Group relative policy optimisation (Shao et al. 2024, section 4.1) on rewards."""


class SftAnswers(StrEnum):
    """Which answers are imitated."""

    EXPECTED = "expected"
    """The right ones that the tasks contain."""
    BEST = "best"
    """The best by reward of several that the model draws under the constraint."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the outcome depends on, except the tasks."""

    model: str = "default"
    stages: tuple[Stage, ...] = (Stage.SFT, Stage.GRPO)
    """In order; each begins with the model of the one before."""
    sft_answers: SftAnswers = SftAnswers.EXPECTED
    sft_steps: int = 200
    preference_steps: int = 30
    """Steps of DPO or GRPO."""
    sft_batch: int = 4
    """Answers of one step in one process."""
    preference_batch: int = 8
    """Answers, or pairs for DPO, of one step in one process."""
    group: int = 4
    """Answers that are drawn for a task and compared."""
    temperature: float = 1.0
    """The temperature at which they are drawn."""
    sft_rate: float = 5e-5
    preference_rate: float = 1e-5
    bf16: bool = False
    """Whether products are computed in bfloat16; weights stay in float32."""
    save_every: int = 50
    """Steps from checkpoint to checkpoint."""
    seed: int = 0
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self) -> None:
        if not self.stages or len(set(self.stages)) < len(self.stages):
            raise RequestError("name at least one stage, and none twice", field="stages")
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise RequestError(f"{name} {getattr(self, name)!r} is below 1", field=name)
        for name in ("temperature", "sft_rate", "preference_rate"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise RequestError(f"{name} {getattr(self, name)!r} is not above 0", field=name)
        if self.seed < 0:
            raise RequestError(f"seed {self.seed!r} is below 0", field="seed")
        if self.group < 2:
            raise RequestError(f"group {self.group!r} is below 2", field="group")
        if Stage.GRPO in self.stages and self.preference_batch % self.group:
            raise RequestError(
                f"a batch of {self.preference_batch} does not hold whole groups of {self.group}",
                field="preference_batch",
                hint="choose a multiple of the group",
            )

    def steps(self, stage: Stage) -> int:
        """Return the steps of a stage."""
        return self.sft_steps if stage is Stage.SFT else self.preference_steps

    def batch(self, stage: Stage) -> int:
        """Return the batch of a stage's step."""
        return self.sft_batch if stage is Stage.SFT else self.preference_batch

    def rate(self, stage: Stage) -> float:
        """Return the learning rate of a stage."""
        return self.sft_rate if stage is Stage.SFT else self.preference_rate

    @property
    def as_json(self) -> dict[str, Any]:
        """Return the settings as they are kept in a file."""
        read: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return read


def keep_settings(folder: Path, settings: Settings) -> None:
    """Keep the settings in the folder of a run, which only continues with the same ones.

    Raises ``RequestError`` that names what differs.
    """
    file = folder / "settings.json"
    now = settings.as_json
    if not file.exists():
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
        partial.replace(file)
        return
    before = json.loads(file.read_text(encoding="utf-8"))
    changed = [name for name in now if before.get(name) != now[name]]
    if changed:
        name = changed[0]
        raise RequestError(
            f"{folder} is of a run with {name} {before.get(name)!r}, not {now[name]!r}",
            field=name,
            hint="use the same settings to go on with it, or another folder",
        )
