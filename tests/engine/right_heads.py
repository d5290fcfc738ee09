"""A target that goes through its tokens in a circle, and heads that know the circle.

The model's layers add nothing, so its state is the token that it has read: a vector with a single
number. Its head turns that into the next token of the circle; the heads built for it predict the
tokens after that one, without an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import LlamaConfig, PreTrainedModel

from guided.drafters.heads import EagleHead, EagleShape, MedusaHeads, MedusaShape
from tests.engine.architectures import LOGITS_WIDTH, SHAPE
from tests.engine.tiny_models import from_config

LAYERS = 6


def circle() -> torch.Tensor:
    """The token that follows each; those that end an answer follow none of the others."""
    order = torch.randperm(LOGITS_WIDTH - 2, generator=torch.Generator().manual_seed(1)) + 2
    order = order[order < 271]
    following = torch.zeros(LOGITS_WIDTH, dtype=torch.long)
    following[order] = order.roll(-1)
    return following


def steps_before(count: int) -> torch.Tensor:
    """The matrix that maps a token, one number in its row, to the token some steps later."""
    at = torch.arange(LOGITS_WIDTH)
    for _ in range(count):
        at = circle()[at]
    matrix = torch.zeros(LOGITS_WIDTH, LOGITS_WIDTH)
    matrix[at, torch.arange(LOGITS_WIDTH)] = 1.0
    return matrix


@torch.no_grad()
def circling_model() -> PreTrainedModel:
    config = LlamaConfig(
        **SHAPE | {"hidden_size": LOGITS_WIDTH, "num_hidden_layers": LAYERS},
        tie_word_embeddings=False,
    )
    model = from_config(config)
    for name, weight in model.named_parameters():
        if "o_proj" in name or "down_proj" in name:
            weight.zero_()
    weights = dict(model.named_parameters())
    weights["model.embed_tokens.weight"].copy_(torch.eye(LOGITS_WIDTH))
    weights["lm_head.weight"].copy_(steps_before(1))
    return model


@torch.no_grad()
def right_medusa(heads: int) -> MedusaHeads:
    module = MedusaHeads(MedusaShape(LOGITS_WIDTH, LOGITS_WIDTH, heads))
    for head in range(heads):
        matrix = steps_before(head + 2)
        matrix[:2] = -0.1  # ends of answers are not drafted, so they are the least likely
        module.vocabulary_matrix(head).copy_(matrix)
    return module.eval()


def _empty_eagle(draft_ids: Sequence[int] | None = None) -> EagleHead:
    """A head whose matrices are all zero."""
    size = LOGITS_WIDTH
    shape = EagleShape(
        hidden_size=size,
        intermediate_size=4,
        heads=1,
        kv_heads=1,
        head_dim=size,
        vocabulary_size=size,
        draft_vocabulary_size=size if draft_ids is None else len(draft_ids),
        target_hidden_size=size,
        taps=(1, 3, 5),
        # Positions are close together, so that equal tokens look alike wherever they are.
        rope={"rope_type": "linear", "rope_theta": 10000.0, "factor": 1e6},
        has_embedding=True,
    )
    ids = None if draft_ids is None else torch.tensor(draft_ids)
    head = EagleHead(shape, draft_ids=ids).requires_grad_(False).eval()
    for weight in head.parameters():
        if weight.dim() == 2:
            weight.zero_()
    return head


def right_eagle(draft_ids: Sequence[int] | None = None) -> EagleHead:
    """A head whose attention finds the token of its own row, and whose taps carry no information.

    A row adds its token to the feature that it continues, so the feature holds all tokens since the
    taps ended. The next token of each but the last is one of them, so the head subtracts
    the feature itself.
    """
    head, size = _empty_eagle(draft_ids), LOGITS_WIDTH
    head.embed_tokens.weight.copy_(torch.eye(size))
    token = torch.cat((torch.eye(size), torch.zeros(size, size)), dim=1)
    attention = head.layer.self_attn
    # Equal tokens have the largest product.
    attention.q_proj.weight.copy_(100 * token)
    attention.k_proj.weight.copy_(token)
    attention.v_proj.weight.copy_(token)
    attention.o_proj.weight.copy_(torch.eye(size))
    head.lm_head.weight.copy_((steps_before(1) - torch.eye(size))[head.draft_ids()])
    return head


def tapping_eagle() -> EagleHead:
    """A head that reads only its taps: right for the token after the next, and for no other."""
    head, size = _empty_eagle(), LOGITS_WIDTH
    head.fc.weight[:, size : 2 * size] = torch.eye(size)
    head.lm_head.weight.copy_(steps_before(2))
    return head
