"""From protobuf messages to answers and outcomes."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.duration_pb2 import Duration

from guided.client.answer import Answer, Candidate
from guided.errors import InternalServiceError
from guided.spec import Alternative, FinishReason, Timing, TokenId, TokenLogprobs, Usage
from guided.v1 import generation_pb2 as pb

__all__ = ["FINISH_REASONS", "decode_answer", "decode_finish_reason", "decode_usage", "seconds_of"]

FINISH_REASONS: Mapping[pb.FinishReason.ValueType, FinishReason] = {
    pb.FINISH_REASON_COMPLETE: FinishReason.COMPLETE,
    pb.FINISH_REASON_STOP: FinishReason.STOP,
    pb.FINISH_REASON_LENGTH_CLOSED: FinishReason.LENGTH_CLOSED,
    pb.FINISH_REASON_LENGTH: FinishReason.LENGTH,
    pb.FINISH_REASON_STOP_SEQUENCE: FinishReason.STOP_SEQUENCE,
    pb.FINISH_REASON_DEADLINE_CLOSED: FinishReason.DEADLINE_CLOSED,
    pb.FINISH_REASON_DEADLINE: FinishReason.DEADLINE,
}


def decode_answer(response: pb.GenerateResponse) -> Answer[str]:
    """The answer as text, before a response model reads it."""
    return Answer(
        value=response.text,
        text=response.text,
        finish_reason=decode_finish_reason(response.finish_reason),
        usage=decode_usage(response.usage),
        seconds=seconds_of(response.duration),
        logprobs=tuple(_decode_logprobs(one) for one in response.logprobs),
        timing=_decode_timing(response.timing),
        candidates=tuple(_decode_candidate(one) for one in response.candidates),
    )


def decode_finish_reason(number: pb.FinishReason.ValueType) -> FinishReason:
    """The reason; ``InternalServiceError`` where the server knows one that this client does not."""
    reason = FINISH_REASONS.get(number)
    if reason is None:
        raise InternalServiceError(
            f"the server sent finish reason {number}, unknown to this client",
            hint="update the client to the server's version",
        )
    return reason


def decode_usage(usage: pb.Usage) -> Usage:
    """What answers cost."""
    return Usage(
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


def seconds_of(duration: Duration) -> float:
    """A time in seconds."""
    return duration.ToTimedelta().total_seconds()


def _decode_timing(timing: pb.Timing) -> Timing:
    return Timing(
        compiling_seconds=seconds_of(timing.compiling),
        waiting_seconds=seconds_of(timing.waiting),
        first_token_seconds=(
            seconds_of(timing.first_token) if timing.HasField("first_token") else None
        ),
        mean_inter_token_seconds=(
            seconds_of(timing.mean_inter_token) if timing.HasField("mean_inter_token") else None
        ),
        max_inter_token_seconds=(
            seconds_of(timing.max_inter_token) if timing.HasField("max_inter_token") else None
        ),
    )


def _decode_candidate(one: pb.Candidate) -> Candidate[str]:
    return Candidate(
        index=one.index,
        value=one.text,
        text=one.text,
        finish_reason=decode_finish_reason(one.finish_reason),
        num_tokens=one.num_tokens,
        score=one.score,
        logprobs=tuple(_decode_logprobs(each) for each in one.logprobs),
    )


def _decode_logprobs(one: pb.TokenLogprobs) -> TokenLogprobs:
    return TokenLogprobs(
        token=TokenId(one.token),
        text=one.text,
        raw=None if one.forced else one.raw,
        masked=None if one.forced else one.masked,
        top=tuple(
            Alternative(TokenId(other.token), other.text, other.raw, other.masked)
            for other in one.top
        ),
    )
