"""What does not go together with a model that is split over several processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import torch

from guided.errors import RequestError
from guided.model.device import AUTO

__all__ = ["check_ranks"]

_FIELD: Final = "tensor_parallel"
_OWN: Final = ("int8", "int4", "stored")
_ANY: Final = (AUTO, "cpu", "cuda")
"""Devices of which every rank may have one."""


def check_ranks(
    ranks: int,
    device: str,
    where: torch.device,
    *,
    dtype: str | None = None,
    heads: Sequence[str] = (),
    adapters: Mapping[str, str | Path] | None = None,
) -> None:
    """Raise ``RequestError`` for settings that a model over ``ranks`` processes cannot have.

    ``where`` is what the name ``device`` came to. Raises ``ModelError`` where there are too few.
    """
    if ranks == 1:
        return
    if ranks < 1:
        raise RequestError(f"tensor_parallel {ranks!r} is below 1", field=_FIELD)
    refused = {
        f"weights in {dtype}, which our own forward pass computes with": dtype in _OWN,
        "Medusa or EAGLE-3 heads": bool(heads),
        "LoRA adapters": bool(adapters),
        f"the one device {device!r}": device not in _ANY,
    }
    for what, is_asked in refused.items():
        if is_asked:
            raise RequestError(
                f"a model over {ranks} ranks (tensor_parallel) cannot have {what}",
                field=_FIELD,
                hint="leave one of the two out",
            )
    # Torch's parts for several processes take a moment to import.
    from guided.model.parallel.shares import check_devices

    check_devices(where, ranks)
