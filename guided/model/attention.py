"""Our attention, plugged into transformers' attention interface.

A model of transformers calls one function for the attention of each layer. Ours is registered as
``guided`` and finds the step that runs in a context variable, since some models pass no keyword
arguments down to their layers; so engines may run beside each other, each in its own thread.
Because no mask function carries that name, transformers builds no mask; who sees whom is decided
here, per sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import torch
from transformers import AttentionInterface

from guided.errors import ModelError

__all__ = ["ATTENTION_NAME", "AttentionStep", "register_attention", "running"]

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
        "output_router_logits",
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
        softcap: float | None,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """Attention of one layer: ``[1, heads, tokens, dim]`` → ``[1, tokens, heads, dim]``."""
        ...


_running: ContextVar[AttentionStep] = ContextVar("guided_step")


@contextmanager
def running(step: AttentionStep) -> Iterator[None]:
    """Let the attention of a model that is called in here be that of ``step``."""
    token = _running.set(step)
    try:
        yield
    finally:
        _running.reset(token)


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
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **extras: object,
) -> tuple[torch.Tensor, None]:
    """What a layer calls; an argument that would change the result and is not known is refused."""
    layer = getattr(module, "layer_idx", None)
    kind = type(module).__name__
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
    output = _running.get().attend(
        layer,
        query,
        key,
        value,
        scaling=scaling,
        window=sliding_window,
        softcap=softcap,
        sinks=s_aux,
    )
    return output, None
