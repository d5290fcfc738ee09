"""From results and errors to protobuf messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from guided.spec import (
    CandidateResult,
    FinishReason,
    GenerationResult,
    Timing,
    TokenLogprobs,
    Usage,
)
from guided.v1 import generation_pb2 as pb

__all__ = [
    "FINISH_REASONS",
    "encode_duration",
    "encode_event",
    "encode_result",
    "encode_usage",
]

FINISH_REASONS: Mapping[FinishReason, pb.FinishReason.ValueType] = {
    FinishReason.COMPLETE: pb.FINISH_REASON_COMPLETE,
    FinishReason.STOP: pb.FINISH_REASON_STOP,
    FinishReason.LENGTH_CLOSED: pb.FINISH_REASON_LENGTH_CLOSED,
    FinishReason.LENGTH: pb.FINISH_REASON_LENGTH,
    FinishReason.STOP_SEQUENCE: pb.FINISH_REASON_STOP_SEQUENCE,
    FinishReason.DEADLINE_CLOSED: pb.FINISH_REASON_DEADLINE_CLOSED,
    FinishReason.DEADLINE: pb.FINISH_REASON_DEADLINE,
}


def encode_event(event: str | GenerationResult) -> pb.GenerateStreamResponse:
    """The message of some text, or of the answer that ends a stream."""
    if isinstance(event, str):
        return pb.GenerateStreamResponse(delta=event)
    return pb.GenerateStreamResponse(answer=encode_result(event))


def encode_result(result: GenerationResult) -> pb.GenerateResponse:
    """The message of one answer."""
    return pb.GenerateResponse(
        text=result.text,
        finish_reason=FINISH_REASONS[result.finish_reason],
        usage=encode_usage(result.usage),
        duration=encode_duration(result.seconds),
        logprobs=[_encode_logprobs(one) for one in result.logprobs],
        timing=_encode_timing(result.timing),
        candidates=[_encode_candidate(one) for one in result.candidates],
    )


def _encode_candidate(one: CandidateResult) -> pb.Candidate:
    return pb.Candidate(
        index=one.index,
        text=one.text,
        finish_reason=FINISH_REASONS[one.finish_reason],
        num_tokens=len(one.tokens),
        score=one.score,
        logprobs=[_encode_logprobs(each) for each in one.logprobs],
    )


def encode_usage(usage: Usage) -> pb.Usage:
    """The message of what answers cost."""
    return pb.Usage(
        prompt_tokens=usage.prompt_tokens,
        sampled_tokens=usage.sampled_tokens,
        forced_tokens=usage.forced_tokens,
        model_calls=usage.model_calls,
        drafted_tokens=usage.drafted_tokens,
        accepted_tokens=usage.accepted_tokens,
        drafted_calls=usage.drafted_calls,
        corrected_calls=usage.corrected_calls,
        reused_tokens=usage.reused_tokens,
        shared_tokens=usage.shared_tokens,
        copied_tokens=usage.copied_tokens,
    )


def encode_duration(seconds: float) -> Duration:
    """The message of a time, to the microsecond."""
    duration = Duration()
    duration.FromTimedelta(timedelta(seconds=seconds))
    return duration


def _encode_timing(timing: Timing) -> pb.Timing:
    return pb.Timing(
        compiling=encode_duration(timing.compiling_seconds),
        waiting=encode_duration(timing.waiting_seconds),
        first_token=_encode_known(timing.first_token_seconds),
        mean_inter_token=_encode_known(timing.mean_inter_token_seconds),
        max_inter_token=_encode_known(timing.max_inter_token_seconds),
    )


def _encode_known(seconds: float | None) -> Duration | None:
    return None if seconds is None else encode_duration(seconds)


def _encode_logprobs(one: TokenLogprobs) -> pb.TokenLogprobs:
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
