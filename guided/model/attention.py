"""Attention of model calls over the paged cache, plugged into transformers' attention interface.

A model of transformers calls one function for the attention of each layer. Ours is registered as
``guided`` and finds the running step in a context variable, because some models pass no keyword
arguments down to their layers; so engines may run beside each other, each in its own thread.
No mask function has that name, so transformers builds no mask::

    layer of a model ──▶ _attention ──▶ PackedAttention.attend     writes new keys and values
                                         └─▶ Attention.attend      by torch, or by Triton

Our own forward pass on the CPU has attention of its own (``guided.model.cpu.attention``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import NamedTuple, Protocol

import torch

from guided.errors import ModelError
from guided.kv.paged_storage import LayerSlots, PagedStorage
from guided.model.batch import StepBatch
from guided.model.torch_attention import ScoreOptions, TorchAttention
from guided.model.visible import VisibleSlots, visible_slots

__all__ = [
    "ATTENTION_NAME",
    "KERNEL_VARIABLE",
    "Attention",
    "AttentionGroup",
    "AttentionKernel",
    "AttentionStep",
    "LayerCall",
    "PackedAttention",
    "choose_kernel",
    "open_attention",
    "register_attention",
    "running",
]

ATTENTION_NAME = "guided"
"""The name under which transformers finds the attention function."""
KERNEL_VARIABLE = "GUIDED_ATTENTION"
"""Environment variable that names a kernel; see ``choose_kernel``."""

_TRITON_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_IGNORED = frozenset(
    {
        "cache_position",
        "dropout",
        "is_causal",
        "layer_idx",
        "logits_to_keep",
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


class AttentionKernel(StrEnum):
    """Code that computes attention over the slots of a cache."""

    TORCH = "torch"
    """Torch's kernel over gathered keys and values, on any device."""
    TRITON = "triton"
    """A kernel of ours that reads them in place, on CUDA devices with Triton; narrow calls are then
    replayed from graphs (``guided.model.cuda_graphs``)."""


class Attention(Protocol):
    """Attention of one model call in one group of layers; the interface of each kernel."""

    def attend(
        self,
        query: torch.Tensor,
        layer: LayerSlots,
        scores: ScoreOptions,
    ) -> torch.Tensor:
        """Map ``[packed tokens, heads, size]`` to ``[packed tokens, heads, value size]``."""
        ...


def choose_kernel(dtype: torch.dtype, device: torch.device) -> AttentionKernel:
    """Return the kernel that ``GUIDED_ATTENTION`` names; by default Triton's if it can run.

    Raises ``ModelError`` for an unknown kernel, and if the requested one cannot run.
    """
    can_run = device.type == "cuda" and find_spec("triton") is not None and dtype in _TRITON_DTYPES
    name = os.environ.get(KERNEL_VARIABLE)
    if not name:
        return AttentionKernel.TRITON if can_run else AttentionKernel.TORCH
    if name not in list(AttentionKernel):
        raise ModelError(
            f"{KERNEL_VARIABLE}={name} names none of {', '.join(AttentionKernel)}",
            hint="leave it out",
        )
    if name == AttentionKernel.TRITON and not can_run:
        raise ModelError(
            f"{KERNEL_VARIABLE}={name} needs a CUDA device, Triton, and weights of float16, "
            f"bfloat16 or float32; here is {device} and {dtype}",
            hint=f"leave {KERNEL_VARIABLE} out",
        )
    return AttentionKernel(name)


def open_attention(
    kernel: AttentionKernel,
    visible: Sequence[VisibleSlots],
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> Attention:
    """Work out who sees what, for sequences in packed order."""
    if kernel is AttentionKernel.TORCH:
        return TorchAttention(visible, dtype=dtype, device=device)
    # Triton is not installed everywhere.
    from guided.model.triton_attention import TritonAttention

    return TritonAttention(visible, device=device)


class LayerCall(NamedTuple):
    """What a layer of transformers passes to attention; ``[1, heads, tokens, dim]`` each."""

    layer: int
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    window: int | None
    scores: ScoreOptions


class AttentionStep(Protocol):
    """One model call, as the layers of transformers see it."""

    def attend(self, call: LayerCall) -> torch.Tensor:
        """Compute the attention of one layer, ``[1, tokens, heads, dim]``."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class AttentionGroup:
    """A group of layers in one model call."""

    storage: PagedStorage
    new_slots: torch.Tensor
    """Where its new keys and values go, ``[packed tokens]``."""
    attention: Attention


class PackedAttention:
    """The step of a batch, by groups of layers, each under its window."""

    def __init__(self, groups: Mapping[int | None, AttentionGroup]) -> None:
        self._groups = groups

    @classmethod
    def of_batch(
        cls,
        batch: StepBatch,
        storages: Mapping[int | None, PagedStorage],
        *,
        kernel: AttentionKernel,
        dtype: torch.dtype,
        device: torch.device,
    ) -> PackedAttention:
        """Prepare a batch on the device; ``storages`` are in the order of a segment's rows."""
        groups = {}
        for number, (window, storage) in enumerate(storages.items()):
            seen = visible_slots(batch, number, window)
            attention = open_attention(kernel, seen, dtype=dtype, device=device)
            slots = storage.locate(batch.new_slots(number))
            groups[window] = AttentionGroup(storage, slots, attention)
        return cls(groups)

    def attend(self, call: LayerCall) -> torch.Tensor:
        """Store the new keys and values, then let each sequence's tokens see its own slots."""
        group = self._groups[call.window]
        slots = group.storage.layers[call.layer]
        query, key, value = (part[0].transpose(0, 1) for part in (call.query, call.key, call.value))
        slots.write(group.new_slots, key, value)
        return group.attention.attend(query, slots, call.scores)[None]


_running: ContextVar[AttentionStep] = ContextVar("guided_step")


@contextmanager
def running(step: AttentionStep) -> Iterator[None]:
    """Make ``step`` compute the attention of any model that is called inside."""
    token = _running.set(step)
    try:
        yield
    finally:
        _running.reset(token)


def register_attention() -> None:
    """Register the attention function with transformers; registering twice changes nothing."""
    # Importing takes two seconds, and our own forward pass does not need it.
    from transformers import AttentionInterface

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
    """Compute attention for a layer; refuse unknown arguments that would change the result."""
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
    scores = ScoreOptions(scaling, softcap, s_aux)
    # Some configs use 0 for no window.
    call = LayerCall(layer, query, key, value, sliding_window or None, scores)
    # In the layout of transformers' own attention, for models that view it in another shape.
    return _running.get().attend(call).contiguous(), None
