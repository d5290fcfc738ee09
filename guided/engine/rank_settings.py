"""Checks which settings go together with a model that is split over several processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import torch

from guided.errors import RequestError
from guided.model.device import AUTO
from guided.model.parallel.split import Split, Way

__all__ = ["check_ranks", "chosen_split"]

_OWN: Final = ("int8", "int4", "stored")
_ANY: Final = (AUTO, "cpu", "cuda")
"""Devices of which every rank may have one."""


def chosen_split(tensor_parallel: int, pipeline_parallel: int) -> Split:
    """Return how to split a model; raises ``RequestError`` for counts that do not go together."""
    asked = {Way.TENSOR: tensor_parallel, Way.PIPELINE: pipeline_parallel}
    for way, ranks in asked.items():
        if ranks < 1:
            raise RequestError(f"{way} {ranks!r} is below 1", field=way)
    if min(asked.values()) > 1:
        raise RequestError(
            f"a model cannot be split by its matrices and by its layers at once: tensor_parallel "
            f"is {tensor_parallel}, pipeline_parallel {pipeline_parallel}",
            field=Way.PIPELINE,
            hint="leave one of the two out, and give the other all ranks",
        )
    return Split(*max(asked.items(), key=lambda way: way[1]))


def check_ranks(
    split: Split,
    device: str,
    where: torch.device,
    *,
    dtype: str | None = None,
    heads: Sequence[str] = (),
    adapters: Mapping[str, str | Path] | None = None,
) -> None:
    """Raise ``RequestError`` for settings that a model over several processes cannot have.

    ``where`` is the device that the name ``device`` stands for. Raises ``ModelError`` if there are
    too few.
    """
    if split.ranks == 1:
        return
    refused = {
        f"weights in {dtype}, which our own forward pass computes with": dtype in _OWN,
        "Medusa or EAGLE-3 heads": bool(heads),
        "LoRA adapters": bool(adapters),
        f"the one device {device!r}": device not in _ANY,
    }
    for what, is_asked in refused.items():
        if is_asked:
            raise RequestError(
                f"a model over {split.ranks} ranks ({split.way}) cannot have {what}",
                field=split.way,
                hint="leave one of the two out",
            )
    # Torch's modules for several processes take a moment to import.
    from guided.model.parallel.shares import check_devices

    check_devices(where, split)
