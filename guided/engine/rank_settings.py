"""Checks which settings go together with a model that is split over several processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import torch

from guided.errors import RequestError
from guided.model.device import AUTO
from guided.model.parallel.split import Parallelism, Split

__all__ = ["check_ranks", "choose_split"]

_OWN: Final = ("int8", "int4", "stored")
_ANY: Final = (AUTO, "cpu", "cuda")
"""Devices of which every rank may have one."""


def choose_split(tensor_parallel: int, pipeline_parallel: int) -> Split:
    """Return how to split a model; raises ``RequestError`` for counts that do not go together."""
    ranks_by_parallelism = {
        Parallelism.TENSOR: tensor_parallel,
        Parallelism.PIPELINE: pipeline_parallel,
    }
    for parallelism, ranks in ranks_by_parallelism.items():
        if ranks < 1:
            raise RequestError(f"{parallelism} {ranks!r} is below 1", field=parallelism)
    if min(ranks_by_parallelism.values()) > 1:
        raise RequestError(
            f"a model cannot be split by its matrices and by its layers at once: tensor_parallel "
            f"is {tensor_parallel}, pipeline_parallel {pipeline_parallel}",
            field=Parallelism.PIPELINE,
            hint="leave one of the two out, and give the other all ranks",
        )
    return Split(*max(ranks_by_parallelism.items(), key=lambda pair: pair[1]))


def check_ranks(
    split: Split,
    device: str,
    torch_device: torch.device,
    *,
    dtype: str | None = None,
    heads: Sequence[str] = (),
    adapters: Mapping[str, str | Path] | None = None,
) -> None:
    """Raise ``RequestError`` for settings that a model over several processes cannot have.

    ``torch_device`` is what the name ``device`` stands for. Raises ``ModelError`` if there are too
    few devices.
    """
    if split.ranks == 1:
        return
    refused = {
        f"weights in {dtype}, which our own forward pass computes with": dtype in _OWN,
        "Medusa or EAGLE-3 heads": bool(heads),
        "LoRA adapters": bool(adapters),
        f"the one device {device!r}": device not in _ANY,
    }
    for what, is_requested in refused.items():
        if is_requested:
            raise RequestError(
                f"a model over {split.ranks} ranks ({split.parallelism}) cannot have {what}",
                field=split.parallelism,
                hint="leave one of the two out",
            )
    # Torch's modules for several processes take a moment to import.
    from guided.model.parallel.shares import check_devices

    check_devices(torch_device, split)
