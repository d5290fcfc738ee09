"""What calls are told about the model and its adapters, in the form of either API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.types import Scope

from guided_service.http.call import Face, check_model
from guided_service.http.dialect import ANTHROPIC, dialect_of
from guided_service.http.errors import JsonObject

__all__ = ["ModelFacts"]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The facts returned about the model."""

    face: Face
    begun: int
    """When the server began, in seconds since 1970."""

    def models(self, scope: Scope) -> JsonObject:
        """Return the model, then its adapters."""
        model = self.face.engine.model()
        names = (model.name, *model.adapters)
        told = [self._told(name, scope) for name in names]
        if dialect_of(scope) is ANTHROPIC:
            return {
                "data": told,
                "has_more": False,
                "first_id": names[0],
                "last_id": names[-1],
            }
        return {"object": "list", "data": told}

    def model(self, scope: Scope) -> JsonObject:
        """Return the model or the adapter that the path names."""
        asked = scope["path_params"]["model"]
        check_model(asked, self.face.engine.model(), self.face.config)
        return self._told(asked, scope)

    def _told(self, name: str, scope: Scope) -> JsonObject:
        model = self.face.engine.model()
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
        of_adapter: JsonObject = {"parent": model.name} if name in model.adapters else {}
        return of_adapter | {
            "id": name,
            "object": "model",
            "created": self.begun,
            "owned_by": "guided",
            "max_model_len": model.context_window,
        }
