"""Heads with random weights for the tiny models, which are mostly wrong, and engines with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from guided.decoding import Drafter
from guided.drafters.heads import EagleShape, MedusaHeads, MedusaShape
from guided.drafters.heads.eagle import EagleDrafter
from guided.drafters.heads.medusa import MedusaDrafter
from guided.engine.engine import Engine
from tests.engine.architectures import LOGITS_WIDTH, SHAPE
from tests.engine.finite_language import TOKEN_BYTES
from tests.engine.tiny_models import make_engine
from tests.unit.drafters.heads import random_eagle

__all__ = ["engine_with", "random_eagle_drafter", "random_medusa"]

_HIDDEN = SHAPE["hidden_size"]


def random_medusa() -> MedusaDrafter:
    torch.manual_seed(2)
    module = MedusaHeads(MedusaShape(_HIDDEN, LOGITS_WIDTH, heads=4, layers=2))
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return MedusaDrafter(module, vocabulary_size=len(TOKEN_BYTES))


def random_eagle_drafter(*, cache_tokens: int = 2000, **changed: Any) -> EagleDrafter:
    """A head that reads the inputs of both layers of a model, and knows half of its tokens."""
    shape = EagleShape(
        hidden_size=_HIDDEN,
        intermediate_size=48,
        heads=4,
        kv_heads=2,
        head_dim=8,
        vocabulary_size=LOGITS_WIDTH,
        draft_vocabulary_size=150,
        target_hidden_size=_HIDDEN,
        taps=(0, 1),
        has_embedding=True,
    )
    head = random_eagle(replace(shape, **changed))
    return EagleDrafter(head, vocabulary_size=len(TOKEN_BYTES), cache_tokens=cache_tokens)


def engine_with(model: Any, drafters: Sequence[Drafter], **options: Any) -> Engine:
    """An engine whose runner taps the states that its drafters read."""
    engine = make_engine(model, drafters=tuple(drafters), **{"widest_draft": 16} | options)
    for drafter in drafters:
        if isinstance(drafter, EagleDrafter):
            engine._model.runner.tap(drafter.taps)
    return engine
