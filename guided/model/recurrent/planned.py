"""Computes the memory of a model's recurrent layers before its weights are loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from guided.model.loading_class import loading_class
from guided.model.recurrent.mixers import take_mixers
from guided.model.recurrent.states import RecurrentState
from guided.model.transformers_calls import quiet_transformers, reading

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["StateSize", "plan_states"]


@dataclass(frozen=True, slots=True)
class StateSize:
    """Bytes that recurrent layers keep."""

    of_text: int
    """For a text of any length."""
    of_drafted: int
    """For each drafted token that became text, until the next call."""


def plan_states(config: PretrainedConfig, folder: Path, dtype: torch.dtype) -> StateSize:
    """Return what a config's layers would keep; its modules take no memory for weights."""
    hidden = int(config.get_text_config().hidden_size)
    with (
        reading("config", folder),
        quiet_transformers(),
        torch.device("meta"),
        torch.inference_mode(),
    ):
        module = loading_class(config, folder).from_config(config, dtype=dtype).train(mode=False)
        mixers = take_mixers(module)
        entering = torch.zeros(1, 2, hidden, dtype=dtype)
        kept = tuple(mixer.run(entering, ())[1] for mixer in mixers)
    of_drafted = len(mixers) * hidden * dtype.itemsize
    return StateSize(RecurrentState(2, kept).nbytes, of_drafted)
