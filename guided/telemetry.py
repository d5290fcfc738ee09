"""What traces and logs report of requests and answers, by OpenTelemetry's GenAI conventions.

Names are those of https://opentelemetry.io/docs/specs/semconv/gen-ai/; others begin with
``guided.``. Prompts, constraints and the texts of answers are never reported. The package of
OpenTelemetry is not needed here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from guided.v1 import generation_pb2 as pb

if TYPE_CHECKING:
    from guided.spec import Usage

__all__ = [
    "TRACER_NAME",
    "Attributes",
    "answer_attributes",
    "constraint_kind",
    "is_configured",
    "operation_of",
    "request_attributes",
]

Attributes: TypeAlias = dict[str, str | bool | int | float | Sequence[str]]
"""Attributes of a span."""

TRACER_NAME: Final = "guided"

_CONFIGURES: Final = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)

_LONGEST_NAME: Final = 200
"""Most characters of a name that a caller chose."""

_SAMPLING: Final = {
    "temperature": "gen_ai.request.temperature",
    "top_k": "gen_ai.request.top_k",
    "top_p": "gen_ai.request.top_p",
    "seed": "gen_ai.request.seed",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
}


def is_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the standard variables request the export of traces."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "").strip() == "none":
        return False
    return any(environment.get(name, "").strip() for name in _CONFIGURES)


def operation_of(request: pb.GenerateRequest) -> str:
    """Return the operation: ``chat`` for a conversation, ``text_completion`` for plain text."""
    return "chat" if request.WhichOneof("prompt") == "messages" else "text_completion"


def constraint_kind(request: pb.GenerateRequest) -> str:
    """Return a request's kind of constraint, as its message names it; ``none`` without one."""
    return request.constraint.WhichOneof("kind") or "none"


def request_attributes(request: pb.GenerateRequest) -> Attributes:
    """Return what a request asks for, as far as traces may contain it."""
    kind = constraint_kind(request)
    told: Attributes = {
        "gen_ai.operation.name": operation_of(request),
        "gen_ai.provider.name": "guided",
        "gen_ai.output.type": "json" if kind == "json_schema" else "text",
        "guided.constraint.kind": kind,
    }
    if request.model:
        told["gen_ai.request.model"] = request.model[:_LONGEST_NAME]
    if request.HasField("max_tokens"):
        told["gen_ai.request.max_tokens"] = request.max_tokens
    if request.n > 1:
        told["gen_ai.request.choice.count"] = request.n
    for field, value in request.sampling.ListFields():
        if field.name in _SAMPLING:
            told[_SAMPLING[field.name]] = value
    return told


def answer_attributes(usage: Usage | pb.Usage, finish_reasons: Iterable[str]) -> Attributes:
    """Return the cost of an answer, and why it ended."""
    return {
        "gen_ai.response.finish_reasons": tuple(finish_reasons),
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.sampled_tokens + usage.forced_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.reused_tokens,
        "guided.usage.forced_tokens": usage.forced_tokens,
        "guided.usage.model_calls": usage.model_calls,
    }
