"""The share of one rank: its place among the ranks, its device, its part of the weights."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import torch
from torch import distributed
from torch._C._distributed_c10d import FileStore, HashStore
from torch.distributed.tensor import DTensor

from guided.errors import ModelError
from guided.model.device import CPU
from guided.model.load import load_module
from guided.model.model_files import ModelFiles, read_config
from guided.model.parallel.line import Line
from guided.model.parallel.pipeline_plan import pipeline_plan
from guided.model.parallel.split import Parallelism, Split
from guided.model.parallel.stage_module import keep_stage
from guided.model.parallel.tensor_plan import tensor_plan
from guided.model.progress import Progress
from guided.model.stage import Stage

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["RANK_VARIABLES", "Share", "check_devices", "device_of", "join_group", "load_share"]

_BACKENDS: Final = {"cpu": "gloo", "cuda": "nccl"}
_LOOPBACK: Final = "lo"
_INTERFACE: Final = "GLOO_SOCKET_IFNAME"
_LOCAL_RANK: Final = "LOCAL_RANK"
RANK_VARIABLES: Final = (_INTERFACE, _LOCAL_RANK)
"""The environment variables that ``join_group`` sets."""
_PATIENCE: Final = timedelta(minutes=5)
"""How long a rank waits for another, once all were told to do the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What one rank has of a model."""

    module: PreTrainedModel
    """All ranks have to make its calls at once."""
    stage: Stage | None
    """Its layers, if other ranks have the others."""

    @property
    def nbytes(self) -> int:
        """Bytes of the weights of this rank."""
        tensors = chain(self.module.parameters(), self.module.buffers())
        return sum((t.to_local() if isinstance(t, DTensor) else t).nbytes for t in tensors)


def check_devices(device: torch.device, split: Split) -> None:
    """Raise ``ModelError`` unless there is a device for each rank; on the CPU they share it."""
    ranks = split.ranks
    accelerator = torch.accelerator.current_accelerator()
    if split.parallelism is Parallelism.TENSOR and device == CPU and accelerator is not None:
        # Transformers places shares on an accelerator if there is one.
        raise ModelError(
            f"a model over {ranks} ranks cannot be on the CPU where torch finds {accelerator.type}",
            hint="hide it with CUDA_VISIBLE_DEVICES='', or leave device out",
        )
    if device.type == "cuda" and torch.cuda.device_count() < ranks:
        raise ModelError(
            f"a model over {ranks} ranks takes a CUDA device for each; torch finds "
            f"{torch.cuda.device_count()}",
            hint="choose fewer ranks, and check CUDA_VISIBLE_DEVICES",
        )


def device_of(kind: str, rank: int) -> torch.device:
    """Return the device of a rank: the CPU, or the CUDA device with its number."""
    return CPU if kind == "cpu" else torch.device(kind, rank)


def join_group(rank: int, ranks: int, meeting: str, device: torch.device) -> None:
    """Meet the other ranks in ``torch.distributed``; each calls this once."""
    # All are on this machine, whatever its name resolves to.
    os.environ.setdefault(_INTERFACE, _LOOPBACK)
    os.environ[_LOCAL_RANK] = str(rank)  # by which transformers chooses the device
    if device.type == "cuda":
        torch.cuda.set_device(device)
    _begin_anew()
    distributed.init_process_group(
        _BACKENDS[device.type],
        timeout=_PATIENCE,
        store=FileStore(meeting, ranks),
        rank=rank,
        world_size=ranks,
        device_id=device if device.type == "cuda" else None,
    )


def _begin_anew() -> None:
    """Make torch forget groups that were never met, in whatever code.

    Torch names a group by how many this process has begun to make, and ranks meet under equal
    names. Leaving a group resets the count, and leaving one takes one: a group of only this
    process.
    """
    distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    distributed.destroy_process_group()


def load_share(
    files: ModelFiles,
    dtype: torch.dtype,
    device: torch.device,
    split: Split,
    rank: int,
    progress: Progress,
) -> Share:
    """Load a rank's part of the weights into a module of transformers, straight from the files.

    Raises ``ModelError`` as ``tensor_plan`` and ``pipeline_plan`` do.
    """
    config = read_config(files.folder)
    if split.parallelism is Parallelism.PIPELINE:
        stage = pipeline_plan(files, config, split.ranks).stage_of(rank)
        line = Line(rank, split.ranks)
        prune = partial(keep_stage, stage=stage, neighbours=line, dtype=dtype)
        return Share(load_module(files, config, dtype, device, progress, prune=prune), stage)
    plan = tensor_plan(files, config, split.ranks)
    # The setting of the class stays as it is.
    vars(config.get_text_config())["base_model_tp_plan"] = dict(plan.rules)
    return Share(load_module(files, config, dtype, device, progress, ranks=split.ranks), None)
