"""What calls are told about the model and its adapters, in the form of either API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.types import Scope

from guided.stats import ModelInfo
from guided_service.http.call import Face
from guided_service.http.dialect import ANTHROPIC, dialect_of
from guided_service.http.errors import JsonObject
from guided_service.http.find_model import find_model

__all__ = ["ModelFacts"]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The facts returned about the models."""

    face: Face
    begun: int
    """When the server began, in seconds since 1970."""

    def models(self, scope: Scope) -> JsonObject:
        """Return each model, followed by its adapters."""
        told = [
            self._told(model, name, scope)
            for model in self.face.engine.models()
            for name in (model.name, *model.adapters)
        ]
        if dialect_of(scope) is ANTHROPIC:
            return {
                "data": told,
                "has_more": False,
                "first_id": told[0]["id"],
                "last_id": told[-1]["id"],
            }
        return {"object": "list", "data": told}

    def model(self, scope: Scope) -> JsonObject:
        """Return the model or the adapter that the path names."""
        asked = scope["path_params"]["model"]
        model = find_model(asked, self.face.engine, self.face.config)
        return self._told(model, asked if asked in model.adapters else model.name, scope)

    def _told(self, model: ModelInfo, name: str, scope: Scope) -> JsonObject:
        """Return what is told of a model, or of its adapter with this name."""
        if dialect_of(scope) is ANTHROPIC:
            return {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": f"{datetime.fromtimestamp(self.begun, UTC):%Y-%m-%dT%H:%M:%SZ}",
                "lifecycle": "active",
                "max_input_tokens": model.context_window,
                "max_tokens": model.context_window,
            }
        # The model that an adapter is added to, named as vLLM does.
        of_adapter: JsonObject = {} if name == model.name else {"parent": model.name}
        return of_adapter | {
            "id": name,
            "object": "model",
            "created": self.begun,
            "owned_by": "guided",
            "max_model_len": model.context_window,
        }
