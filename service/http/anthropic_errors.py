"""Writes errors as Anthropic's API does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from guided_service.http.errors import JsonObject, Refusal

__all__ = ["anthropic_error"]

_TYPES: Final[Mapping[int, str]] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""The type of an error by its status; of all others it is ``invalid_request_error``."""


def anthropic_error(refusal: Refusal, request_id: str) -> JsonObject:
    """Return the body of an error; ``guided`` has what Anthropic's errors do not say."""
    told = refusal.body["error"]
    assert isinstance(told, dict), "an error without its object"
    error: JsonObject = {
        "type": _TYPES.get(refusal.status, "invalid_request_error"),
        "message": told["message"],
        "guided": {"code": told["code"], "param": told["param"], **told.get("guided", {})},
    }
    return {"type": "error", "error": error, "request_id": request_id}
