"""The modules of a model that keep a state from token to token, and how one of them is called.

Transformers keeps such states in a ``Cache``, which a *mixer* asks for what it kept and gives what
it keeps next. So a mixer is a module whose ``forward`` does that, and it can be called for any
tokens that follow each other: with a cache that holds the state before them. The cache holds one
layer, made for the call::

    inputs, state ──▶ cache of one layer ──▶ forward ──▶ outputs, and the cache has the next state
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from guided.errors import ModelError
from guided.model.recurrent.states import LayerState

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["Mixer", "take_mixers"]

_UPDATES = {"update_conv_state", "update_recurrent_state"}
_CACHES = ("cache_params", "past_key_values")
"""What mixers call the cache that they are given."""
_INPUT = "hidden_states"

Outputs: TypeAlias = torch.Tensor | tuple[torch.Tensor, ...]
Mix: TypeAlias = Callable[["Mixer", torch.Tensor], Outputs]
"""What a running call does with what enters a mixer, ``[1, packed tokens, size]``."""


class Mixer:
    """A module that keeps a state; its ``forward`` goes through the running call from now on."""

    def __init__(self, module: torch.nn.Module, number: int, states: int) -> None:
        self.number = number
        """Its place among the mixers of the model."""
        self.continues = True
        """Whether it reads several tokens at once behind others; else one at a time."""
        self.by_token = 0.0
        """By how much its state differs after tokens that it read one by one, as a share of it."""
        self.size = 0
        """Numbers that enter it for a token; 0 until it was called."""
        self._module = module
        # That of its class: on the module itself may be one that an earlier runner has put there.
        self._forward: Callable[..., Any] = type(module).forward.__get__(module)
        self._signature = inspect.signature(self._forward)
        self._states = states
        self._cache = next(name for name in _CACHES if name in self._signature.parameters)
        self.kind = kind = type(module).__name__
        """The name of its class."""
        # What else it is given belongs to all packed tokens, and could not be cut here.
        needed = [
            parameter.name
            for parameter in self._signature.parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind is not parameter.VAR_KEYWORD
            and parameter.name not in (_INPUT, self._cache)
        ]
        if needed:
            raise ModelError(
                f"{kind} keeps a state, and reads {', '.join(needed)} beside its input"
            )

    def divert(self, mix: Callable[[], Mix | None]) -> None:
        """Let whatever ``mix`` returns answer calls of the module; ``None`` leaves it to itself."""

        def forward(*args: Any, **options: Any) -> Any:
            running = mix()
            if running is None:
                return self._forward(*args, **options)
            given = self._signature.bind(*args, **options).arguments
            for name in ("attention_mask", "conv_mask"):
                if given.get(name) is not None:
                    raise ModelError(f"{self.kind} is given a mask of padding")
            return running(self, given[_INPUT])

        vars(self._module)["forward"] = forward

    def run(self, inputs: torch.Tensor, state: LayerState) -> tuple[Outputs, LayerState]:
        """Read tokens behind a state: ``[sequences, tokens, size]`` → outputs, the next state.

        The tensors of ``state`` may be written to.
        """
        if state and not self.continues and inputs.shape[1] > 1:
            outputs = []
            for token in torch.split(inputs, 1, 1):
                output, state = self._run(token, state)
                outputs.append(output)
            return _joined(outputs), state
        return self._run(inputs, state)

    def _run(self, inputs: torch.Tensor, state: LayerState) -> tuple[Outputs, LayerState]:
        from transformers.cache_utils import Cache, LinearAttentionLayer

        layer = LinearAttentionLayer(number_of_states=self._states)
        for index, (conv, recurrent) in enumerate(zip(state[::2], state[1::2], strict=True)):
            _put(layer, index, conv, recurrent)
        number = getattr(self._module, "layer_idx", 0)
        # It finds itself by its number, so it stands at all places up to that.
        cache = Cache(layers=[layer] * (number + 1))
        outputs: Outputs = self._forward(**{_INPUT: inputs, self._cache: cache})
        kept = zip(layer.conv_states.values(), layer.recurrent_states.values(), strict=True)
        return outputs, tuple(tensor for pair in kept for tensor in pair)


def take_mixers(module: PreTrainedModel) -> tuple[Mixer, ...]:
    """The mixers of a model, in the order of its modules."""
    config = module.config.get_text_config()
    states = int(getattr(config, "number_of_conv_states", 1))
    found = [part for part in module.modules() if _keeps_state(part)]
    return tuple(Mixer(part, number, states) for number, part in enumerate(found))


def _keeps_state(part: torch.nn.Module) -> bool:
    """Whether the code of a module's own ``forward`` gives a cache a state to keep."""
    forward = inspect.unwrap(type(part).forward)
    code = getattr(forward, "__code__", None)
    return code is not None and not _UPDATES.isdisjoint(code.co_names)


def _put(layer: Any, index: int, conv: torch.Tensor | None, recurrent: torch.Tensor | None) -> None:
    """Let a layer of a cache hold a state, as if it had read what was before."""
    layer.has_previous_state[index] = True
    if conv is not None:
        layer.conv_states[index] = conv
        layer.conv_kernel_size[index] = conv.shape[-1]
        layer.is_conv_states_initialized[index] = True
        layer.device, layer.dtype = conv.device, conv.dtype
    if recurrent is not None:
        layer.recurrent_states[index] = recurrent
        layer.is_recurrent_states_initialized[index] = True


def _joined(outputs: Sequence[Outputs]) -> Outputs:
    """Outputs of tokens one after the other, side by side."""
    first = outputs[0]
    if isinstance(first, torch.Tensor):
        return torch.cat([each for each in outputs if isinstance(each, torch.Tensor)], 1)
    return tuple(torch.cat(parts, 1) for parts in zip(*outputs, strict=True))
