"""Attention over packed sequences, plugged into transformers' attention interface.

A model of transformers calls one function for the attention of each layer and passes unknown
keyword arguments down to it. Ours is registered as ``guided`` and finds the running step under the
keyword ``guided_step``. Because no mask function carries that name, transformers builds no mask;
who sees whom is decided here, per sequence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from guided.errors import ModelError
from guided.kv.storage import SequenceStorage
from guided.model.batch import Segment, StepBatch

__all__ = ["ATTENTION_NAME", "AttentionStep", "PackedAttention", "register_attention"]

ATTENTION_NAME = "guided"
"""The name under which transformers finds the attention function."""

_IGNORED = frozenset(
    {
        "cache_position",
        "dropout",
        "is_causal",
        "layer_idx",
        "output_attentions",
        "output_hidden_states",
        "past_key_values",
        "position_embeddings",
        "position_ids",
        "return_dict",
        "use_cache",
    }
)
"""Keyword arguments that change nothing here, or are checked when a model is loaded."""


class AttentionStep(Protocol):
    """One model call, as its attention layers see it."""

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scaling: float | None,
        window: int | None,
    ) -> torch.Tensor:
        """Attention of one layer: ``[1, heads, tokens, dim]`` → ``[1, tokens, heads, dim]``."""
        ...


def register_attention() -> None:
    """Make the attention function known to transformers; doing it again changes nothing."""
    AttentionInterface.register(ATTENTION_NAME, _attention)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    guided_step: AttentionStep | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **extras: object,
) -> tuple[torch.Tensor, None]:
    """What a layer calls; an argument that would change the result and is not known is refused."""
    layer = getattr(module, "layer_idx", None)
    kind = type(module).__name__
    if guided_step is None:
        raise ModelError(f"{kind} does not pass keyword arguments down to its attention")
    if not isinstance(layer, int):
        raise ModelError(f"{kind} does not say which layer it is (it has no layer_idx)")
    unknown = sorted(k for k, v in extras.items() if v is not None and k not in _IGNORED)
    if attention_mask is not None:
        unknown.insert(0, "attention_mask")
    if extras.get("is_causal") is False:
        unknown.append("is_causal=False")
    if unknown:
        raise ModelError(
            f"{kind} needs {', '.join(unknown)} in its attention, which is not supported",
            hint="use a model without it",
        )
    output = guided_step.attend(layer, query, key, value, scaling=scaling, window=sliding_window)
    return output, None


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """What the new tokens of a segment see under one window: stored rows, and a mask over them."""

    first: int
    """The first stored row that any of them sees."""
    mask: torch.Tensor | None
    """Added to the scores, ``[tokens, rows]``; ``None`` where ``is_causal`` says it all."""
    is_causal: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """A segment with everything that is the same for all layers worked out."""

    storage: SequenceStorage
    start: int
    """First token in the packed row."""
    stop: int
    committed: int
    length: int
    """Rows in the storage once the new ones are written."""
    views: dict[int | None, _View]
    """By window; ``None`` is full attention."""


class PackedAttention:
    """Attention of a step batch: each sequence sees its own stored rows and nothing else."""

    def __init__(
        self,
        batch: StepBatch,
        windows: Iterable[int | None],
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        windows = tuple(windows)
        self._spans = tuple(
            _Span(
                storage=segment.storage,
                start=start,
                stop=start + len(segment.tokens),
                committed=segment.committed,
                length=segment.committed + len(segment.tokens),
                views={w: _view(segment, w, dtype=dtype, device=device) for w in windows},
            )
            for start, segment in zip(batch.starts, batch.segments, strict=True)
        )

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scaling: float | None,
        window: int | None,
    ) -> torch.Tensor:
        """Store the new keys and values, then let each sequence's tokens see its own rows."""
        outputs = [
            _attend_span(span, layer, query, key, value, scaling, window) for span in self._spans
        ]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)


def _attend_span(
    span: _Span,
    layer: int,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    window: int | None,
) -> torch.Tensor:
    keys, values = span.storage.keys[layer], span.storage.values[layer]
    keys[:, :, span.committed : span.length] = key[:, :, span.start : span.stop]
    values[:, :, span.committed : span.length] = value[:, :, span.start : span.stop]
    view = span.views[window]
    seen_keys = keys[:, :, view.first : span.length]
    seen_values = values[:, :, view.first : span.length]
    asked = query[:, :, span.start : span.stop]  # [1, heads, new, dim]
    _, heads, new, size = asked.shape
    if new == 1:
        # The query heads that share a key head become rows of one query: no key is repeated.
        grouped = asked.reshape(1, keys.shape[1], -1, size)
        output = scaled_dot_product_attention(grouped, seen_keys, seen_values, scale=scaling)
        return output.reshape(1, 1, heads, -1)
    output = scaled_dot_product_attention(
        asked,
        seen_keys,
        seen_values,
        attn_mask=view.mask,
        is_causal=view.is_causal,
        scale=scaling,
        enable_gqa=heads != keys.shape[1],
    )
    return output.transpose(1, 2)


def _view(
    segment: Segment, window: int | None, *, dtype: torch.dtype, device: torch.device
) -> _View:
    """What a segment's tokens see; row j of the storage has position j up to the committed ones."""
    committed, new = segment.committed, len(segment.tokens)
    if window is not None and committed + new <= window:
        window = None  # it reaches to the start anyway
    first = 0 if window is None else max(0, committed + 1 - window)
    if new == 1:
        return _View(first, None, is_causal=False)
    if committed == 0 and window is None and segment.ancestors is None:
        return _View(0, None, is_causal=True)
    depths = torch.tensor(segment.depths)
    if segment.ancestors is None:
        among_new = torch.ones(new, new, dtype=torch.bool).tril()
    else:
        among_new = torch.from_numpy(segment.ancestors)
    before = torch.ones(new, committed - first, dtype=torch.bool)
    if window is not None:
        query_positions = committed + depths[:, None]
        before &= query_positions - torch.arange(first, committed)[None, :] < window
        among_new = among_new & (depths[:, None] - depths[None, :] < window)
    sees = torch.cat((before, among_new), dim=1)  # [new, rows seen]
    mask = torch.zeros(sees.shape, dtype=dtype).masked_fill_(~sees, float("-inf"))
    return _View(first, mask.to(device), is_causal=False)
