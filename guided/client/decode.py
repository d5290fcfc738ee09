"""Decodes protobuf messages into answers and engine statistics."""

from __future__ import annotations

from dataclasses import fields

from guided.client.answer import Answer, Candidate
from guided.errors import InternalServiceError
from guided.spec import (
    Alternative,
    FinishReason,
    PromptTokens,
    Timing,
    TokenId,
    TokenLogprobs,
    ToolCall,
    Usage,
    Verification,
)
from guided.spec.constraint_kind import ConstraintKind
from guided.stats import CompileOutcome, ConstraintStats, EngineStats, ModelInfo, Phase
from guided.v1 import generation_pb2 as pb
from guided.v1 import model_pb2
from guided.wire import Descriptor, Word, member_of, read, seconds_of
from guided.wire_grammar import decode_report

__all__ = [
    "decode_answer",
    "decode_end",
    "decode_model",
    "decode_prompt_tokens",
    "decode_stats",
]


def decode_answer(response: pb.GenerateResponse, request_id: str = "") -> Answer[str]:
    """Decode an answer, with its text as value, before a response model reads it."""
    return Answer(
        value=response.text,
        text=response.text,
        finish_reason=_finish_reason(response.finish_reason),
        usage=read(response.usage, Usage),
        seconds=seconds_of(response.duration),
        logprobs=tuple(map(_decode_logprobs, response.logprobs)),
        timing=_decode_timing(response.timing),
        candidates=tuple(map(_decode_candidate, response.candidates)),
        verification=_verification(response.verification),
        request_id=request_id,
        tool_calls=_decode_calls(response),
        content=response.content,
        reasoning=response.reasoning,
        stop_string=response.stop_string,
        report=decode_report(response.report) if response.HasField("report") else None,
    )


def decode_end(end: pb.AnswerEnd, index: int, text: str) -> Candidate[str]:
    """Decode the end of a streamed answer, with its text and without its thoughts and calls."""
    return Candidate(
        index=index,
        value=text,
        text=text,
        finish_reason=_finish_reason(end.finish_reason),
        num_tokens=end.num_tokens,
        score=end.score if end.HasField("score") else None,
        usage=_own_usage(end),
        stop_string=end.stop_string,
    )


def decode_model(model: model_pb2.Model) -> ModelInfo:
    """Decode the model that a server has loaded."""
    return read(model, ModelInfo)


def decode_prompt_tokens(response: model_pb2.TokenizeResponse) -> PromptTokens:
    """Decode the tokens of a prompt."""
    return PromptTokens(tuple(map(TokenId, response.tokens)), tuple(response.texts))


def decode_stats(stats: model_pb2.EngineStats) -> EngineStats:
    """Decode the statistics of an engine at one moment."""
    return read(
        stats,
        EngineStats,
        seconds=seconds_of(stats.uptime),
        phases={_phase(each.phase): seconds_of(each.time) for each in stats.phases},
        answered={_finish_reason(one.finish_reason): one.count for one in stats.answered},
        constraints=_decode_constraints(stats.constraints),
        submitted={_kind(one.constraint): one.count for one in stats.submitted},
    )


def _decode_constraints(stats: model_pb2.ConstraintStats) -> ConstraintStats:
    ended = {_outcome(one.outcome): one for one in stats.compilations}
    return read(
        stats,
        ConstraintStats,
        compilations={outcome: one.count for outcome, one in ended.items()},
        compile_seconds={outcome: seconds_of(one.time) for outcome, one in ended.items()},
    )


def _decode_timing(timing: pb.Timing) -> Timing:
    known = {descriptor.name: value for descriptor, value in timing.ListFields()}
    names = {each.name: each.name.removesuffix("_seconds") for each in fields(Timing)}
    return Timing(
        **{name: seconds_of(known[short]) for name, short in names.items() if short in known}
    )


def _decode_candidate(one: pb.Candidate) -> Candidate[str]:
    return Candidate(
        index=one.index,
        value=one.text,
        text=one.text,
        finish_reason=_finish_reason(one.finish_reason),
        num_tokens=one.num_tokens,
        score=one.score,
        logprobs=tuple(map(_decode_logprobs, one.logprobs)),
        tool_calls=_decode_calls(one),
        content=one.content,
        reasoning=one.reasoning,
        usage=_own_usage(one),
        stop_string=one.stop_string,
    )


def _own_usage(told: pb.Candidate | pb.AnswerEnd) -> Usage | None:
    return read(told.usage, Usage) if told.HasField("usage") else None


def _decode_calls(told: pb.GenerateResponse | pb.Candidate) -> tuple[ToolCall, ...]:
    return tuple(read(call, ToolCall) for call in told.tool_calls)


def _decode_logprobs(one: pb.TokenLogprobs) -> TokenLogprobs:
    # Field by field, since an answer may have twenty thousand of these.
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


def _finish_reason(number: int) -> FinishReason:
    return _known(FinishReason, pb.FinishReason.DESCRIPTOR, number, "finish reason")


def _verification(number: int) -> Verification:
    # A server from before this choice existed does not set it.
    if number == pb.VERIFICATION_UNSPECIFIED:
        return Verification.COUPLED
    return _known(Verification, pb.Verification.DESCRIPTOR, number, "verification")


def _phase(number: int) -> Phase:
    return _known(Phase, model_pb2.Phase.DESCRIPTOR, number, "phase")


def _outcome(number: int) -> CompileOutcome:
    return _known(CompileOutcome, model_pb2.CompileOutcome.DESCRIPTOR, number, "outcome")


def _kind(number: int) -> ConstraintKind:
    return _known(ConstraintKind, model_pb2.ConstraintKind.DESCRIPTOR, number, "constraint kind")


def _known(kind: type[Word], enumeration: Descriptor, number: int, what: str) -> Word:
    member = member_of(kind, enumeration, number)
    if member is None:
        raise InternalServiceError(
            f"the server sent {what} {number}, unknown to this client",
            hint="update the client to the server's version",
        )
    return member
