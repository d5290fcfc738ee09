"""Spans of a request, from the client's call to the engine's work, as an exporter sends them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanKind
from typing_extensions import override

from guided.errors import DeadlineExceededError
from guided.spec import DrafterUsage, FinishReason, GenerationResult, Timing, Usage
from guided.v1 import generation_pb2 as pb
from guided_service.request_record import (
    RequestRecord,
    note_admitted,
    note_answered,
    note_failure,
    recorded,
)
from guided_service.tracing import RequestTracer
from tests.service.server_process import ECHO_SERVER, serving

SECRET = "the-secret-of-the-prompt"

ASK = """
import asyncio, json, sys
import grpc
from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from guided.client import AsyncClient, Client, RawPrompt, Request
from guided.errors import GuidedError
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub

address, secret = sys.argv[1:]
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("program")

def failing(ask):
    try:
        ask()
    except GuidedError:
        return
    raise AssertionError("it did not fail")

def named(name):
    return tracer.start_as_current_span(name)

with Client(address) as client:
    with named("generate"):
        client.generate(json.dumps(secret), max_tokens=5, temperature=0.5, schema={"const": secret})
    with named("by name"):
        client.generate(secret, max_tokens=1, model="echo")
    with named("by a strange name"):
        failing(lambda: client.generate(secret, max_tokens=1, model="other"))
    with named("refused"):
        failing(lambda: client.generate(RawPrompt("refuse")))
    with named("stream"), client.stream(RawPrompt("text"), max_tokens=4) as stream:
        assert "".join(stream) == "text"
    several = {"n": 2, "temperature": 1, "max_tokens": 4}
    with named("stream of several"), client.stream(RawPrompt("text"), **several) as stream:
        assert len(list(stream.events())) > 2
    with named("given up"), client.stream(RawPrompt("a long text"), max_tokens=99999) as stream:
        next(stream)
    with named("many"):
        client.batch([Request(RawPrompt(text), max_tokens=300) for text in ("slow", "refuse")])

with grpc.insecure_channel(address) as channel, named("whole batch"):
    carrier = {}
    propagate.inject(carrier)
    asked = [pb.GenerateRequest(text=text, max_tokens=1) for text in ("a", "refuse", "c")]
    asked.append(asked[0])
    for each, name in zip(asked, ("1", "2", "3", "1")):
        each.request_id = name
    batch = GenerationServiceStub(channel).GenerateBatch
    list(batch(pb.GenerateBatchRequest(requests=asked), metadata=(*carrier.items(),)))

async def ask():
    async with AsyncClient(address) as client:
        with named("async many"):
            asked = [Request(RawPrompt(text), max_tokens=300) for text in ("slow", "refuse")]
            await client.batch(asked)
        with named("async generate"):
            await client.generate(secret, max_tokens=1)
        with named("async stream"):
            async with client.stream(RawPrompt("text"), max_tokens=4) as stream:
                assert "".join([text async for text in stream]) == "text"
        with named("async refused"):
            try:
                await client.generate(RawPrompt("refuse"))
            except GuidedError:
                pass
        with named("async given up"):
            async with client.stream(RawPrompt("a long text"), max_tokens=99999) as stream:
                await anext(stream)

asyncio.run(ask())
provider.shutdown()
"""


class Receiver(TraceServiceServicer):
    """Takes spans over the wire, as a collector does."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self._lock = threading.Lock()

    @override
    def Export(
        self, request: ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> ExportTraceServiceResponse:
        with self._lock:
            for one in request.resource_spans:
                named = {each.key: each.value.string_value for each in one.resource.attributes}
                self.services.add(named["service.name"])
                self.spans.extend(span for scope in one.scope_spans for span in scope.spans)
        return ExportTraceServiceResponse()

    def trace(self, root: str) -> list[Span]:
        """All spans of the trace whose first span has this name."""
        (first,) = [span for span in self.spans if span.name == root]
        return [span for span in self.spans if span.trace_id == first.trace_id]


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> Receiver:
    """The spans that client and server have sent after a program made all kinds of requests."""
    receiver = Receiver()
    collector = grpc.server(ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(receiver, collector)  # type: ignore[no-untyped-call]
    port = collector.add_insecure_port("127.0.0.1:0")
    collector.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        # The remaining spans are sent when the server ends, so none need be sent early.
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
        with serving(ECHO_SERVER, tmp_path_factory.mktemp("traces") / "log") as server:
            command = [sys.executable, "-c", ASK, server.address, SECRET]
            asked = subprocess.run(command, capture_output=True, text=True, check=False)
            assert asked.returncode == 0, asked.stderr
            server.ask_to_stop()
            assert server.wait(30) == 0
    collector.stop(None)
    return receiver


def attributes_of(span: Span) -> dict[str, Any]:
    told = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value") or "string_value"
        value = getattr(each.value, kind)
        told[each.key] = (
            [one.string_value for one in value.values] if kind == "array_value" else value
        )
    return told


def inside(parent: Span, spans: list[Span]) -> dict[str, Span]:
    return {span.name: span for span in spans if span.parent_span_id == parent.span_id}


def kinds(spans: list[Span]) -> dict[str, Span]:
    """The client's and the server's span of a call."""
    found = {span.kind: span for span in spans}
    return {"client": found[Span.SPAN_KIND_CLIENT], "server": found[Span.SPAN_KIND_SERVER]}


@pytest.mark.parametrize("name", ["generate", "stream", "async generate", "async stream"])
def test_a_call_is_one_trace_from_client_to_engine(received: Receiver, name: str) -> None:
    spans = received.trace(name)
    (root,) = [span for span in spans if span.name == name]
    both = kinds(spans)
    assert both["client"].parent_span_id == root.span_id
    assert both["server"].parent_span_id == both["client"].span_id
    operation = "text_completion" if "stream" in name else "chat"
    assert both["client"].name == operation
    assert both["server"].name == f"{operation} echo"
    parts = inside(both["server"], spans)
    assert parts.keys() == {"queue", "engine"}
    # The engine of the tests reports no first token, so there is neither prefill nor decode.
    assert inside(parts["engine"], spans).keys() == {"compile", "wait", "verify", "mask"}
    for span in both.values():
        told = attributes_of(span)
        assert told["gen_ai.operation.name"] == operation
        assert told["gen_ai.usage.input_tokens"] == 1
        assert told["gen_ai.usage.output_tokens"] == 7
        assert told["gen_ai.response.finish_reasons"] == ["stop"]
        assert span.status.code == Status.STATUS_CODE_UNSET
        assert span.start_time_unix_nano < span.end_time_unix_nano


def test_a_stream_of_several_answers_is_one_call(received: Receiver) -> None:
    spans = received.trace("stream of several")
    both = kinds(spans)
    assert both["server"].parent_span_id == both["client"].span_id
    assert attributes_of(both["server"])["gen_ai.response.finish_reasons"] == ["stop", "stop"]
    for span in both.values():
        assert attributes_of(span)["gen_ai.usage.output_tokens"] == 7
        assert span.status.code == Status.STATUS_CODE_UNSET


def test_a_span_tells_what_was_asked_for(received: Receiver) -> None:
    both = kinds(received.trace("generate"))
    for span in both.values():
        told = attributes_of(span)
        assert told["gen_ai.request.max_tokens"] == 5
        assert told["gen_ai.request.temperature"] == 0.5
        assert told["gen_ai.output.type"] == "json"
        assert told["guided.constraint.kind"] == "json_schema"
        assert told["rpc.method"] == "guided.v1.GenerationService/Generate"
    assert attributes_of(both["server"])["gen_ai.request.model"] == "echo"
    assert len(attributes_of(both["server"])["gen_ai.response.id"]) == 32


def test_a_model_that_is_asked_for_is_told_on_both_sides(received: Receiver) -> None:
    for span in kinds(received.trace("by name")).values():
        assert span.name == "chat echo"
        assert attributes_of(span)["gen_ai.request.model"] == "echo"
    both = kinds(received.trace("by a strange name"))
    # Names that callers make up are no names of spans, because there should be few of these.
    assert (both["client"].name, both["server"].name) == ("chat other", "chat")
    for span in both.values():
        assert attributes_of(span)["gen_ai.request.model"] == "other"


@pytest.mark.parametrize("name", ["refused", "async refused"])
def test_a_refusal_is_an_error_on_both_sides(received: Receiver, name: str) -> None:
    both = kinds(received.trace(name))
    assert {span.status.code for span in both.values()} == {Status.STATUS_CODE_ERROR}
    assert attributes_of(both["client"])["error.type"] == "INVALID_ARGUMENT"
    assert attributes_of(both["server"])["error.type"] == "INVALID_CONSTRAINT"


@pytest.mark.parametrize("name", ["given up", "async given up"])
def test_a_stream_that_is_given_up_ends_its_spans(received: Receiver, name: str) -> None:
    both = kinds(received.trace(name))
    assert {attributes_of(span)["error.type"] for span in both.values()} == {"CANCELLED"}


@pytest.mark.parametrize("name", ["many", "async many"])
def test_the_requests_of_a_batch_are_calls_side_by_side(received: Receiver, name: str) -> None:
    spans = received.trace(name)
    calls = [span for span in spans if span.kind == Span.SPAN_KIND_CLIENT]
    (root,) = [span for span in spans if span.name == name]
    assert [span.parent_span_id for span in calls] == [root.span_id] * 2
    calls.sort(key=lambda span: span.status.code)
    slow, refused = calls
    assert attributes_of(slow)["gen_ai.usage.output_tokens"] == 7
    assert refused.status.code == Status.STATUS_CODE_ERROR
    assert refused.start_time_unix_nano < slow.end_time_unix_nano
    assert [inside(call, spans).keys() for call in calls] == [{"text_completion echo"}] * 2


def test_each_request_of_a_whole_batch_has_a_span_inside_of_the_call(received: Receiver) -> None:
    spans = received.trace("whole batch")
    (whole,) = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
    assert whole.name == "batch echo"
    items = [span for span in spans if span.parent_span_id == whole.span_id]
    assert {span.name for span in items} == {"text_completion echo"}
    found = {attributes_of(span)["guided.batch.index"]: span for span in items}
    assert sorted(found) == [0, 1, 2, 3]
    ids = [attributes_of(found[index])["gen_ai.response.id"] for index in range(4)]
    assert ids == ["1", "2", "3", "1"]
    assert inside(found[0], spans).keys() == {"queue", "engine"}
    assert found[1].status.code == Status.STATUS_CODE_ERROR
    assert inside(found[1], spans).keys() == {"queue"}
    # The same request again; its answer was made only once.
    assert attributes_of(found[3])["guided.is_repeat"]
    assert inside(found[3], spans) == {}


def test_nothing_of_a_prompt_or_an_answer_is_sent(received: Receiver) -> None:
    assert received.services == {"guided", "unknown_service:python"}
    sent = b"".join(span.SerializeToString() for span in received.spans)
    assert SECRET.encode() not in sent
    assert b"a long text" not in sent


def test_names_are_those_of_the_conventions(received: Receiver) -> None:
    known = {
        value for value in vars(gen_ai_attributes).values() if isinstance(value, str)
    }  # fmt: skip
    told = {name for span in received.spans for name in attributes_of(span)}
    assert {name for name in told if name.startswith("gen_ai.")} <= known


# The times that an engine reports


def traced(result: GenerationResult | None, *, begun: float = 10.0) -> dict[str, ReadableSpan]:
    """The spans of a request that waited a while for its place, and had its answer at once."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = RequestTracer(provider, lambda _: "model")
    record = RequestRecord("guided.v1.GenerationService", "Generate", "peer", "chat", "regex")
    record.began = type(record.began)(record.began.monotonic - begun, record.began.nanoseconds)
    with tracer.tracing(record, pb.GenerateRequest(), {}), recorded(record):
        note_admitted()
        if result is None:
            note_failure(DeadlineExceededError("too late"), "DEADLINE_EXCEEDED")
        else:
            note_answered(result)
    return {span.name + _drafter(span): span for span in exporter.get_finished_spans()}


def _drafter(span: ReadableSpan) -> str:
    named: Mapping[str, Any] = span.attributes or {}
    return f" {named['guided.drafter']}" if "guided.drafter" in named else ""


def seconds(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e9


def test_the_times_of_an_answer_become_spans() -> None:
    usage = Usage(
        target_nanoseconds=3_000_000_000,
        mask_nanoseconds=200_000_000,
        by_drafter=(
            DrafterUsage("lookup", draft_nanoseconds=50_000_000, drafted_tokens=9),
            DrafterUsage("suffix", draft_nanoseconds=70_000_000),
        ),
    )
    timing = Timing(compiling_seconds=1.0, waiting_seconds=0.5, first_token_seconds=2.25)
    spans = traced(GenerationResult("x", (), FinishReason.STOP, usage, seconds=6.0, timing=timing))
    expected = {
        "queue": 10.0,
        "engine": 6.0,
        "compile": 1.0,
        "wait": 0.5,
        "prefill": 0.75,
        "decode": 3.75,
        "verify": 3.0,
        "draft lookup": 0.05,
        "draft suffix": 0.07,
        "mask": 0.2,
    }
    assert spans.keys() == {*expected, "chat model"}
    for name, length in expected.items():
        assert seconds(spans[name]) == pytest.approx(length, abs=0.5 if name == "queue" else 1e-3)
    order = ["engine", "compile", "wait", "prefill", "decode"]
    starts = [spans[name].start_time or 0 for name in order]
    assert starts == sorted(starts)
    assert spans["verify"].start_time == spans["prefill"].start_time
    for before, after in (("verify", "draft lookup"), ("draft suffix", "mask")):
        assert spans[before].end_time == pytest.approx(spans[after].start_time, abs=2)
    sums = {name for name, span in spans.items() if (span.attributes or {}).get("guided.is_sum")}
    assert sums == {"verify", "draft lookup", "draft suffix", "mask"}
    whole = spans["chat model"]
    assert whole.kind is SpanKind.SERVER
    assert whole.end_time == pytest.approx(spans["engine"].end_time, abs=5e8)


def test_a_request_that_failed_has_the_spans_of_what_is_known() -> None:
    spans = traced(None)
    assert spans.keys() == {"queue", "chat model"}
    told: Mapping[str, Any] = spans["chat model"].attributes or {}
    assert told["error.type"] == "DEADLINE_EXCEEDED"


@pytest.mark.parametrize("header", ["baggage", "tracestate", "traceparent"])
def test_headers_of_traces_cause_no_warning_whoever_sends_them(
    header: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning would quote them, and the log would have what strangers write."""
    provider = TracerProvider()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    record = RequestRecord("guided.v1.GenerationService", "Generate", "peer", "chat")
    carrier = {"traceparent": parent, header: "a=\x1b[2J\n{} " * 2_500}
    with RequestTracer(provider, lambda _: "m").tracing(record, None, carrier), recorded(record):
        pass
    assert not caplog.records
    assert (record.trace_id == "0af7651916cd43dd8448eb211c80319c") == (header != "traceparent")


MODELS = {"": "small", "small": "small", "large": "large"}
"""The model that answers, by the name in a request; the first one if none is named."""


@pytest.mark.parametrize(
    ("asked", "name", "models"),
    [
        ("", "chat small", ("small", "small")),
        ("large", "chat large", ("large", "large")),
        ("other", "chat", ("other", None)),
        (None, "chat", (None, None)),
    ],
)
def test_of_several_models_the_one_that_answers_is_told(
    asked: str | None, name: str, models: tuple[str | None, ...]
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = RequestTracer(provider, lambda by: None if by is None else MODELS.get(by))
    record = RequestRecord("guided.v1.GenerationService", "Generate", "peer", "chat")
    request = None if asked is None else pb.GenerateRequest(model=asked)
    with tracer.tracing(record, None, {}), recorded(record):
        tracer.note_message(record, request)
    (span,) = exporter.get_finished_spans()
    told: Mapping[str, Any] = span.attributes or {}
    assert span.name == name
    assert (told.get("gen_ai.request.model"), told.get("gen_ai.response.model")) == models


def test_the_clock_of_a_record_reaches_into_the_epoch() -> None:
    record = RequestRecord("service", "method", "peer", "chat")
    now = record.began.at(time.monotonic())
    assert abs(now - time.time_ns()) < 60e9
