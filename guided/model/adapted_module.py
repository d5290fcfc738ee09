"""Adds LoRA adapters to the matrices of a module of transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import nn

from guided.errors import ModelError
from guided.model.adapted_rows import AdaptedRows
from guided.model.adapter import Adapter, check_shape, no_matrix

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["adapt_module"]

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_Addition: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Both halves, in the module's type and on its device; the second includes the scale."""


def adapt_module(
    module: PreTrainedModel,
    adapters: Sequence[Adapter],
    rows: AdaptedRows,
    apart: Iterable[nn.Module],
) -> None:
    """Make the module add to the rows of each call what the adapters do.

    They are numbered from 1 in their order; ``rows`` must describe each call before it is
    computed. Raises ModelError for an adapter of a matrix that the module does not have, or has in
    another size, and for matrices that do not see all rows of a call: that of the logits, those
    of experts, and those of the modules ``apart``.
    """
    additions: dict[str, dict[int, _Addition]] = {}
    parts = dict(module.named_modules())
    output_embeddings: Callable[[], object] = module.get_output_embeddings
    head = output_embeddings()
    not_whole = {head, *apart}
    for number, adapter in enumerate(adapters, 1):
        for name, low_rank in adapter.matrices.items():
            matrix = parts.get(name)
            # Experts see only the rows chosen for them, in an order of their own.
            if not isinstance(matrix, nn.Linear) or matrix in not_whole or ".experts." in name:
                raise no_matrix(adapter, name)
            if matrix.weight.dtype not in _FLOATS:
                raise ModelError(
                    f"the adapter {adapter.name!r} adds to {name}, whose weights are packed by "
                    "another program",
                    hint="serve the model as it was before it was quantised",
                )
            check_shape(adapter, name, low_rank, tuple(matrix.weight.shape))
            halves = low_rank.down, low_rank.up * low_rank.scale
            down, up = (half.to(matrix.weight.device, matrix.weight.dtype) for half in halves)
            additions.setdefault(name, {})[number] = down, up
    for name, by_adapter in additions.items():
        parts[name].register_forward_hook(_adding(by_adapter, rows))


def _adding(
    additions: Mapping[int, _Addition], rows: AdaptedRows
) -> Callable[[Any, Any, torch.Tensor], torch.Tensor]:
    """Make a hook that adds to a packed product, ``[1, tokens, out]`` or ``[tokens, out]``."""

    def add(_module: object, inputs: tuple[torch.Tensor, ...], product: torch.Tensor) -> Any:
        flat, of_rows = product.view(-1, product.shape[-1]), inputs[0].flatten(0, -2)
        assert len(flat) == rows.count, f"{len(flat)} rows of {rows.count}"
        for adapter, own in rows.on(product.device).items():
            if adapter in additions:
                down, up = additions[adapter]
                flat[own] += (of_rows[own] @ down.T) @ up.T
        return product

    return add
