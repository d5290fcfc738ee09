"""Attention of queries over keys and values that lie in memory one behind the other."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

__all__ = ["attention"]


def attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    mask: torch.Tensor | None,
    is_causal: bool = False,
    scaling: float | None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """``[batch, heads, new, size]`` over ``[batch, kv heads, rows, size]`` → as the query.

    ``mask`` is added to the scores, ``[batch or 1, 1, new, rows]``. Scores are drawn into
    ``(-softcap, softcap)`` by a hyperbolic tangent before that (Gemma Team, *Gemma 2*, 2024).
    ``sinks``, ``[heads]``, are scores of a row that has nothing to give: what they draw of the
    softmax is lost (Xiao et al., *Efficient streaming language models with attention sinks*, 2023).
    """
    if softcap is not None or sinks is not None:
        return _explicit(query, keys, values, mask, is_causal, scaling, softcap, sinks)
    return scaled_dot_product_attention(
        query,
        keys,
        values,
        attn_mask=mask,
        is_causal=is_causal,
        scale=scaling,
        enable_gqa=query.shape[1] != keys.shape[1],
    )


def _explicit(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    scaling: float | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Step by step, where torch has no kernel."""
    shared = query.shape[1] // keys.shape[1]
    keys, values = (rows.repeat_interleave(shared, dim=1) for rows in (keys, values))
    scores = (
        query @ keys.transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    )
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    new, rows = scores.shape[2:]
    if is_causal:
        later = torch.ones(new, rows, dtype=torch.bool, device=scores.device).triu(rows - new + 1)
        scores = scores.masked_fill(later, float("-inf"))
    if mask is not None:
        scores = scores + mask
    if sinks is not None:
        column = sinks.to(scores.dtype).view(1, -1, 1, 1).expand(len(scores), -1, new, 1)
        scores = torch.cat([scores, column], dim=-1)
    # As the models themselves do it: the weights are worked out in fp32 at least.
    weights = scores.softmax(dim=-1, dtype=torch.promote_types(torch.float32, scores.dtype))
    return weights[..., :rows].to(values.dtype) @ values
