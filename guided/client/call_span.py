"""The span of one call of a client; import it only if OpenTelemetry is installed."""

from __future__ import annotations

import threading
from typing import Any

import grpc
import grpc.aio
from opentelemetry import propagate, trace

from guided.telemetry import TRACER_NAME, answer_attributes, operation_of, request_attributes
from guided.v1 import generation_pb2 as pb

__all__ = ["CallSpan"]


class CallSpan:
    """The span of one call; it ends once, whichever thread reports the end first."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._answer: pb.GenerateResponse | None = None
        self._lock = threading.Lock()
        self._is_open = True

    @classmethod
    def begin(cls, method: str, request: object) -> CallSpan | None:
        """Begin the span of a call for answers; ``None`` if nothing would record it."""
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return None
        told = _told(request)
        if told is None:
            return None
        operation, attributes = told
        model = attributes.get("gen_ai.request.model")
        name = operation if model is None else f"{operation} {model}"
        attributes |= {"rpc.system.name": "grpc", "rpc.method": method.lstrip("/")}
        tracer = trace.get_tracer(TRACER_NAME)
        return cls(tracer.start_span(name, kind=trace.SpanKind.CLIENT, attributes=attributes))

    def carried_by(self, details: Any) -> grpc.ClientCallDetails:
        """Return the details of the call, with the span's context in its metadata."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(self._span))
        return _Details(details, (*(details.metadata or ()), *carrier.items()))

    def read(self, message: object) -> None:
        """Note a message that may be the answer or contain it."""
        match message:
            case pb.GenerateResponse():
                self._answer = message
            case pb.GenerateStreamResponse() if message.WhichOneof("event") == "answer":
                self._answer = message.answer

    def end(self, code: grpc.StatusCode = grpc.StatusCode.OK) -> None:
        """End the span; only the first end counts."""
        with self._lock:
            is_first, self._is_open = self._is_open, False
        if not is_first:
            return
        if self._answer is not None:
            name = pb.FinishReason.Name(self._answer.finish_reason)
            reason = name.removeprefix("FINISH_REASON_").lower()
            self._span.set_attributes(answer_attributes(self._answer.usage, [reason]))
        if code is not grpc.StatusCode.OK:
            self._span.set_attribute("error.type", code.name)
            self._span.set_status(trace.StatusCode.ERROR)
        self._span.end()

    def end_of(self, call: Any) -> None:
        """End the span of a completed call with one answer."""
        if call.code() is grpc.StatusCode.OK:
            self.read(call.result())
        self.end(call.code())

    def end_with(self, error: BaseException) -> None:
        """End the span of a call that failed."""
        is_told = isinstance(error, grpc.Call | grpc.aio.AioRpcError)
        code = error.code() if is_told else None  # type: ignore[attr-defined]
        self.end(code if isinstance(code, grpc.StatusCode) else grpc.StatusCode.CANCELLED)


def _told(request: object) -> tuple[str, dict[str, Any]] | None:
    """Return the operation and the attributes of a call for answers, or ``None``."""
    match request:
        case pb.GenerateRequest():
            return operation_of(request), request_attributes(request)
        case pb.GenerateStreamRequest():
            return operation_of(request.request), request_attributes(request.request)
        case _:
            return None


class _Details(grpc.ClientCallDetails):
    """The details of a call with other metadata."""

    def __init__(self, of: Any, metadata: tuple[tuple[str, str | bytes], ...]) -> None:
        self.method = of.method
        self.timeout = of.timeout
        self.metadata = metadata
        self.credentials = of.credentials
        self.wait_for_ready = of.wait_for_ready
        self.compression = getattr(of, "compression", None)
