"""One trial call that tells whether a model can run on packed attention, and what it stores.

A model is refused by name here rather than run wrongly later: when it keeps state outside its
attention, masks in a way the attention is not told about, or does not answer as it did with its
own attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from guided.errors import ModelError
from guided.kv.layer_groups import LayerShape
from guided.model.attention import ATTENTION_NAME, LayerCall, register_attention, running
from guided.model.torch_attention import softmax_attention

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["ModelShape", "probe_model"]

_TRIAL_TOKENS = 6
_KNOWN_LAYER_TYPES = ("full_attention", "sliding_attention")


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What packed attention has to know about a model."""

    layers: tuple[LayerShape, ...]
    windows: tuple[int | None, ...]
    """By layer, how many positions a token sees, its own among them; ``None`` is all."""
    dtype: torch.dtype
    device: torch.device


class _TrialAttention:
    """Plain causal attention that writes down what each layer asks for."""

    def __init__(self) -> None:
        self.layers: dict[int, LayerShape] = {}
        self.windows: dict[int, int | None] = {}
        self.calls = 0

    def attend(self, call: LayerCall) -> torch.Tensor:
        self.calls += 1
        self.windows[call.layer] = call.window
        _, heads, new, key_size = call.key.shape
        self.layers[call.layer] = LayerShape(heads, key_size, call.value.shape[-1])
        tokens = torch.arange(new, device=call.query.device)
        gaps = tokens[:, None] - tokens[None, :]
        sees = (gaps >= 0) if call.window is None else (gaps >= 0) & (gaps < call.window)
        mask = torch.zeros(sees.shape, dtype=call.query.dtype, device=call.query.device)
        mask.masked_fill_(~sees, float("-inf"))
        output = softmax_attention(call.query, call.key, call.value, mask, call.scores)
        return output.transpose(1, 2)


def probe_model(module: PreTrainedModel) -> ModelShape:
    """Switch a model to packed attention after a trial call; raise ``ModelError`` if it cannot."""
    kind = type(module).__name__
    config = module.config.get_text_config()
    _refuse_by_config(kind, config)
    register_attention()
    size = int(config.vocab_size)
    tokens = torch.arange(_TRIAL_TOKENS, device=module.device) * 7919 % size
    trial = _TrialAttention()
    # The reference is the model's own code, not another kernel of the same interface.
    own = _logits(module, "eager", tokens)
    # As in use, where few of the logits are asked for.
    backwards = torch.arange(_TRIAL_TOKENS, device=module.device).flip(0)
    with running(trial):
        ours = _logits(module, ATTENTION_NAME, tokens, logits_to_keep=backwards)
    layers = int(config.num_hidden_layers)
    if trial.calls != layers or set(trial.layers) != set(range(layers)):
        raise ModelError(
            f"{kind} has {layers} layers, but {trial.calls} of them went through transformers' "
            "attention interface",
            hint="use a decoder all of whose layers do",
        )
    _refuse_hidden_windows(kind, config, trial.windows)
    _refuse_other_answers(kind, own.flip(0), ours)
    return ModelShape(
        layers=tuple(trial.layers[layer] for layer in range(layers)),
        windows=tuple(trial.windows[layer] for layer in range(layers)),
        dtype=module.dtype,
        device=module.device,
    )


def _logits(
    module: PreTrainedModel, attention_name: str, tokens: torch.Tensor, **options: torch.Tensor
) -> torch.Tensor:
    module.set_attn_implementation(attention_name)
    positions = torch.arange(len(tokens), device=module.device)
    try:
        with torch.inference_mode():
            logits: torch.Tensor = module(
                input_ids=tokens[None], position_ids=positions[None], use_cache=False, **options
            ).logits[0]
    except ModelError:
        raise
    # A model is foreign code, and what it was not written for it fails at in any way.
    except Exception as error:
        raise ModelError(
            f"{type(module).__name__} fails in a trial call in {module.dtype} with the attention "
            f"{attention_name!r}: {error}",
            hint="choose another dtype, or another model",
        ) from error
    return logits


def _refuse_by_config(kind: str, config: object) -> None:
    for layer_type in getattr(config, "layer_types", None) or ():
        if layer_type not in _KNOWN_LAYER_TYPES:
            raise ModelError(f"{kind} has layers of type {layer_type!r}, which is not supported")
    for name in ("attention_chunk_size", "num_kv_shared_layers", "use_bidirectional_attention"):
        if getattr(config, name, None):
            raise ModelError(f"{kind} sets {name} in its config, which is not supported")


def _refuse_hidden_windows(kind: str, config: object, windows: dict[int, int | None]) -> None:
    """A layer that slides by its mask alone would quietly see too much."""
    for layer, layer_type in enumerate(getattr(config, "layer_types", None) or ()):
        if (layer_type == "sliding_attention") != (windows[layer] is not None):
            raise ModelError(
                f"layer {layer} of {kind} is of type {layer_type!r}, but its attention was called "
                f"with sliding_window={windows[layer]!r}"
            )


def _refuse_other_answers(kind: str, own: torch.Tensor, ours: torch.Tensor) -> None:
    """Positions added to the attention scores, say, show in the answer and nowhere else."""
    if own.shape != ours.shape:
        raise ModelError(
            f"{kind} does not give the logits of chosen tokens alone", hint="use another model"
        )
    own, ours = own.double(), ours.double()
    difference = float((own - ours).norm() / own.norm())
    # Half-precision weights differ by up to 0.01 with the kernel; another attention by far more.
    if not difference < 0.05:
        raise ModelError(
            f"the logits of {kind} differ by {difference:.1%} between its own attention and "
            "packed attention",
            hint="its attention does something that is not supported",
        )
