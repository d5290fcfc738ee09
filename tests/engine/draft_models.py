"""Tiny draft models, and an engine that checks their books after every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedModel

from guided.drafters.draft_model import CHAIN, DraftModel, Respelling
from guided.engine.engine import Engine
from guided.kv.block_cache import BlockCache, LayerGroup
from guided.model.cpu import WeightFormat
from guided.model.runner import ModelRunner
from guided.spec import GenerationRequest, GenerationResult
from tests.engine.architectures import LOGITS_WIDTH
from tests.engine.finite_language import TOKEN_BYTES

__all__ = ["checked_answers", "make_draft"]


def make_draft(
    model: PreTrainedModel,
    *,
    name: str = "draft",
    widths: Sequence[int] = CHAIN,
    num_blocks: int = 200,
    reuse_prefixes: bool = True,
    weights: WeightFormat | None = None,
    respelling: Respelling | None = None,
    **options: Any,
) -> DraftModel:
    size = len(TOKEN_BYTES) if respelling is None else LOGITS_WIDTH
    runner = ModelRunner(model, vocabulary_size=size, weights=weights)
    groups = [LayerGroup(num_blocks, window) for window in runner.windows]
    cache = BlockCache(groups, 4, reuse_prefixes=reuse_prefixes)
    runner.open_storages([pool.num_slots for pool in cache.pools])
    settings = {"context_window": 512, "respelling": respelling} | options
    return DraftModel(name, runner, cache, widths=widths, **settings)


def checked_answers(
    engine: Engine,
    drafts: Sequence[DraftModel],
    requests: Mapping[str, GenerationRequest],
    *,
    cancelled: Mapping[int, str] | None = None,
) -> dict[str, GenerationResult]:
    """Run requests together, and cancel some before the steps of these numbers."""
    for request_id, request in requests.items():
        engine.submit(request_id, request)
    found: dict[str, GenerationResult] = {}
    step = 0
    while engine.has_work:
        engine.cancel((cancelled or {}).get(step, ""))
        for finished in engine.step():
            if not isinstance(finished.outcome, GenerationResult):
                raise finished.outcome
            found[finished.request_id] = finished.outcome
        engine.check()
        for draft in drafts:
            draft.texts.check()
        step += 1
    # However a request ended, its pages are free again.
    assert [draft.texts.num_blocks_held for draft in drafts] == [0] * len(drafts)
    return found
