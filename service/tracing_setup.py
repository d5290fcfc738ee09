"""Sets up tracing and the export of spans as the standard OTEL_* variables say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

import structlog

from guided.errors import MissingExtraError
from guided.extras import DISTRIBUTION, needing
from guided.telemetry import is_configured

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from guided_service.tracing import ModelName, RequestTracer

__all__ = ["open_tracer"]

_SERVICE_NAME: Final = "guided"
"""Used unless OTEL_SERVICE_NAME is set."""

_OTLP: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""Registered names of exporters, by protocol."""

_log = structlog.get_logger()


def open_tracer(model_name: ModelName) -> RequestTracer | None:
    """Return what traces requests if the environment requests traces, else ``None``.

    Tracing must not prevent a server from serving, so a missing exporter is only logged. The
    provider sends its remaining spans when the process ends.
    """
    if not is_configured():
        return None
    try:
        with needing("exporting traces", "telemetry"):
            from opentelemetry import trace

            from guided_service.tracing import RequestTracer

            provider = trace.get_tracer_provider()
            # A provider set up by ``opentelemetry-instrument`` is used unchanged.
            if isinstance(provider, trace.ProxyTracerProvider):
                provider = _provider()
                trace.set_tracer_provider(provider)
    except MissingExtraError as error:
        _log.warning("no traces", reason=str(error))
        return None
    return RequestTracer(provider, model_name)


def _provider() -> TracerProvider:
    """Return a provider with the environment's exporters; the SDK chooses its sampler."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource({"service.name": _SERVICE_NAME}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource)
    for name in _exporter_names(os.environ):
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)))
        _log.info("exporting traces", exporter=name)
    return provider


def _exporter_names(environment: Mapping[str, str]) -> list[str]:
    """Return the registered names of the exporters that OTEL_TRACES_EXPORTER names."""
    asked = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    protocol = (
        environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "").strip()
        or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip()
        or "grpc"
    )
    names = [name.strip() for name in asked.split(",") if name.strip()]
    return [_OTLP.get(protocol, protocol) if name == "otlp" else name for name in names]


def _exporter(name: str) -> SpanExporter:
    found = entry_points(group="opentelemetry_traces_exporter", name=name)
    if not found:
        raise MissingExtraError(
            f"the exporter of traces {name!r} is not installed",
            extra="telemetry",
            hint=f"pip install '{DISTRIBUTION}[telemetry]', or its own package",
        )
    exporter: SpanExporter = next(iter(found)).load()()
    return exporter
