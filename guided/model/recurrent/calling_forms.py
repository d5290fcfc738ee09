"""How modules of transformers take a state, and return the next one.

Most use a ``Cache``. RWKV and the first MiniMax are older, and have forms of their own. Each form
calls ``forward`` for tokens after a state, ``[sequences, tokens, size]``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import torch

from guided.errors import ModelError
from guided.model.recurrent.states import LayerState

__all__ = ["CallingForm", "Forward", "Outputs", "calling_form_of"]

Forward: TypeAlias = Callable[..., Any]
Outputs: TypeAlias = torch.Tensor | tuple[torch.Tensor, ...]

_UPDATES = {"update_conv_state", "update_recurrent_state"}
_CACHES = ("cache_params", "past_key_values")
"""The names of modules' cache arguments."""
_OF_RWKV = ("RwkvFeedForward", "RwkvSelfAttention")
_OF_MINIMAX = ("MiniMaxLightningAttention",)


class CallingForm(Protocol):
    """How one module is called."""

    input: str
    """The name of its input argument."""
    ignored: tuple[str, ...]
    """Arguments without a default that it does not need, or by which it takes the state."""

    def read(
        self, forward: Forward, inputs: torch.Tensor, state: LayerState
    ) -> tuple[Outputs, LayerState]:
        """Return outputs and the next state; the tensors of ``state`` may be written to."""
        ...

    def wrap_outputs(self, outputs: Outputs) -> Any:
        """Return what the module has to return for these outputs."""
        ...


def calling_form_of(part: torch.nn.Module, states: int) -> CallingForm | None:
    """Return how to call a module with a state, or ``states`` of them; ``None`` if it has none."""
    kind = type(part)
    if kind.__name__ in _OF_RWKV:
        return _StateList(part)
    if kind.__name__ in _OF_MINIMAX:
        return _LinearCache()
    forward = inspect.unwrap(kind.forward)
    code = getattr(forward, "__code__", None)
    if code is None or _UPDATES.isdisjoint(code.co_names):
        return None
    given = inspect.signature(forward).parameters
    name = next((name for name in _CACHES if name in given), None)
    if name is None:
        raise ModelError(f"{kind.__name__} keeps a state, and is given none by a name known here")
    return _CacheLayer(name, getattr(part, "layer_idx", 0), states)


class _CacheLayer:
    """A cache of transformers, with one layer that is made for the call."""

    input: str = "hidden_states"

    def __init__(self, name: str, number: int, states: int) -> None:
        self.ignored: tuple[str, ...] = (name,)
        self._number = number
        self._states = states

    def read(
        self, forward: Forward, inputs: torch.Tensor, state: LayerState
    ) -> tuple[Outputs, LayerState]:
        """Call the module with a cache whose one layer holds the state."""
        from transformers.cache_utils import Cache, LinearAttentionLayer

        layer = LinearAttentionLayer(number_of_states=self._states)
        for index, (conv, recurrent) in enumerate(zip(state[::2], state[1::2], strict=True)):
            _put(layer, index, conv, recurrent)
        # A module finds its layer by its number, so the layer is at all indices up to that.
        cache = Cache(layers=[layer] * (self._number + 1))
        outputs: Outputs = forward(**{self.input: inputs, self.ignored[0]: cache})
        kept = zip(layer.conv_states.values(), layer.recurrent_states.values(), strict=True)
        return outputs, tuple(tensor for pair in kept for tensor in pair)

    def wrap_outputs(self, outputs: Outputs) -> Any:
        return outputs


def _put(layer: Any, index: int, conv: torch.Tensor | None, recurrent: torch.Tensor | None) -> None:
    """Put a state into a layer of a cache, as if it had read the earlier tokens."""
    layer.has_previous_state[index] = True
    if conv is not None:
        layer.conv_states[index] = conv
        layer.conv_kernel_size[index] = conv.shape[-1]
        layer.is_conv_states_initialized[index] = True
        layer.device, layer.dtype = conv.device, conv.dtype
    if recurrent is not None:
        layer.recurrent_states[index] = recurrent
        layer.is_recurrent_states_initialized[index] = True


class _StateList:
    """RWKV: five tensors ``[sequences, size, layers]``, each written at the index of the layer."""

    input: str = "hidden"
    ignored: tuple[str, ...] = ()
    _COUNT = 5
    _FLOAT32 = (2, 3, 4)
    """Numerator, denominator, and the logarithm that both are scaled by."""
    _NOTHING = -1e30
    """That logarithm if nothing was read."""

    def __init__(self, part: torch.nn.Module) -> None:
        self._place = vars(part)

    def read(
        self, forward: Forward, inputs: torch.Tensor, state: LayerState
    ) -> tuple[Outputs, LayerState]:
        """Call the module with the list of tensors, as if it were the first layer of a model."""
        if inputs.shape[1] == 1 and len(inputs) > 1:
            # For a single token it mixes up the sequences of a batch.
            return self._read_apart(forward, inputs, state)
        kept = [tensor for tensor in state if tensor is not None] or self._empty(inputs)
        number, self._place["layer_id"] = self._place["layer_id"], 0
        try:
            outputs, _ = forward(inputs, state=kept, **self._options(forward))
        finally:
            self._place["layer_id"] = number
        return outputs, tuple(kept)

    def wrap_outputs(self, outputs: Outputs) -> Any:
        return outputs, None

    def _read_apart(
        self, forward: Forward, inputs: torch.Tensor, state: LayerState
    ) -> tuple[Outputs, LayerState]:
        """Do ``read`` for each sequence of a batch separately."""
        each = [
            self.read(
                forward,
                inputs[place : place + 1],
                tuple(None if one is None else one[place : place + 1] for one in state),
            )
            for place in range(len(inputs))
        ]
        outputs = [one for one, _ in each if isinstance(one, torch.Tensor)]
        states = zip(*[after for _, after in each], strict=True)
        return torch.cat(outputs), tuple(
            torch.cat([one for one in of_all if one is not None]) for of_all in states
        )

    def _empty(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        shape = (inputs.shape[0], inputs.shape[2], 1)
        types = [torch.float32 if n in self._FLOAT32 else inputs.dtype for n in range(self._COUNT)]
        tensors = [torch.zeros(shape, dtype=dtype, device=inputs.device) for dtype in types]
        tensors[-1] += self._NOTHING
        return tensors

    @staticmethod
    def _options(forward: Forward) -> dict[str, bool]:
        name = "use_cache"
        return {name: True} if name in inspect.signature(forward).parameters else {}


class _LinearCache:
    """MiniMax: a cache of its own class, for one tensor a layer."""

    input: str = "hidden_states"
    ignored: tuple[str, ...] = ("position_embeddings", "attention_mask")

    def read(
        self, forward: Forward, inputs: torch.Tensor, state: LayerState
    ) -> tuple[Outputs, LayerState]:
        """Call the module with a cache of one tensor."""
        cache = _OneTensor(state[0] if state else None)
        outputs, _ = forward(
            inputs, position_embeddings=None, attention_mask=None, past_key_values=cache
        )
        return outputs, (cache.kept,)

    def wrap_outputs(self, outputs: Outputs) -> Any:
        return outputs, None


class _OneTensor:
    """The part of MiniMax's cache that one layer uses."""

    def __init__(self, kept: torch.Tensor | None) -> None:
        self.kept = kept

    def get_linear_cache(self, _layer: int) -> torch.Tensor | None:
        return self.kept

    def set_linear_cache(self, _layer: int, kept: torch.Tensor) -> None:
        self.kept = kept
