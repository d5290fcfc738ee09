"""A trial that shows whether a model can run on packed attention, and what its layers keep.

A model is refused by name here rather than run wrongly later: if it keeps state outside its
attention, if it masks in a way that our attention does not know, or if its answers differ from
those to a text alone. What the trial shows, and what it cannot, is in
docs/decisions/0018-what-a-probe-shows.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from guided.errors import ModelError
from guided.kv.layer_groups import NO_KEYS, LayerShape
from guided.model.attention import (
    ATTENTION_NAME,
    AttentionKernel,
    choose_kernel,
    register_attention,
)
from guided.model.layer_configs import (
    is_recurrent,
    keep_keys,
    known_layer_types,
    layer_windows,
)
from guided.model.model_files import longest_text
from guided.model.recurrent import Mixer, running_mix, take_mixers
from guided.model.small_windows import large_windows, small_windows
from guided.model.stage import Stage
from guided.model.trial import (
    TRIAL_TOKENS,
    Ours,
    Own,
    TrialTexts,
    call_as_we_do,
    call_plainly,
    trial_texts,
)
from guided.model.trial_answers import Difference, first_difference, rounding, tolerance

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

__all__ = ["ModelShape", "probe_model"]

_UNBOUNDED = 1 << 40
"""The length of a text where a model sets no limit."""
_MAX_TOKEN_CHOICES = 1 << 16
"""The most tokens that a trial chooses from."""
_HALVES = (torch.float16, torch.bfloat16)
_SPECIAL = ("_token_id", "_token_index")
"""The suffixes of settings that name a special token, such as the place of an image."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What packed attention has to know about a model."""

    layers: tuple[LayerShape, ...]
    """``NO_KEYS`` also for layers of other stages."""
    windows: tuple[int | None, ...]
    """How many positions a token sees, including its own, by layer; ``None`` is all."""
    dtype: torch.dtype
    device: torch.device
    mixers: tuple[Mixer, ...] = ()
    """The modules that keep a state from token to token."""


def probe_model(
    module: PreTrainedModel, kernel: AttentionKernel | None = None, stage: Stage | None = None
) -> ModelShape:
    """Switch a model to packed attention after a trial; raise ``ModelError`` if it cannot.

    If a model is split by its layers each ``stage`` tries its own, and the last checks the answers.
    """
    model_class = type(module).__name__
    config = module.config.get_text_config()
    _refuse_by_config(model_class, config)
    limit = _checked_text_limit(model_class, config)
    kernel = kernel or choose_kernel(module.dtype, module.device)
    register_attention()
    _number_layers(module)
    mixers = take_mixers(module)
    if is_recurrent(config) and not mixers:
        raise ModelError(
            f"{model_class} has layers that keep a state, and no module that keeps one in "
            "transformers' cache",
            hint="use a decoder all of whose layers are attention",
        )
    for mixer in mixers:
        mixer.divert(running_mix)
    texts = trial_texts(_plain_tokens(module.config))
    with small_windows(module, limit) as real, torch.inference_mode():
        # The reference is the model's own code, not another kernel of the same interface.
        with _attending(module, "eager"):
            # Whether a state continues as it would in a whole text is tried mixer by mixer. The
            # cache of a stage without the first layer does not know how long a text has become.
            own = call_plainly(module, texts, at_once=bool(mixers) or stage is not None)
        with _attending(module, ATTENTION_NAME):
            ours = call_as_we_do(module, texts, kernel, mixers)
        own_layers = stage.layers if stage is not None else range(int(config.num_hidden_layers))
        _refuse_missed_layers(model_class, config, ours, mixers, own_layers)
        _refuse_call_dependent_states(model_class, mixers, module.dtype)
        _refuse_untried_windows(model_class, ours, real, limit)
        windows = {layer: real.get(small, small) for layer, small in ours.windows.items() if small}
        _refuse_hidden_windows(model_class, config, windows, own_layers)
        if stage is None or stage.is_last:
            window = min(real, default=None)
            found = first_difference(own, ours, window)
            if found is not None and module.dtype in _HALVES:
                rounded = _rounding(module, texts, own, at_once=bool(mixers) or stage is not None)
                found = first_difference(own, ours, window, rounding=rounded)
            _refuse_other_answers(model_class, found)
    layers = range(int(config.num_hidden_layers))
    # Ranks count groups of layers in the same way, whichever of them they have.
    configured = {} if stage is None else dict(enumerate(layer_windows(config)))
    return ModelShape(
        layers=tuple(ours.layers.get(layer, NO_KEYS) for layer in layers),
        windows=tuple(windows.get(n) if n in own_layers else configured.get(n) for n in layers),
        dtype=module.dtype,
        device=module.device,
        mixers=mixers,
    )


def _checked_text_limit(model_class: str, config: PretrainedConfig) -> int:
    """Return the most tokens that a text of this model may have, ``_UNBOUNDED`` without a limit.

    Raises ModelError if a trial would not fit into that, or if a setting may be a window that a
    trial is too short to show. ``model_class`` is the name of the model's class, for errors.
    """
    configured = getattr(config, "max_position_embeddings", None)
    by_rotation = longest_text(config)
    limit = min(bound for bound in (configured, by_rotation, _UNBOUNDED) if bound is not None)
    if limit < TRIAL_TOKENS:
        raise ModelError(
            f"{model_class} takes texts of {limit} tokens, fewer than the {TRIAL_TOKENS} of a trial"
        )
    if unknown := large_windows(config, TRIAL_TOKENS, limit):
        name, size = next(iter(unknown.items()))
        raise ModelError(
            f"{model_class} sets {name} to {size:,} in its config, a window that cannot be tried",
            hint="choose a model without windows, or one whose config calls it sliding_window",
        )
    return limit


def _plain_tokens(config: PretrainedConfig) -> list[int]:
    """Return tokens of a vocabulary that stand for text, at least one."""
    special: set[int] = set()
    for part in (config, config.get_text_config()):
        settings = vars(part).items()
        special.update(
            id_ for name, id_ in settings if name.endswith(_SPECIAL) and type(id_) is int
        )
    size = int(config.get_text_config().vocab_size)
    found = [token for token in range(min(size, _MAX_TOKEN_CHOICES)) if token not in special]
    return found or [0]


@contextmanager
def _attending(module: PreTrainedModel, attention: str) -> Iterator[None]:
    """Switch a model to an attention by name, and refuse it if it fails in the block.

    The attention stays after the block.
    """
    try:
        module.set_attn_implementation(attention)
        yield
    except ModelError:
        raise
    # A model is foreign code, which may fail in any way at what it was not written for.
    except Exception as error:
        raise ModelError(
            f"{type(module).__name__} fails in a trial call in {module.dtype} with the attention "
            f"{attention!r}: {error}",
            hint="choose another model, or another dtype if it is for want of it",
        ) from error


def _refuse_by_config(model_class: str, config: PretrainedConfig) -> None:
    """Raise ModelError for a type of layers that we do not know."""
    for layer_type in getattr(config, "layer_types", None) or ():
        if layer_type not in known_layer_types():
            raise ModelError(
                f"{model_class} has layers of type {layer_type!r}, which is not supported"
            )


def _refuse_missed_layers(
    model_class: str,
    config: PretrainedConfig,
    ours: Ours,
    mixers: Sequence[Mixer],
    own_layers: range,
) -> None:
    """Raise ModelError unless every layer that keeps keys called our attention once in the trial.

    ``ours`` is what the trial saw, ``own_layers`` the layers that this process has. Also raises for
    mixers that the trial did not call.
    """
    keeps = keep_keys(config)
    attending = {layer for layer in own_layers if keeps[layer]}
    layers = len(attending)
    if ours.calls == layers and len(ours.layers) < layers:
        raise ModelError(
            f"{model_class} calls the attention of a layer several times for a token, which is not "
            "supported"
        )
    if ours.calls != layers or set(ours.layers) != attending:
        raise ModelError(
            f"{model_class} has {layers} layers{' with attention' if mixers else ''}, but "
            f"{ours.calls} of them went through transformers' attention interface",
            hint="use a decoder all of whose layers do",
        )
    if any(not mixer.size for mixer in mixers):
        raise ModelError(f"{model_class} has layers with a state that are not called for a text")


def _refuse_call_dependent_states(
    model_class: str, mixers: Sequence[Mixer], dtype: torch.dtype
) -> None:
    """Refuse mixers whose state depends on how a text is cut into calls."""
    for mixer in mixers:
        if mixer.by_token > tolerance(dtype):
            raise ModelError(
                f"{mixer.kind} of {model_class} computes another state token by token than for a "
                "text at once, so its answers depend on how texts are cut into calls"
            )


def _number_layers(module: PreTrainedModel) -> None:
    """Make attention that is passed its layer's number at each call know it by itself."""
    for number, layer in enumerate(getattr(module.base_model, "layers", ())):
        for part in layer.modules():
            if getattr(part, "layer_idx", number) in (None, -1):
                part.layer_idx = number


def _refuse_untried_windows(
    model_class: str, ours: Ours, real: Mapping[int, int], limit: int
) -> None:
    """Refuse a window that could not be made small and is longer than the trial.

    ``real`` has the sizes of those that were made small, by the small ones. A window of ``limit``
    tokens, as many as the longest text has, hides nothing.
    """
    for layer, window in ours.windows.items():
        if window is not None and window not in real and TRIAL_TOKENS <= window < limit:
            raise ModelError(
                f"layer {layer} of {model_class} has a window of {window:,} tokens that cannot be "
                "tried"
            )


def _refuse_hidden_windows(
    model_class: str, config: PretrainedConfig, windows: Mapping[int, int], own_layers: range
) -> None:
    """Raise ModelError if a layer's type and the window of its call do not agree.

    Our attention knows windows by that argument alone. A layer that slides by its mask would
    silently see too much. ``windows`` are the real ones by layer, ``own_layers`` the layers that
    this process has.
    """
    for layer, layer_type in enumerate(getattr(config, "layer_types", None) or ()):
        slides = layer_type == "sliding_attention"
        if layer in own_layers and slides != (layer in windows):
            raise ModelError(
                f"layer {layer} of {model_class} is of type {layer_type!r}, but its attention was "
                f"called with sliding_window={windows.get(layer)!r}"
            )


def _rounding(module: PreTrainedModel, texts: TrialTexts, own: Own, *, at_once: bool) -> float:
    """Return the effect of rounding on a model, as another attention of transformers shows it.

    0.0 if it has no other. ``own`` are its logits with the first, ``at_once`` is as for
    ``call_plainly``. The model has our attention afterwards.
    """
    if not getattr(module, "_supports_sdpa", False):
        return 0.0
    with _attending(module, "sdpa"):
        other = call_plainly(module, texts, at_once=at_once)
    module.set_attn_implementation(ATTENTION_NAME)
    return rounding(own, other)


def _refuse_other_answers(model_class: str, found: Difference | None) -> None:
    """Refuse a model whose logits differ; what adds positions to scores shows nowhere else."""
    if found is not None:
        raise ModelError(
            f"the logits of {model_class} differ by {found.size:.1%} from those that it gives to a "
            f"text alone, {found.where}",
            hint="its positions or its attention do something that is not supported",
        )
