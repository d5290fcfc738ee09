"""Telling about a model before it is loaded."""

from __future__ import annotations

from guided.engine.cache_size import CacheRequest
from guided.engine.formats import check_formats, check_model
from guided.engine.load import WIDEST_DRAFT
from guided.engine.memory_plan import MemoryPlan, plan_model
from guided.model.device import AUTO, choose_device
from guided.model.model_files import ModelFiles, find_model

__all__ = ["inspect_memory"]


def inspect_memory(
    model: str | None = None,
    *,
    dtype: str | None = None,
    cache_tokens: int | None = None,
    kv_memory: int | None = None,
    kv_dtype: str | None = None,
    device: str = AUTO,
) -> tuple[ModelFiles, MemoryPlan]:
    """The model, and the memory that ``load_engine`` would take for it with the same settings."""
    where = choose_device(device)
    check_formats(dtype, kv_dtype, where)
    asked = CacheRequest(
        cache_tokens, kv_memory, is_quantised=kv_dtype == "int8", widest_draft=WIDEST_DRAFT
    )
    files = find_model(model)
    check_model(files, dtype)
    _, plan = plan_model(files, dtype, asked, where)
    return files, plan
