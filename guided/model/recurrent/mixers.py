"""The modules of a model that keep a state from token to token, and how one of them is called.

A *mixer* can be called for any consecutive tokens, with the state before them. In the model its
input is the packed row of all sequences, so the running call answers in its place::

    layer of a model ──▶ forward ──▶ the running call ──▶ run, stretch by stretch
                                └──▶ itself, where no call is running
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from guided.errors import ModelError
from guided.model.recurrent.calling_forms import CallingForm, Forward, Outputs, calling_form_of
from guided.model.recurrent.states import LayerState

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["Mix", "Mixer", "take_mixers"]

Mix: TypeAlias = Callable[["Mixer", torch.Tensor], Outputs]
"""What a running call does with a mixer's input, ``[1, packed tokens, size]``."""
_MASKS = ("attention_mask", "conv_mask")


class Mixer:
    """A module that keeps a state; ``divert`` redirects its calls."""

    def __init__(self, module: torch.nn.Module, number: int, form: CallingForm) -> None:
        self.number = number
        """Its index among the mixers of the model."""
        self.continues = True
        """Whether it reads several tokens at once after others; else one at a time."""
        self.by_token = 0.0
        """The relative difference of its state after reading tokens one by one."""
        self.size = 0
        """The size of its input for a token; 0 until it was called."""
        self.kind = type(module).__name__
        """The name of its class."""
        self._module = module
        self._form = form
        # The class's: the module itself may have one that an earlier runner has put there.
        self._forward: Forward = type(module).forward.__get__(module)
        self._signature = inspect.signature(self._forward)
        # Its other arguments are for all packed tokens, and could not be cut here.
        needed = [
            parameter.name
            for parameter in self._signature.parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind is not parameter.VAR_KEYWORD
            and parameter.name not in (form.input, *form.ignored)
        ]
        if needed:
            raise ModelError(
                f"{self.kind} keeps a state, and reads {', '.join(needed)} beside its input"
            )

    @property
    def parts(self) -> tuple[torch.nn.Module, ...]:
        """The module and all modules in it: they see stretches, not packed rows."""
        return tuple(self._module.modules())

    def divert(self, mix: Callable[[], Mix | None]) -> None:
        """Have calls of the module answered by the result of ``mix``, or by itself if ``None``."""

        def forward(*args: Any, **options: Any) -> Any:
            running = mix()
            if running is None:
                return self._forward(*args, **options)
            given = self._signature.bind(*args, **options).arguments
            if any(given.get(name) is not None for name in _MASKS):
                raise ModelError(f"{self.kind} is given a mask of padding")
            return self._form.wrap_outputs(running(self, given[self._form.input]))

        vars(self._module)["forward"] = forward

    def run(self, inputs: torch.Tensor, state: LayerState) -> tuple[Outputs, LayerState]:
        """Read ``[sequences, tokens, size]`` after a state; return outputs and the next state.

        The tensors of ``state`` may be written to.
        """
        if self.continues or not state or inputs.shape[1] == 1:
            return self._form.read(self._forward, inputs, state)
        outputs = []
        for token in torch.split(inputs, 1, 1):
            output, state = self._form.read(self._forward, token, state)
            outputs.append(output)
        return _join_outputs(outputs), state


def take_mixers(module: PreTrainedModel) -> tuple[Mixer, ...]:
    """Return the mixers of a model, in the order of its modules."""
    config = module.config.get_text_config()
    states = int(getattr(config, "number_of_conv_states", 1))
    forms = [(part, calling_form_of(part, states)) for part in module.modules()]
    found = [(part, form) for part, form in forms if form is not None]
    return tuple(Mixer(part, number, form) for number, (part, form) in enumerate(found))


def _join_outputs(outputs: Sequence[Outputs]) -> Outputs:
    """Join outputs of consecutive tokens."""
    first = outputs[0]
    if isinstance(first, torch.Tensor):
        return torch.cat([each for each in outputs if isinstance(each, torch.Tensor)], 1)
    return tuple(torch.cat(parts, 1) for parts in zip(*outputs, strict=True))
