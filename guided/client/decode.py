"""From protobuf messages to answers and outcomes."""

from __future__ import annotations

from collections.abc import Mapping

from guided.client.answer import Answer, Candidate
from guided.errors import InternalServiceError
from guided.spec import Alternative, FinishReason, TokenId, TokenLogprobs, Usage
from guided.v1 import generation_pb2 as pb

__all__ = ["FINISH_REASONS", "decode_answer"]

FINISH_REASONS: Mapping[pb.FinishReason.ValueType, FinishReason] = {
    pb.FINISH_REASON_COMPLETE: FinishReason.COMPLETE,
    pb.FINISH_REASON_STOP: FinishReason.STOP,
    pb.FINISH_REASON_LENGTH_CLOSED: FinishReason.LENGTH_CLOSED,
    pb.FINISH_REASON_LENGTH: FinishReason.LENGTH,
    pb.FINISH_REASON_STOP_SEQUENCE: FinishReason.STOP_SEQUENCE,
}


def decode_answer(response: pb.GenerateResponse) -> Answer[str]:
    """The answer as text, before a response model reads it."""
    return Answer(
        value=response.text,
        text=response.text,
        finish_reason=_decode_reason(response.finish_reason),
        usage=Usage(
            prompt_tokens=response.usage.prompt_tokens,
            sampled_tokens=response.usage.sampled_tokens,
            forced_tokens=response.usage.forced_tokens,
            model_calls=response.usage.model_calls,
            drafted_tokens=response.usage.drafted_tokens,
            accepted_tokens=response.usage.accepted_tokens,
            drafted_calls=response.usage.drafted_calls,
            corrected_calls=response.usage.corrected_calls,
            reused_tokens=response.usage.reused_tokens,
            shared_tokens=response.usage.shared_tokens,
            copied_tokens=response.usage.copied_tokens,
        ),
        seconds=response.duration.ToTimedelta().total_seconds(),
        logprobs=tuple(_decode_logprobs(one) for one in response.logprobs),
        candidates=tuple(_decode_candidate(one) for one in response.candidates),
    )


def _decode_candidate(one: pb.Candidate) -> Candidate[str]:
    return Candidate(
        index=one.index,
        value=one.text,
        text=one.text,
        finish_reason=_decode_reason(one.finish_reason),
        num_tokens=one.num_tokens,
        score=one.score,
        logprobs=tuple(_decode_logprobs(each) for each in one.logprobs),
    )


def _decode_reason(number: pb.FinishReason.ValueType) -> FinishReason:
    reason = FINISH_REASONS.get(number)
    if reason is None:
        raise InternalServiceError(
            f"the server sent finish reason {number}, unknown to this client",
            hint="update the client to the server's version",
        )
    return reason


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
