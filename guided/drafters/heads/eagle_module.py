"""An EAGLE-3 head: one decoder layer that continues from the target's hidden states.

At each position it reads the token that came next, and the target's states before it: the inputs
of three of its layers (*taps*), fused to one row (*feature*)::

    taps  [3 · target] ─▶ fc ─▶ feature ─▶ norm ─┬▶ attention ▶ MLP ▶ output ▶ norm ▶ logits
    token       ─▶ embedding [hidden]   ─▶ norm ─┘                      └─▶ the next feature

So a row at index ``i`` holds token ``i + 1`` and the taps of position ``i``, and predicts token
``i + 2``. Where the target has not computed yet there are no taps: then the output of the row
before is the feature. Training works that way too (*training-time test*).

Li et al., *EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time
Test*, 2025.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

__all__ = ["EagleHead", "EagleLayer", "EagleShape", "default_taps", "draft_token_mask"]


@dataclass(frozen=True, slots=True)
class EagleShape:
    """The sizes of a head's tensors, and how they are joined."""

    hidden_size: int
    intermediate_size: int
    """Numbers between the matrices of the MLP."""
    heads: int
    """Heads of the queries in the attention."""
    kv_heads: int
    """Heads of its keys and values."""
    head_dim: int
    """Numbers in a head."""
    vocabulary_size: int
    """Tokens of the target."""
    draft_vocabulary_size: int
    """Tokens that the head can predict."""
    target_hidden_size: int
    taps: tuple[int, ...]
    """Layers of the target whose input is read, counted from 0."""
    max_positions: int = 4096
    """The longest text that the positions are made for, in tokens."""
    norm_epsilon: float = 1e-6
    """Added to the mean square in each norm."""
    rope: Mapping[str, Any] = field(
        default_factory=lambda: {"rope_type": "default", "rope_theta": 10000.0}
    )
    """The rotary positions, as ``rope_parameters`` in a config of transformers."""
    has_embedding: bool = False
    """Whether the head has an embedding of its own; else it reads the target's."""
    attention_bias: bool = False
    has_head_norms: bool = False
    """Whether heads of queries and of keys are normalised, as in Qwen 3."""
    norm_before_residual: bool = False
    """Whether the feature is normalised before it is added to the attention's output."""
    norm_before_fc: bool = False
    """Whether all taps of a position are normalised as one row."""
    fc_norm: bool = False
    """Whether each of the taps is normalised (EAGLE-3.1)."""
    norm_output: bool = False
    """Whether the feature of the next row is the output of the last norm (EAGLE-3.1)."""

    def __post_init__(self) -> None:
        assert self.heads % self.kv_heads == 0, (
            f"{self.heads} heads of queries for {self.kv_heads} of keys"
        )
        assert self.taps, "a head that reads no layer"
        assert not (self.norm_before_fc and self.fc_norm), "taps are normalised twice"


def default_taps(layers: int) -> tuple[int, ...]:
    """Return the layers to tap if an artefact does not say: a low, a middle, a high one."""
    return (2, layers // 2, layers - 3)


class RmsNorm(nn.Module):
    """Scales rows to length 1 in the root mean square, times a weight; at least in float32."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self._epsilon = epsilon

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Map ``[..., size]`` to ``[..., size]``."""
        exact = rows if rows.dtype == torch.float64 else rows.float()
        exact = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + self._epsilon)
        return self.weight * exact.to(rows.dtype)


class EagleAttention(nn.Module):
    """The matrices of the attention, which reads embedding and feature side by side.

    Attributes are named like the tensors in files, see ``EagleHead``.
    """

    def __init__(self, shape: EagleShape) -> None:
        super().__init__()
        read, bias = 2 * shape.hidden_size, shape.attention_bias
        self._heads = (shape.heads, shape.kv_heads, shape.head_dim)
        self.q_proj = nn.Linear(read, shape.heads * shape.head_dim, bias=bias)
        self.k_proj = nn.Linear(read, shape.kv_heads * shape.head_dim, bias=bias)
        self.v_proj = nn.Linear(read, shape.kv_heads * shape.head_dim, bias=bias)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.hidden_size, bias=bias)
        if shape.has_head_norms:
            self.q_norm = RmsNorm(shape.head_dim, shape.norm_epsilon)
            self.k_norm = RmsNorm(shape.head_dim, shape.norm_epsilon)
        self._has_head_norms = shape.has_head_norms

    def project(
        self, rows: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return rotated queries, rotated keys, and values of rows, as heads.

        ``rows`` are ``[..., 2 · hidden]``, ``cosines`` and ``sines`` ``[..., head_dim]``; queries
        are ``[..., heads, head_dim]``, keys and values ``[..., kv_heads, head_dim]``.
        """
        heads, kv_heads, head_dim = self._heads
        query = self.q_proj(rows).unflatten(-1, (heads, head_dim))
        key = self.k_proj(rows).unflatten(-1, (kv_heads, head_dim))
        value = self.v_proj(rows).unflatten(-1, (kv_heads, head_dim))
        if self._has_head_norms:
            query, key = self.q_norm(query), self.k_norm(key)
        return _rotate(query, cosines, sines), _rotate(key, cosines, sines), value

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, sees: torch.Tensor
    ) -> torch.Tensor:
        """Return the output of the attention, ``[batch, rows, hidden]``.

        Arguments are as ``project`` returns them, for ``[batch, rows]``; there may be more keys and
        values than queries. ``sees`` says which keys a row sees, ``[batch, rows, keys]``.
        """
        heads, kv_heads, _ = self._heads
        found = scaled_dot_product_attention(
            query.transpose(1, 2),
            _repeat(key.transpose(1, 2), heads // kv_heads),
            _repeat(value.transpose(1, 2), heads // kv_heads),
            attn_mask=sees[:, None],
        )  # [batch, heads, rows, head_dim]
        out: torch.Tensor = self.o_proj(found.transpose(1, 2).flatten(2))
        return out


class EagleMlp(nn.Module):
    """Computes ``down(SiLU(gate) · up)``."""

    def __init__(self, shape: EagleShape) -> None:
        super().__init__()
        hidden, inner = shape.hidden_size, shape.intermediate_size
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Map ``[..., hidden]`` to ``[..., hidden]``."""
        out: torch.Tensor = self.down_proj(silu(self.gate_proj(rows)) * self.up_proj(rows))
        return out


class EagleLayer(nn.Module):
    """The decoder layer, in two halves, so that the caller keeps keys and values."""

    def __init__(self, shape: EagleShape) -> None:
        super().__init__()
        hidden, epsilon = shape.hidden_size, shape.norm_epsilon
        self.hidden_norm = RmsNorm(hidden, epsilon)
        self.input_layernorm = RmsNorm(hidden, epsilon)
        self.post_attention_layernorm = RmsNorm(hidden, epsilon)
        self.self_attn = EagleAttention(shape)
        self.mlp = EagleMlp(shape)
        self._norm_before_residual = shape.norm_before_residual

    def prepare(
        self, embedded: torch.Tensor, features: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the attention's input, ``[..., 2 · hidden]``, and what its output is added to.

        ``embedded`` are the embeddings of tokens; these, the ``features`` and what the output is
        added to are ``[..., hidden]``.
        """
        normed = self.hidden_norm(features)
        rows = torch.cat((self.input_layernorm(embedded), normed), dim=-1)
        return rows, normed if self._norm_before_residual else features

    def finish(self, residual: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Return the output of the layer; all three are ``[..., hidden]``.

        ``residual`` is the second result of ``prepare``, ``attended`` the attention's output.
        """
        rows = residual + attended
        out: torch.Tensor = rows + self.mlp(self.post_attention_layernorm(rows))
        return out


class EagleHead(nn.Module):
    """A head of one target; its tensors are named as in speculators' files.

    ``embed_tokens`` is present if the shape ``has_embedding``; else ``use_embedding`` has to set
    the target's, which is not part of the module's state. ``d2t`` is how much larger the target's
    id of each draft token is, ``t2d`` which of the target's tokens are in the draft vocabulary.
    """

    d2t: torch.Tensor
    t2d: torch.Tensor

    def __init__(self, shape: EagleShape, *, draft_ids: torch.Tensor | None = None) -> None:
        """``draft_ids`` are the target's ids of the draft vocabulary, ascending.

        ``None`` is the whole vocabulary, or its first tokens until a state is loaded.
        """
        super().__init__()
        self.shape = shape
        hidden, epsilon, taps = shape.hidden_size, shape.norm_epsilon, len(shape.taps)
        self.fc = nn.Linear(taps * shape.target_hidden_size, hidden, bias=False)
        self.layers = nn.ModuleList([EagleLayer(shape)])
        self.norm = RmsNorm(hidden, epsilon)
        self.lm_head = nn.Linear(hidden, shape.draft_vocabulary_size, bias=False)
        if shape.norm_before_fc:
            self.input_norm = RmsNorm(taps * shape.target_hidden_size, epsilon)
        if shape.fc_norm:
            norms = (RmsNorm(shape.target_hidden_size, epsilon) for _ in range(taps))
            self.fc_norm = nn.ModuleList(norms)
        if shape.has_embedding:
            self.embed_tokens = nn.Embedding(shape.vocabulary_size, hidden)
            self.embed_tokens.requires_grad_(False)
        self._target_embedding: list[torch.Tensor] = []  # a list keeps it out of the state
        if shape.draft_vocabulary_size != shape.vocabulary_size:
            self._keep_draft_ids(draft_ids)
        self.make_angles()

    @property
    def has_reduced_vocabulary(self) -> bool:
        """Whether the head predicts only a part of the target's tokens."""
        return self.shape.draft_vocabulary_size != self.shape.vocabulary_size

    @property
    def layer(self) -> EagleLayer:
        """The one layer."""
        layer = self.layers[0]
        assert isinstance(layer, EagleLayer)
        return layer

    def draft_ids(self) -> torch.Tensor:
        """The target's ids of the tokens that the head predicts, in its order, ``[draft]``."""
        count = torch.arange(self.shape.draft_vocabulary_size, device=self.norm.weight.device)
        return count + self.d2t if self.has_reduced_vocabulary else count

    def make_angles(self) -> None:
        """Compute the rotary frequencies, which are not in the state, on the default device."""
        self._rotary = _rotary(self.shape)

    def use_embedding(self, weight: torch.Tensor) -> None:
        """Read the target's embedding, ``[vocabulary, hidden]``."""
        assert not self.shape.has_embedding, "the head has an embedding of its own"
        self._target_embedding = [weight]

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the embeddings of tokens of the target, ``[..., hidden]``, in the table's type.

        Tokens are ids of the target's vocabulary, not of the head's own.
        """
        if self.shape.has_embedding:
            weight = self.embed_tokens.weight
        else:
            assert self._target_embedding, "give the head the target's embedding first"
            weight = self._target_embedding[0]
        return nn.functional.embedding(tokens, weight)

    def fuse(self, taps: torch.Tensor) -> torch.Tensor:
        """Fuse taps ``[..., taps · target]`` to the feature of each position, ``[..., hidden]``."""
        if self.shape.norm_before_fc:
            taps = self.input_norm(taps)
        if self.shape.fc_norm:
            parts = taps.chunk(len(self.shape.taps), dim=-1)
            normed = [norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)]
            taps = torch.cat(normed, dim=-1)
        features: torch.Tensor = self.fc(taps)
        return features

    def angles(
        self, positions: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosines and sines of some positions, ``[..., head_dim]`` each."""
        # The first argument only gives type and device.
        like = torch.empty(0, dtype=dtype, device=positions.device)
        cosines, sines = self._rotary(like, positions.reshape(1, -1))
        shape = (*positions.shape, -1)
        return cosines[0].reshape(shape), sines[0].reshape(shape)

    def predict(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits ``[..., draft]`` and features ``[..., hidden]`` of the layer's outputs.

        The features are those of the next rows.
        """
        normed = self.norm(rows)
        return self.lm_head(normed), normed if self.shape.norm_output else rows

    def forward(self, taps: torch.Tensor, tokens: torch.Tensor, *, steps: int = 1) -> torch.Tensor:
        """Return the logits of whole texts, for training: ``[steps, batch, length - 1, draft]``.

        ``taps`` (``[batch, length, taps · target]``) are the target's at ``tokens`` (``[batch,
        length]``). Step ``s`` of index ``i`` predicts token ``i + 2 + s``: with the taps of
        position ``i`` and the right tokens up to ``i + 1 + s``, so ``s`` features are its own. If
        there is no such token the logits mean nothing, and must not be part of a loss.
        """
        batch, count = tokens.shape[0], tokens.shape[1] - 1
        features = self.fuse(taps[:, :-1])
        places = torch.arange(count, device=tokens.device)
        # A row sees those before it in the first step, and of the other steps its own.
        sees = places[:, None] >= places[None, :]
        own = places[:, None] == places[None, :]
        keys: list[torch.Tensor] = []
        values: list[torch.Tensor] = []
        found = []
        for step in range(steps):
            read = nn.functional.pad(tokens[:, 1 + step :], (0, step))
            embedded = self.embed(read).to(features.dtype)
            rows, residual = self.layer.prepare(embedded, features)
            query, key, value = self.layer.self_attn.project(
                rows, *self.angles((places + step).expand(batch, -1), rows.dtype)
            )
            keys.append(key)
            values.append(value)
            mask = torch.cat((sees, *([own] * step)), dim=1).expand(batch, -1, -1)
            attended = self.layer.self_attn.attend(
                query, torch.cat(keys, 1), torch.cat(values, 1), mask
            )
            logits, features = self.predict(self.layer.finish(residual, attended))
            found.append(logits)
        return torch.stack(found)

    def _keep_draft_ids(self, draft_ids: torch.Tensor | None) -> None:
        """Register the draft vocabulary as the buffers ``d2t`` and ``t2d``.

        ``draft_ids`` are as for the constructor; ``None`` stands for the first tokens.
        """
        shape = self.shape
        first = torch.arange(shape.draft_vocabulary_size)
        ids = first
        if draft_ids is not None:
            ids = draft_ids.to(first)
            assert ids.shape == first.shape, f"{len(ids)} ids for {len(first)} tokens"
            assert bool((ids[1:] > ids[:-1]).all()), "the draft vocabulary is out of order"
        self.register_buffer("d2t", ids - first)
        self.register_buffer("t2d", draft_token_mask(ids, shape.vocabulary_size))


def draft_token_mask(draft_ids: torch.Tensor, vocabulary_size: int) -> torch.Tensor:
    """Return which of the target's tokens are in the draft vocabulary, ``[vocabulary]``."""
    known = torch.zeros(vocabulary_size, dtype=torch.bool, device=draft_ids.device)
    known[draft_ids] = True
    return known


def _rotate(heads: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Rotate ``heads`` by the angles of their position.

    ``heads`` are ``[..., heads, head_dim]``, ``cosines`` and ``sines`` ``[..., head_dim]``.
    """
    first, second = heads.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return heads * cosines[..., None, :] + turned * sines[..., None, :]


def _repeat(heads: torch.Tensor, times: int) -> torch.Tensor:
    """Repeat keys or values, ``[batch, kv_heads, rows, head_dim]``, ``times`` for each of them.

    So many heads of queries read one head of keys and values.
    """
    return heads.repeat_interleave(times, dim=1) if times > 1 else heads


def _rotary(shape: EagleShape) -> Any:
    """Make the rotary positions with transformers, which knows all kinds that configs name."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=shape.heads * shape.head_dim,
        num_attention_heads=shape.heads,
        head_dim=shape.head_dim,
        max_position_embeddings=shape.max_positions,
        rope_parameters=dict(shape.rope),
    )
    return LlamaRotaryEmbedding(config)
