"""Finds the model that a call over HTTP names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guided.stats import ModelInfo
from guided_service.config import ServerConfig
from guided_service.http.errors import RefusedCallError
from guided_service.servicers import Engine

__all__ = ["find_model"]


def find_model(asked: str | None, engine: Engine, config: ServerConfig) -> ModelInfo:
    """Return the model with this name or with an adapter of this name; without one, the first.

    A single model has the name that the settings call it by, too. Raises RefusedCallError for an
    unknown name, ServiceUnavailableError while the model has no engine.
    """
    models = engine.models()
    known = _by_name(models)
    if asked is None or (len(models) == 1 and asked == config.model):
        asked = models[0].name
    if asked not in known:
        raise RefusedCallError(
            f"there is no model {asked[:200]!r}",
            status=404,
            field="model",
            hint=f"this server has {', '.join(map(repr, known))}",
        )
    return engine.model(known[asked].name)


def _by_name(models: Sequence[ModelInfo]) -> Mapping[str, ModelInfo]:
    """Map all names; a model is preferred to an adapter of another one with its name."""
    known = {model.name: model for model in models}
    for model in models:
        for adapter in model.adapters:
            known.setdefault(adapter, model)
    return known
