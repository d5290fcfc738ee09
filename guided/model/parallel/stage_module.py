"""A module of transformers that computes one stage, and leaves out the other layers.

The module keeps its form, so that layers keep their numbers: the layers of other stages become
parts that pass on their input. A stage's first layer takes the hidden states that the stage before
computed; its last layer sends its own to the next::

    stage 0    embedding ─ layer 0 ─ layer 1 ─▶┐ pass ─ pass ─ pass ─ no head
    stage 1    NaN ─ pass ─ pass ─┐            └▶ layer 2 ─ layer 3 ─ norm ─ head

A stage without the embedding has NaN in its place, so a model whose later layers read more than
hidden states fails in its trial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
from torch import nn

from guided.errors import ModelError
from guided.model.stage import Stage

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["Neighbours", "keep_stage"]

_WAY_OUT: Final = "leave pipeline_parallel out"


class Neighbours(Protocol):
    """The stages before and after one."""

    def receive(self, into: torch.Tensor) -> None:
        """Fill a tensor with the next hidden states that the stage before sends."""
        ...

    def send(self, states: torch.Tensor) -> None:
        """Send hidden states to the stage after."""
        ...


def keep_stage(
    module: PreTrainedModel, stage: Stage, neighbours: Neighbours, dtype: torch.dtype
) -> None:
    """Remove from a module what other stages compute; before its weights are read.

    ``dtype`` is that of the weights to come. The model's config has to say that it goes from
    ``embed_tokens`` by ``layers`` to ``norm`` (``base_model_pp_plan``).
    """
    whole: Any = module
    decoder = whole.get_decoder()
    if len(getattr(decoder, "layers", ())) != decoder.config.num_hidden_layers:
        raise ModelError(
            f"{type(module).__name__} has not the layers that its config counts, so they cannot be "
            "in different processes",
            hint=_WAY_OUT,
        )
    for number, layer in enumerate(decoder.layers):
        if number not in stage.layers:
            decoder.layers[number] = _Passing(layer)
    if not stage.is_first:
        _take_states(decoder.layers[stage.layers[0]], neighbours, dtype)
        if stage.is_last and getattr(decoder.config, "tie_word_embeddings", False):
            # Its rows are the head's.
            decoder.embed_tokens.register_forward_hook(_fill_with_nan)
        else:
            decoder.embed_tokens = _Nowhere(decoder.config.hidden_size, dtype)
    if not stage.is_last:
        _give_states(decoder.layers[stage.layers[-1]], neighbours, dtype)
        decoder.norm = _Passing(decoder.norm)
        vars(module)["_modules"]["lm_head"] = _NoHead()
        module.all_tied_weights_keys = {}


class _Passing(nn.Module):
    """Passes on its first argument, and has the attributes of the part it replaces."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        # Such as the kind of its attention, by which the model chooses what to pass to it.
        attributes = {name: value for name, value in vars(part).items() if not name.startswith("_")}
        vars(self).update(attributes)

    def forward(self, hidden_states: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return hidden_states


class _Nowhere(nn.Module):
    """Replaces an embedding: rows of the right shape that must not be read."""

    def __init__(self, size: int, dtype: torch.dtype) -> None:
        super().__init__()
        self._size, self._dtype = size, dtype

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        rows = torch.full((1,), torch.nan, dtype=self._dtype, device=tokens.device)
        return rows.expand(*tokens.shape, self._size)


class _NoHead(nn.Module):
    """Replaces a head: one column, which nothing reads."""

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return hidden_states[..., :1]


def _fill_with_nan(_: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
    return torch.full_like(output, torch.nan)


def _take_states(layer: nn.Module, neighbours: Neighbours, dtype: torch.dtype) -> None:
    """Make the first layer of a stage read the states that the stage before it sends."""

    def taking(
        _: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        unknown: torch.Tensor = given[0] if given else named["hidden_states"]
        states = torch.empty(unknown.shape, dtype=dtype, device=unknown.device)
        neighbours.receive(states)
        return (
            ((states, *given[1:]), named) if given else (given, named | {"hidden_states": states})
        )

    layer.register_forward_pre_hook(taking, with_kwargs=True)


def _give_states(layer: nn.Module, neighbours: Neighbours, dtype: torch.dtype) -> None:
    """Make the last layer of a stage send its states to the stage after it."""

    def giving(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        states: torch.Tensor = given[0] if given else named["hidden_states"]
        is_as_usual = isinstance(output, torch.Tensor) and output.shape == states.shape
        if not is_as_usual or output.dtype != dtype:
            raise ModelError(
                f"a {type(layer).__name__} hands more to the next than hidden states of {dtype}, "
                "so layers cannot be in different processes",
                hint=_WAY_OUT,
            )
        neighbours.send(output)

    layer.register_forward_hook(giving, with_kwargs=True)
