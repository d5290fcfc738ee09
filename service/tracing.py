"""Makes OpenTelemetry spans of a server's requests, if the environment requests them.

docs/observability.md draws them. The engine measures all of their times anyway, and reports them
with its answer. So the spans are made here, when the answer has come: the engine's process has
neither an exporter nor its thread, and steps cost nothing extra.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final, TypeAlias

from opentelemetry import propagate, trace
from opentelemetry.context import Context

from guided.extras import DISTRIBUTION
from guided.spec import Timing, Usage
from guided.telemetry import TRACER_NAME, Attributes, answer_attributes, request_attributes
from guided.v1 import generation_pb2 as pb
from guided_service.request_record import OK, RequestRecord

__all__ = ["ModelName", "RequestTracer"]

ModelName: TypeAlias = Callable[[str | None], str | None]
"""Maps the model name in a request (``""`` for none, ``None`` for what is no single request) to the
name of the model that answers, if it is known."""


_MOST_CHARACTERS: Final = 512
"""Of a header about a trace: what W3C's Trace Context asks of all who pass ``tracestate`` on."""


class RequestTracer:
    """Makes the spans of requests; the provider decides where they go."""

    def __init__(self, provider: trace.TracerProvider, model_name: ModelName) -> None:
        self._tracer = provider.get_tracer(TRACER_NAME, version(DISTRIBUTION))
        self._model_name = model_name

    @contextmanager
    def tracing(
        self,
        record: RequestRecord,
        request: pb.GenerateRequest | None,
        carrier: Mapping[str, str] | None,
    ) -> Iterator[None]:
        """Give a request its span, and the spans of its parts once it has ended.

        ``carrier`` is the metadata of a call, which may name its caller's span; without it the
        request belongs to the current trace.
        """
        model = self._answering(request)
        span = self._tracer.start_span(
            _name(record, model),
            None if carrier is None else propagate.extract(_trace_headers(carrier)),
            trace.SpanKind.INTERNAL if carrier is None else trace.SpanKind.SERVER,
            _begun(record, request, model),
            start_time=record.began.nanoseconds,
        )
        if span.get_span_context().is_valid:
            record.trace_id = trace.format_trace_id(span.get_span_context().trace_id)
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield
        finally:
            if span.is_recording():
                self._tell(span, record)
            assert record.ended is not None, "the request has not ended"
            span.end(record.began.at(record.ended))

    def note_message(self, record: RequestRecord, request: pb.GenerateRequest | None) -> None:
        """Add to the running task's span what the message requests."""
        span, model = trace.get_current_span(), self._answering(request)
        span.update_name(_name(record, model))
        span.set_attributes(_begun(record, request, model))

    def _answering(self, request: pb.GenerateRequest | None) -> str | None:
        return self._model_name(None if request is None else request.model)

    def _tell(self, span: trace.Span, record: RequestRecord) -> None:
        """Add to a span what is known at the end of a request, and make the spans of its parts."""
        if record.usage is not None:
            span.set_attributes(answer_attributes(record.usage, record.finish_reasons))
        if record.client is not None:
            span.set_attribute("enduser.id", record.client)
        if record.status != OK:
            span.set_attribute("error.type", record.error or record.status)
            if record.route is None:
                span.set_attribute("rpc.response.status_code", record.status)
            span.set_status(trace.StatusCode.ERROR)
        if record.is_repeat:  # its parts belong to another call
            span.set_attribute("guided.is_repeat", True)
            return
        if record.constraint is None:  # each request of a batch has its own parts
            return
        within = trace.set_span_in_context(span)
        until = record.ended if record.admitted is None else record.admitted
        assert until is not None, "the request has not ended"
        self._part("queue", record, within, record.began.monotonic, until)
        usage, timing, seconds = record.usage, record.timing, record.engine_seconds
        if usage is not None and timing is not None and seconds is not None:
            self._tell_of_engine(record, within, usage, timing, seconds)

    def _tell_of_engine(
        self, record: RequestRecord, within: Context, usage: Usage, timing: Timing, seconds: float
    ) -> None:
        assert record.answered is not None, "there are times of an answer that never came"
        # The engine reports durations only, so take its end as the moment its answer arrived here.
        ended = record.answered
        taken = ended - seconds
        queued = taken + timing.compiling_seconds
        started = queued + timing.waiting_seconds
        engine = self._tracer.start_span("engine", within, start_time=record.began.at(taken))
        inside = trace.set_span_in_context(engine)
        self._part("compile", record, inside, taken, queued)
        self._part("wait", record, inside, queued, started)
        if timing.first_token_seconds is not None:
            first = taken + timing.first_token_seconds
            self._part("prefill", record, inside, started, first)
            self._part("decode", record, inside, first, ended)
        at = started
        for name, total, attributes in _sums(usage):
            told: Attributes = {"guided.is_sum": True, **attributes}
            self._part(name, record, inside, at, at + total, told)
            at += total
        engine.end(record.began.at(ended))

    def _part(
        self,
        name: str,
        record: RequestRecord,
        within: Context,
        start: float,
        end: float,
        attributes: Attributes | None = None,
    ) -> None:
        """Make a finished span from moments of the monotonic clock."""
        at = record.began.at
        span = self._tracer.start_span(name, within, attributes=attributes, start_time=at(start))
        span.end(at(end))


def _trace_headers(carrier: Mapping[str, str]) -> dict[str, str]:
    """Return the headers by which the propagators in use find the caller's span.

    Anybody may send them, and a propagator may quote them in warnings: so long ones are left out,
    and baggage, which no span here shows.
    """
    fields = propagate.get_global_textmap().fields - {"baggage"}
    return {
        name: value
        for name in fields
        if (value := carrier.get(name)) is not None and len(value) <= _MOST_CHARACTERS
    }


def _name(record: RequestRecord, model: str | None) -> str:
    return record.operation if model is None else f"{record.operation} {model}"


def _begun(
    record: RequestRecord, request: pb.GenerateRequest | None, model: str | None
) -> Attributes:
    """Return the attributes that are known when a request arrives."""
    told: Attributes = {
        "gen_ai.operation.name": record.operation,
        "gen_ai.provider.name": "guided",
        "gen_ai.response.id": record.request_id,
        "client.address": record.peer,
    }
    if record.route is None:
        told |= {"rpc.system.name": "grpc", "rpc.method": f"{record.service}/{record.method}"}
    else:
        told |= {"http.request.method": "POST", "http.route": record.route}
    if request is not None:
        told |= request_attributes(request)
    if model is not None:
        told = {"gen_ai.request.model": model, **told, "gen_ai.response.model": model}
    if record.index is not None:
        told["guided.batch.index"] = record.index
    return told


def _sums(usage: Usage) -> Iterator[tuple[str, float, Attributes]]:
    """Yield the summed times of a request's steps: its share of model calls, drafts, and masks."""
    yield "verify", usage.target_seconds, {"guided.model_calls": usage.model_calls}
    for each in usage.by_drafter:
        told: Attributes = {
            "guided.drafter": each.name,
            "guided.drafted_tokens": each.drafted_tokens,
            "guided.accepted_tokens": each.accepted_tokens,
        }
        yield "draft", each.draft_seconds, told
    yield "mask", usage.mask_seconds, {}
