"""Makes the weights of a decoder from named tensors; says which models it supports, and why not.

The tensors are those of a model of transformers, or of its files: then only the config of
transformers is needed, and not its modules, which take seconds to import. Each tensor is taken once
and may be freed afterwards, so there is never a second copy of all weights::

    model.layers.0.self_attn.q_proj.weight ┐
    model.layers.0.self_attn.k_proj.weight ├─ one below the other ──▶ PackedMatrix
    model.layers.0.self_attn.v_proj.weight ┘
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from guided.errors import ModelError
from guided.model.cpu.attention import WIDEST_HEAD, LayerCache
from guided.model.cpu.between_matrices import GATES
from guided.model.cpu.block_types import BLOCK_TYPES
from guided.model.cpu.decoder import Angles, CpuDecoder, DecoderWeights, LayerWeights
from guided.model.cpu.embedding import Embedding, PlainEmbedding
from guided.model.cpu.formats import Pack, WeightFormat, matrix_packer
from guided.model.cpu.matrix import Numbers, PackedMatrix
from guided.model.cpu.stored_matrix import NotFiniteError
from guided.model.layer_configs import LENGTH_DEPENDENT_ROPES, rope_settings
from guided.model.plain_config import PlainConfig
from guided.model.visible import VisibleSlots

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    _Config = PretrainedConfig | PlainConfig

__all__ = [
    "EMBEDDING",
    "HEAD",
    "WeightReader",
    "assemble",
    "read_decoder",
    "take_decoder",
    "try_decoder",
    "why_not",
    "why_not_by_config",
    "why_not_by_files",
]

_KNOWN = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
}
"""Models that are computed here: the type in a config, and the class of transformers."""
_UNKNOWN_SETTINGS = (
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "quantization_config",
    "use_bidirectional_attention",
)
_FLOATS = {"BF16", "F16", "F32"}
"""Types of tensors in files, by their names in safetensors."""
EMBEDDING, HEAD, _LAST_NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"
_TRIAL_TOKENS = 6


class _Tensors(Protocol):
    """The source of a model's weights."""

    def __contains__(self, name: str) -> bool: ...

    def take(self, name: str) -> torch.Tensor:
        """Return a tensor, which is not taken again."""
        ...


# --- Which models -----------------------------------------------------------------------------


def why_not(module: PreTrainedModel) -> str | None:
    """Return why a model needs transformers, in a few words; ``None`` if it does not."""
    kind = type(module)
    # A subclass, or a class of the same name elsewhere, may compute something else.
    if kind.__name__ not in _KNOWN.values() or not _is_of_transformers(kind):
        return _not_known(kind.__name__)
    # Another config may lack the settings that are read here.
    if module.config.model_type not in _KNOWN:
        return f"its config is of type {module.config.model_type!r}"
    if module.device.type != "cpu":
        return f"the weights of {kind.__name__} are on {module.device}"
    if reason := _why_not_its_settings(module.config):
        return reason
    for name, part in module.named_modules():
        is_matrix = name.endswith(("_proj", "lm_head"))
        if is_matrix and type(part) is not torch.nn.Linear:
            return f"{name} is a {type(part).__name__}, not a plain matrix"
    for name, parameter in module.named_parameters():
        if not parameter.dtype.is_floating_point:
            return f"{name} is of {parameter.dtype}"
    return None


def why_not_by_config(config: _Config) -> str | None:
    """Return the same reason, as far as it is known before the weights are loaded."""
    is_known = isinstance(config, PlainConfig) or _is_of_transformers(type(config))
    if config.model_type not in _KNOWN or not is_known:
        return _not_known((config.architectures or [config.model_type])[0])
    return _why_not_its_settings(config)


def why_not_by_files(
    config: _Config, shapes: Mapping[str, tuple[int, ...]], types: Collection[str]
) -> str | None:
    """Return why weights cannot be read from files with these tensors, or ``None``.

    Transformers renames, converts and leaves out what an older or another program has written;
    here all names and shapes have to be exactly the model's.
    """
    if reason := why_not_by_config(config):
        return reason
    if not _FLOATS.union(BLOCK_TYPES).issuperset(types):
        return f"its files hold numbers of {', '.join(sorted(types))}"
    expected = _expected_shapes(config)
    for name in sorted(expected.keys() | shapes.keys()):
        if expected.get(name) != shapes.get(name):
            return f"its files have {name} as {shapes.get(name)}, not as {expected.get(name)}"
    return None


def _is_of_transformers(kind: type) -> bool:
    return kind.__module__.startswith("transformers.models.")


def _not_known(kind: str) -> str:
    return f"{kind} is not one of {', '.join(_KNOWN.values())}"


def _why_not_its_settings(config: _Config) -> str | None:
    """Return why our decoder would not honour the settings; ``None`` if it would."""
    if _activation(config) not in GATES:
        return f"the activation {_activation(config)!r} is not one of {', '.join(GATES)}"
    for name in _UNKNOWN_SETTINGS:
        if getattr(config, name, None):
            return f"the config sets {name}"
    sets = rope_settings(config)
    for kind_of_rope in (one.get("rope_type") for one in sets):
        if kind_of_rope in LENGTH_DEPENDENT_ROPES:
            return f"{kind_of_rope!r} rotary positions depend on the longest sequence of a call"
    if any(one.get("partial_rotary_factor", 1.0) != 1.0 for one in sets):
        return "only a part of each head is rotated"
    if _head_size(config) > WIDEST_HEAD:
        return f"heads are of {_head_size(config)} numbers, more than {WIDEST_HEAD}"
    return None


# --- What a config says -----------------------------------------------------------------------


def _activation(config: _Config) -> str:
    name: str = getattr(config, "hidden_act", None) or config.hidden_activation
    return name


def _head_size(config: _Config) -> int:
    own = getattr(config, "head_dim", None)
    return int(own or config.hidden_size // config.num_attention_heads)


def _is_gemma(config: _Config) -> bool:
    return bool(config.model_type == "gemma3_text")


def _window(config: _Config, layer: int) -> int | None:
    if config.model_type == "llama":
        return None
    slides = config.model_type == "mistral" or config.layer_types[layer] == "sliding_attention"
    return config.sliding_window if slides else None


def _expected_shapes(config: _Config) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors that a model has, by name."""
    hidden, inner, size = config.hidden_size, config.intermediate_size, _head_size(config)
    queries, keys = config.num_attention_heads * size, config.num_key_value_heads * size
    kind = config.model_type
    attention_bias = kind != "mistral" and getattr(config, "attention_bias", False)
    matrices = {
        "self_attn.q_proj": ((queries, hidden), attention_bias or kind == "qwen2"),
        "self_attn.k_proj": ((keys, hidden), attention_bias or kind == "qwen2"),
        "self_attn.v_proj": ((keys, hidden), attention_bias or kind == "qwen2"),
        "self_attn.o_proj": ((hidden, queries), attention_bias and kind != "qwen2"),
        "mlp.gate_proj": ((inner, hidden), kind == "llama" and config.mlp_bias),
        "mlp.up_proj": ((inner, hidden), kind == "llama" and config.mlp_bias),
        "mlp.down_proj": ((hidden, inner), kind == "llama" and config.mlp_bias),
    }
    norms = {"input_layernorm": hidden, "post_attention_layernorm": hidden}
    if _is_gemma(config):
        norms |= {"pre_feedforward_layernorm": hidden, "post_feedforward_layernorm": hidden}
    if kind in ("qwen3", "gemma3_text"):
        norms |= {"self_attn.q_norm": size, "self_attn.k_norm": size}
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(config.num_hidden_layers):
        for name, (shape, has_bias) in matrices.items():
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
            if has_bias:
                shapes[f"model.layers.{layer}.{name}.bias"] = shape[:1]
        for name, length in norms.items():
            shapes[f"model.layers.{layer}.{name}.weight"] = (length,)
    shapes |= {EMBEDDING: (config.vocab_size, hidden), _LAST_NORM: (hidden,)}
    if not config.tie_word_embeddings:
        shapes[HEAD] = (config.vocab_size, hidden)
    return shapes


# --- Where tensors come from ------------------------------------------------------------------


class _ModuleTensors:
    """Those of a model of transformers, which loses each tensor once it is taken."""

    def __init__(self, module: PreTrainedModel) -> None:
        self._parameters = dict(module.named_parameters())
        head, embedding = self._parameters.get(HEAD), self._parameters[EMBEDDING]
        if head is not None and head.data_ptr() == embedding.data_ptr():
            del self._parameters[HEAD]

    def __contains__(self, name: str) -> bool:
        return name in self._parameters

    def take(self, name: str) -> torch.Tensor:
        parameter = self._parameters[name]
        tensor = parameter.detach()
        parameter.data = torch.empty(0)
        return tensor


class _FileTensors:
    """Those of mapped files of safetensors; a tensor in its own type is a view."""

    def __init__(
        self, files: Mapping[str, Path], dtype: torch.dtype, report: Callable[[int], None]
    ) -> None:
        from safetensors import safe_open

        opened: dict[Path, Any] = {
            file: safe_open(file, framework="pt") for file in set(files.values())
        }
        self._files = {name: opened[file] for name, file in files.items()}
        self._dtype = dtype
        self._report, self._read = report, 0

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def take(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = self._files[name].get_tensor(name)
        self._read += tensor.nbytes
        self._report(self._read)
        return tensor.to(self._dtype)


def take_decoder(module: PreTrainedModel, weight_format: WeightFormat) -> CpuDecoder:
    """Make a decoder with the weights of ``module``, which loses each tensor once it is taken.

    Raises ``ModelError``, and leaves the module whole, if ``why_not`` has a reason; also for
    weights that the format cannot hold.
    """
    if reason := why_not(module):
        raise ModelError(
            f"this model has no forward pass of its own on the CPU: {reason}",
            hint="let transformers compute it",
        )
    pack = matrix_packer(weight_format)
    with torch.no_grad():
        return CpuDecoder(_weights(module.config, _ModuleTensors(module), pack, weight_format))


def read_decoder(
    config: _Config,
    files: Mapping[str, Path],
    weight_format: WeightFormat,
    *,
    dtype: torch.dtype,
    report: Callable[[int], None] = lambda _nbytes: None,
) -> CpuDecoder:
    """Make a decoder with the weights of files of safetensors, by the name of each tensor.

    They are first rounded to ``dtype``, as transformers does; it is also that of the cache.
    ``report`` receives the number of bytes read so far. The caller has made sure by
    ``why_not_by_files`` that the tensors are there. Raises ``ModelError`` for weights that the
    format cannot hold, and if the answers of the model are not numbers.
    """
    pack = matrix_packer(weight_format)
    tensors = _FileTensors(files, dtype, report)
    with torch.no_grad():
        decoder = CpuDecoder(_weights(config, tensors, pack, weight_format))
    try_decoder(decoder, config)
    return decoder


def try_decoder(decoder: CpuDecoder, config: _Config) -> None:
    """Call a decoder once; ModelError if its logits are not numbers.

    They show weights that are broken, or too large for their format.
    """
    tokens = np.arange(_TRIAL_TOKENS)
    slots = VisibleSlots(tokens, np.tri(_TRIAL_TOKENS, dtype=np.bool_))
    cache = [
        LayerCache.of(
            torch.zeros(shape, dtype=decoder.dtype), torch.zeros(shape, dtype=decoder.dtype)
        )
        for shape in ((_TRIAL_TOKENS, layer.heads, layer.key_size) for layer in decoder.layers)
    ]
    seen = {window: [slots] for window in decoder.windows}
    logits = decoder.forward(tokens * 7919 % config.vocab_size, tokens, seen, cache, [-1])
    if not bool(logits.isfinite().all()):
        raise ModelError(
            f"the logits of {_KNOWN[config.model_type]} are no numbers in a trial call in "
            f"{decoder.dtype}",
            hint="choose another dtype, or another model",
        )


# --- Weights ----------------------------------------------------------------------------------


def _weights(
    config: _Config, tensors: _Tensors, pack: Pack, weight_format: WeightFormat
) -> DecoderWeights:
    """Pack the weights of a decoder in one format; the embedding stays as it is in the files."""
    embedding = tensors.take(EMBEDDING)
    if weight_format is not WeightFormat.FP32:
        # Matrices are packed elsewhere, but one small view of a mapped file keeps all of its pages.
        embedding = embedding.clone()
    pack_head = pack
    if weight_format is WeightFormat.INT4:
        pack_head = matrix_packer(weight_format, is_head=True)
    last = WeightReader(config, tensors, pack_head)
    head = (
        last.matrix("lm_head")
        if HEAD in tensors
        else last.pack_matrix([EMBEDDING], embedding, None)
    )
    read = WeightReader(config, tensors, pack)
    return assemble(config, read, PlainEmbedding(embedding), head)


def assemble(
    config: _Config, read: WeightReader, embedding: Embedding, head: PackedMatrix
) -> DecoderWeights:
    """Assemble the weights of a decoder; reads all except embedding and head."""
    layers = tuple(read.layer(number) for number in range(config.num_hidden_layers))
    return DecoderWeights(
        embedding=embedding,
        embedding_scale=config.hidden_size**0.5 if _is_gemma(config) else None,
        angles={kind: read.angles(kind) for kind in {layer.layer_type for layer in layers}},
        layers=layers,
        last_norm=read.norm("model.norm"),
        head=head,
        epsilon=float(config.rms_norm_eps),
        heads=int(config.num_attention_heads),
        kv_heads=int(config.num_key_value_heads),
        size=_head_size(config),
        inner=int(config.intermediate_size),
    )


class WeightReader:
    """Takes tensors by the names of the parts of a model."""

    def __init__(self, config: Any, tensors: _Tensors, pack: Pack) -> None:
        self._config, self._tensors, self._pack = config, tensors, pack
        self._is_gemma = _is_gemma(config)

    def layer(self, number: int) -> LayerWeights:
        """Read the weights of one decoder layer, of a model like Llama, Qwen or Gemma."""
        config, is_gemma = self._config, self._is_gemma
        start = f"model.layers.{number}."
        attention, mlp = start + "self_attn.", start + "mlp."
        has_head_norms = attention + "q_norm.weight" in self._tensors
        # Gemma also has a norm after each part, and shifts the names.
        before_mlp = "pre_feedforward_layernorm" if is_gemma else "post_attention_layernorm"
        scalar = config.query_pre_attn_scalar if is_gemma else _head_size(config)
        return LayerWeights(
            attention_norm=self.norm(start + "input_layernorm"),
            query_key_value=self.matrix(*(f"{attention}{part}_proj" for part in "qkv")),
            head_norms=(
                (self.norm(attention + "q_norm"), self.norm(attention + "k_norm"))
                if has_head_norms
                else None
            ),
            output=self.matrix(attention + "o_proj"),
            after_attention=self.norm(start + "post_attention_layernorm") if is_gemma else None,
            mlp_norm=self.norm(start + before_mlp),
            gate_and_up=self.matrix(mlp + "gate_proj", mlp + "up_proj"),
            gate=GATES[_activation(config)],
            down=self.matrix(mlp + "down_proj"),
            after_mlp=self.norm(start + "post_feedforward_layernorm") if is_gemma else None,
            window=_window(config, number),
            layer_type=config.layer_types[number] if is_gemma else None,
            scale=float(scalar**-0.5),
        )

    def norm(self, name: str) -> Numbers:
        weight = self._tensors.take(f"{name}.weight").to(torch.float32, copy=True)
        # Gemma stores the weight less 1.
        numbers: Numbers = (weight + 1 if self._is_gemma else weight).numpy()
        return numbers

    def matrix(self, *names: str) -> PackedMatrix:
        """Stack matrices one below the other; a bias that one of several lacks is zero."""
        named = [f"{name}.weight" for name in names]
        weights = [self._tensors.take(name) for name in named]
        biases = [
            self._tensors.take(f"{name}.bias")
            if f"{name}.bias" in self._tensors
            else weight.new_zeros(len(weight))
            for name, weight in zip(names, weights, strict=True)
        ]
        has_bias = any(f"{name}.bias" in self._tensors for name in names)
        weight = torch.cat(weights) if weights[1:] else weights[0]
        return self.pack_matrix(named, weight, torch.cat(biases) if has_bias else None)

    def pack_matrix(
        self, names: Sequence[str], weight: torch.Tensor, bias: torch.Tensor | None
    ) -> PackedMatrix:
        """Pack one or more tensors as a matrix; raises ``ModelError`` if the format cannot."""
        try:
            return self._pack(weight, bias)
        except NotFiniteError as error:
            raise ModelError(
                f"{' or '.join(names)} is broken, or too large for the dtype that was chosen: "
                f"{error}",
                hint="choose another dtype, such as bfloat16, or another model",
            ) from error

    def angles(self, layer_type: str | None) -> Angles:
        """Return the rotary positions of a type of layers, or of all."""
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        config = self._config
        rope = config.rope_parameters if layer_type is None else config.rope_parameters[layer_type]
        size = _head_size(config)
        if rope["rope_type"] == "default":
            exponents = torch.arange(0, size, 2, dtype=torch.float) / size
            return Angles(1.0 / (rope["rope_theta"] ** exponents), 1.0)
        made = ROPE_INIT_FUNCTIONS[rope["rope_type"]]
        named = {} if layer_type is None else {"layer_type": layer_type}
        frequencies, factor = made(config, torch.device("cpu"), **named)
        return Angles(frequencies.float(), float(factor))
