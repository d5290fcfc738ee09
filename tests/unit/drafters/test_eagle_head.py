"""The EAGLE-3 head against a plain computation, and with cached rows against whole texts."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

from guided.drafters.heads import EagleHead
from guided.drafters.heads.eagle_rows import EagleRows, TextRows
from guided.model.device import CPU
from guided.spec import TokenId
from tests.unit.drafters.heads import EAGLE_SHAPES, random_eagle


def text(head: EagleHead, length: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    """Taps and tokens of one text; a head without an embedding gets one."""
    torch.manual_seed(1)
    shape = head.shape
    if not shape.has_embedding:
        head.use_embedding(torch.randn(shape.vocabulary_size, shape.hidden_size))
    taps = torch.randn(1, length, len(shape.taps) * shape.target_hidden_size)
    return taps, torch.randint(0, shape.vocabulary_size, (1, length))


def plain_logits(head: EagleHead, taps: torch.Tensor, read: list[int], known: int) -> torch.Tensor:
    """The head's logits after the last of some tokens, computed row by row.

    ``taps`` are those of the first ``known`` positions; the rows after them continue from their own
    outputs. Every row is computed alone, with the keys and values of the earlier ones.
    """
    shape, weights = head.shape, dict(head.named_parameters())

    def norm(name: str, rows: torch.Tensor) -> torch.Tensor:
        module = LlamaRMSNorm(rows.shape[-1], eps=shape.norm_epsilon)
        module.weight = torch.nn.Parameter(weights[f"{name}.weight"])
        out: torch.Tensor = module(rows)
        return out

    def times(name: str, rows: torch.Tensor) -> torch.Tensor:
        out = rows @ weights[f"{name}.weight"].T
        return out + weights[f"{name}.bias"] if f"{name}.bias" in weights else out

    config = LlamaConfig(
        head_dim=shape.head_dim,
        max_position_embeddings=shape.max_positions,
        rope_parameters=dict(shape.rope),
    )
    rotary = LlamaRotaryEmbedding(config)
    keys: list[torch.Tensor] = []
    values: list[torch.Tensor] = []
    output = torch.empty(0)
    for index, token in enumerate(read):
        if index < known:
            tapped = taps[index]
            if shape.norm_before_fc:
                tapped = norm("input_norm", tapped)
            if shape.fc_norm:
                parts = tapped.view(-1, shape.target_hidden_size)
                tapped = torch.cat([norm(f"fc_norm.{n}", part) for n, part in enumerate(parts)])
            feature = times("fc", tapped)
        else:
            feature = norm("norm", output) if shape.norm_output else output
        normed = norm("layers.0.hidden_norm", feature)
        embedded = norm("layers.0.input_layernorm", head.embed(torch.tensor(token)))
        row = torch.cat((embedded, normed))
        query = times("layers.0.self_attn.q_proj", row).view(1, -1, 1, shape.head_dim)
        key = times("layers.0.self_attn.k_proj", row).view(1, -1, 1, shape.head_dim)
        value = times("layers.0.self_attn.v_proj", row).view(-1, shape.head_dim)
        if shape.has_head_norms:
            query = norm("layers.0.self_attn.q_norm", query)
            key = norm("layers.0.self_attn.k_norm", key)
        query, key = apply_rotary_pos_emb(query, key, *rotary(row, torch.tensor([[index]])))
        keys.append(key[0, :, 0])
        values.append(value)
        heads: list[torch.Tensor] = []
        for number in range(shape.heads):
            group = number * shape.kv_heads // shape.heads
            scores = torch.stack([query[0, number, 0] @ k[group] for k in keys])
            shares = (scores / math.sqrt(shape.head_dim)).softmax(0)
            heads.append(shares @ torch.stack([v[group] for v in values]))
        attended = times("layers.0.self_attn.o_proj", torch.cat(heads))
        middle = (normed if shape.norm_before_residual else feature) + attended
        inner = norm("layers.0.post_attention_layernorm", middle)
        gate = times("layers.0.mlp.gate_proj", inner)
        gated = gate * torch.sigmoid(gate) * times("layers.0.mlp.up_proj", inner)
        output = middle + times("layers.0.mlp.down_proj", gated)
    return times("lm_head", norm("norm", output))


@pytest.mark.parametrize("name", EAGLE_SHAPES)
def test_whole_texts_say_what_is_computed_row_by_row(name: str) -> None:
    """At every index and step: with taps up to the index, and the head's own features after it."""
    head = random_eagle(EAGLE_SHAPES[name])
    taps, tokens = text(head)
    found = head(taps, tokens, steps=3)
    assert found.shape == (3, 1, 8, head.shape.draft_vocabulary_size)
    for step, index in [(0, 0), (0, 4), (0, 7), (1, 0), (1, 5), (2, 3), (2, 5)]:
        read = tokens[0, 1 : index + 2 + step].tolist()
        expected = plain_logits(head, taps[0], read, known=index + 1)
        torch.testing.assert_close(found[step, 0, index], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", EAGLE_SHAPES)
def test_cached_rows_say_the_same_as_whole_texts(name: str) -> None:
    """Two texts in one call, in pieces of different lengths, continued with their own features."""
    head = random_eagle(EAGLE_SHAPES[name])
    taps, tokens = text(head, length=20)
    packed = random_eagle(EAGLE_SHAPES[name])
    text(packed)
    rows = EagleRows(packed, cache_tokens=64, dtype=torch.float32, device=CPU)
    features = rows.fuse(taps[0])
    ends = (9, 14)
    texts = [rows.cache.open(), rows.cache.open()]
    kept: list[torch.Tensor | None] = []
    for cuts in ((4, 9), (5, 5)):
        pieces = []
        for blocks, count in zip(texts, cuts, strict=True):
            start = blocks.committed
            read = [TokenId(t) for t in tokens[0, start + 1 : start + 1 + count].tolist()]
            pieces.append(TextRows(blocks, read, features[start : start + count], start))
        kept = rows.keep(pieces)
    rows.cache.check()
    outputs = [output for output in kept if output is not None]
    assert len(outputs) == 2
    assert tuple(blocks.committed for blocks in texts) == ends
    pasts = [rows.past(blocks) for blocks in texts]
    for step in range(3):
        whole = head(taps, tokens, steps=step + 1)[step, 0]
        expected = torch.stack([whole[end - 1] for end in ends])
        torch.testing.assert_close(rows.logits(outputs), expected, rtol=1e-4, atol=1e-4)
        outputs, pasts = rows.continue_rows(
            [TokenId(int(tokens[0, end + 1 + step])) for end in ends],
            [rows.feature(output) for output in outputs],
            [end + step for end in ends],
            pasts,
        )


def test_places_of_trees_are_the_same_side_by_side_as_alone() -> None:
    """Places of two texts at different depths, which share the cached rows of their text."""
    head = random_eagle(EAGLE_SHAPES["own embedding"])
    rows = EagleRows(head, cache_tokens=64, dtype=torch.float32, device=CPU)
    torch.manual_seed(5)
    texts = [rows.cache.open(), rows.cache.open()]
    for blocks, length in zip(texts, (9, 5), strict=True):
        read = [TokenId(token) for token in range(length)]
        rows.keep([TextRows(blocks, read, torch.randn(length, head.shape.hidden_size), 0)])
    pasts = [rows.past(blocks) for blocks in texts]
    feature = torch.randn(head.shape.hidden_size)
    (_,), (deeper,) = rows.continue_rows([TokenId(3)], [feature], [9], [pasts[0]])
    (_,), (deepest,) = rows.continue_rows([TokenId(4)], [feature], [10], [deeper])
    (_,), (other,) = rows.continue_rows([TokenId(8)], [feature], [9], [pasts[0]])
    places = [pasts[1], deepest, pasts[0], other, pasts[1]]
    tokens = [TokenId(token) for token in (7, 6, 5, 4, 3)]
    features = list(torch.randn(5, head.shape.hidden_size))
    positions = [5, 11, 9, 10, 5]
    together, after = rows.continue_rows(tokens, features, positions, places)
    for row, place in enumerate(places):
        (alone,), (past,) = rows.continue_rows(
            [tokens[row]], [features[row]], [positions[row]], [place]
        )
        torch.testing.assert_close(together[row], alone, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(after[row].drafted, past.drafted, rtol=1e-5, atol=1e-5)
        assert after[row].kept.keys is place.kept.keys


def test_where_there_is_room_for_one_text_the_other_keeps_nothing() -> None:
    head = random_eagle(EAGLE_SHAPES["own embedding"])
    rows = EagleRows(head, cache_tokens=16, dtype=torch.float32, device=CPU)
    texts = [rows.cache.open(), rows.cache.open()]
    features = torch.randn(10, head.shape.hidden_size)
    read = [TokenId(token) for token in range(10)]
    first, second = rows.keep([TextRows(blocks, read, features, 0) for blocks in texts])
    assert first is not None
    assert second is None
    assert [blocks.committed for blocks in texts] == [10, 0]
    rows.cache.check()
