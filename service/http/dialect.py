"""Whose API a call speaks, OpenAI's or Anthropic's: the form of errors, and the names of things.

::

    /v1/messages…                  Anthropic's
    anthropic-version in a header  Anthropic's, on the paths that both APIs have
    anything else                  OpenAI's
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from guided_service.http.anthropic_errors import anthropic_error
from guided_service.http.errors import JsonObject, Refusal

__all__ = ["ANTHROPIC", "Dialect", "dialect_of"]

_PATH: Final = "/v1/messages"
_OPENAIS: Final = ("/v1/chat/", "/v1/completions", "/v1/responses", "/tokenize", "/detokenize")
_HEADER: Final = "anthropic-version"
"""Anthropic's clients send it with every call. All versions are answered alike."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between the two APIs, whatever a call requests."""

    service: str
    """The name of the service in logs and traces."""
    id_headers: tuple[str, ...]
    """The headers of an answer that have the id of its call."""
    error: Callable[[Refusal, str], JsonObject]
    """Returns the body of an error for the call with an id."""


def _openai_error(refusal: Refusal, request_id: str) -> JsonObject:  # noqa: ARG001
    return refusal.body


OPENAI: Final = Dialect("openai.v1", ("x-request-id",), _openai_error)
ANTHROPIC: Final = Dialect("anthropic.v1", ("x-request-id", "request-id"), anthropic_error)


def dialect_of(scope: Scope) -> Dialect:
    """Return whose API a call speaks."""
    path = scope["path"]
    is_shared = not path.startswith(_OPENAIS)
    is_anthropic = path.startswith(_PATH) or (is_shared and _HEADER in Headers(scope=scope))
    return ANTHROPIC if is_anthropic else OPENAI
