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
    softcap: float | None,
) -> torch.Tensor:
    """``[batch, heads, new, size]`` over ``[batch, kv heads, rows, size]`` → as the query.

    ``mask`` is added to the scores, ``[batch or 1, 1, new, rows]``. Scores are drawn into
    ``(-softcap, softcap)`` by a hyperbolic tangent before that (Gemma Team, *Gemma 2*, 2024).
    """
    if softcap is not None:
        return _soft_capped(query, keys, values, mask, is_causal, scaling, softcap)
    batch, heads, new, size = query.shape
    kv_heads = keys.shape[1]
    if new == 1 and heads != kv_heads:
        # The query heads that share a key head become rows of one query: no key is repeated.
        grouped = query.reshape(batch, kv_heads, -1, size)
        output = scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=scaling)
        return output.reshape(batch, heads, 1, -1)
    return scaled_dot_product_attention(
        query,
        keys,
        values,
        attn_mask=mask,
        is_causal=is_causal,
        scale=scaling,
        enable_gqa=heads != kv_heads,
    )


def _soft_capped(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    scaling: float | None,
    softcap: float,
) -> torch.Tensor:
    shared = query.shape[1] // keys.shape[1]
    keys, values = (rows.repeat_interleave(shared, dim=1) for rows in (keys, values))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = softcap * torch.tanh(query @ keys.transpose(2, 3) * scale / softcap)
    if is_causal:
        new, rows = scores.shape[2:]
        later = torch.ones(new, rows, dtype=torch.bool, device=scores.device).triu(rows - new + 1)
        scores = scores.masked_fill(later, float("-inf"))
    if mask is not None:
        scores = scores + mask
    # As the models themselves do it: the weights are worked out in fp32 at least.
    weights = scores.softmax(dim=-1, dtype=torch.promote_types(torch.float32, scores.dtype))
    return weights.to(values.dtype) @ values
