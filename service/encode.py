"""Encodes results and engine statistics as protobuf messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Final

from guided.spec import CandidateResult, GenerationResult, PromptTokens, SchemaReport, TokenLogprobs
from guided.stats import ConstraintStats, EngineStats, ModelInfo
from guided.v1 import generation_pb2 as pb
from guided.v1 import model_pb2
from guided.wire import duration_of, number_of, write
from guided.wire_grammar import encode_report
from guided_service.call_reader import CallReader, ReaderOf, calls_in

__all__ = [
    "encode_model",
    "encode_prompt_tokens",
    "encode_result",
    "encode_stats",
]

NO_IDS: Final[Mapping[int, Sequence[str]]] = MappingProxyType({})


def encode_result(
    result: GenerationResult,
    report: SchemaReport | None = None,
    reader: ReaderOf | None = None,
    call_ids: Mapping[int, Sequence[str]] = NO_IDS,
) -> pb.GenerateResponse:
    """Encode one answer, with the report if it was requested.

    ``reader`` makes readers of answers if the request gave tools. ``call_ids`` are those of calls
    that were streamed, by the number of their answer; the other calls get new ones.
    """
    message = pb.GenerateResponse(
        duration=duration_of(result.seconds),
        logprobs=map(_encode_logprobs, result.logprobs),
        candidates=map(_encode_candidate, result.candidates),
        report=None if report is None else encode_report(report),
    )
    write(result, message, without=("timing", "logprobs", "candidates"))
    for each in fields(result.timing):
        if (seconds := getattr(result.timing, each.name)) is not None:
            name = each.name.removesuffix("_seconds")
            getattr(message.timing, name).CopyFrom(duration_of(seconds))
    if reader is not None:
        for candidate in message.candidates:
            _tell_calls(candidate, reader(), call_ids.get(candidate.index, ()))
        first = message.candidates[0].index if message.candidates else 0
        _tell_calls(message, reader(), call_ids.get(first, ()))
    return message


def _tell_calls(
    told: pb.GenerateResponse | pb.Candidate, reader: CallReader, ids: Sequence[str]
) -> None:
    told.content, calls = calls_in(told.text, reader, ids)
    told.text = reader.shown(told.text)
    # A call that a stop string or token cuts off stays text: its arguments may not be valid JSON.
    for call in calls[: reader.num_ended]:
        write(call, told.tool_calls.add())


def _encode_candidate(candidate: CandidateResult) -> pb.Candidate:
    message = pb.Candidate(
        num_tokens=len(candidate.tokens), logprobs=map(_encode_logprobs, candidate.logprobs)
    )
    write(candidate, message, without=("logprobs",))
    return message


def _encode_logprobs(one: TokenLogprobs) -> pb.TokenLogprobs:
    # Field by field, since an answer may have twenty thousand of these.
    return pb.TokenLogprobs(
        token=one.token,
        text=one.text,
        raw=one.raw,
        masked=one.masked,
        forced=one.is_forced,
        top=[
            pb.Alternative(token=other.token, text=other.text, raw=other.raw, masked=other.masked)
            for other in one.top
        ],
    )


def encode_model(model: ModelInfo) -> model_pb2.Model:
    """Encode a model."""
    message = model_pb2.Model()
    write(model, message)
    return message


def encode_prompt_tokens(found: PromptTokens) -> model_pb2.TokenizeResponse:
    """Encode the tokens of a prompt."""
    return model_pb2.TokenizeResponse(tokens=found.tokens, texts=found.texts)


def encode_stats(stats: EngineStats) -> model_pb2.EngineStats:
    """Encode the statistics of an engine at one moment."""
    message = model_pb2.EngineStats(uptime=duration_of(stats.seconds))
    write(stats, message, without=("answered", "phases", "constraints", "submitted"))
    for reason, count in stats.answered.items():
        number = number_of(reason, pb.FinishReason.DESCRIPTOR)
        message.answered.add(finish_reason=number, count=count)
    for phase, seconds in stats.phases.items():
        number = number_of(phase, model_pb2.Phase.DESCRIPTOR)
        message.phases.add(phase=number, time=duration_of(seconds))
    for kind, count in stats.submitted.items():
        number = number_of(kind, model_pb2.ConstraintKind.DESCRIPTOR)
        message.submitted.add(constraint=number, count=count)
    _encode_constraints(stats.constraints, message.constraints)
    return message


def _encode_constraints(stats: ConstraintStats, message: model_pb2.ConstraintStats) -> None:
    write(stats, message, without=("compilations",))
    for outcome, count in stats.compilations.items():
        number = number_of(outcome, model_pb2.CompileOutcome.DESCRIPTOR)
        time = duration_of(stats.compile_seconds[outcome])
        message.compilations.add(outcome=number, count=count, time=time)
