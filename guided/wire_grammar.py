"""Converts reports on constraints to protobuf messages, and back.

Names differ where a message needs the unit of a number, or a type of time.
"""

from __future__ import annotations

from typing import TypeVar

from guided.errors import InternalServiceError, RequestError
from guided.spec import CompileCost, Enforcement, GrammarInfo, SchemaReport, TextReport
from guided.v1 import generation_pb2 as pb
from guided.v1 import grammar_pb2
from guided.wire import duration_of, number_of, read, seconds_of, write

__all__ = [
    "decode_info",
    "decode_report",
    "decode_text_report",
    "encode_cost",
    "encode_info",
    "encode_report",
    "encode_text_report",
]

T = TypeVar("T", SchemaReport, TextReport)

_ENFORCEMENT = {word: number_of(word, pb.Enforcement.DESCRIPTOR) for word in Enforcement}


def encode_report(report: SchemaReport) -> pb.EnforcementReport:
    """Encode a report, without the validators of Python types."""
    # Field by field, since a report may have ten thousand of these.
    message = pb.EnforcementReport(
        verdicts=[
            pb.Verdict(
                pointer=verdict.pointer,
                enforcement=_ENFORCEMENT[verdict.enforcement],
                note=verdict.note,
                part=verdict.part,
            )
            for verdict in report.verdicts
        ]
    )
    write(report, message, without=("verdicts",))
    return message


def decode_report(message: pb.EnforcementReport) -> SchemaReport:
    """Decode the report that a server sent."""
    return _read(message, SchemaReport)


def encode_text_report(report: TextReport) -> grammar_pb2.ValidateTextResponse:
    """Encode the report on a text."""
    message = grammar_pb2.ValidateTextResponse()
    write(report, message)
    return message


def decode_text_report(message: grammar_pb2.ValidateTextResponse) -> TextReport:
    """Decode the report on a text that a server sent."""
    return _read(message, TextReport)


def _read(message: pb.EnforcementReport | grammar_pb2.ValidateTextResponse, kind: type[T]) -> T:
    try:
        return read(message, kind)
    except RequestError as error:  # a word that this version does not know
        raise InternalServiceError(
            f"the server sent what this client cannot read: {error.message}",
            hint="update the client to the server's version",
        ) from error


def encode_cost(cost: CompileCost) -> grammar_pb2.CompileCost:
    """Encode the cost of compiling a constraint."""
    return grammar_pb2.CompileCost(
        compiling=duration_of(cost.seconds), states=cost.states, memory_bytes=cost.nbytes
    )


def _decode_cost(message: grammar_pb2.CompileCost) -> CompileCost:
    return CompileCost(seconds_of(message.compiling), message.states, message.memory_bytes)


def encode_info(info: GrammarInfo) -> grammar_pb2.Grammar:
    """Encode a kept constraint, without its report."""
    return grammar_pb2.Grammar(
        constraint_id=info.constraint_id,
        size_bytes=info.nbytes,
        cost=encode_cost(info.cost),
        uses=info.uses,
    )


def decode_info(message: grammar_pb2.Grammar) -> GrammarInfo:
    """Decode a constraint that the server keeps, without its report, which is sent separately."""
    return GrammarInfo(
        constraint_id=message.constraint_id,
        nbytes=message.size_bytes,
        cost=_decode_cost(message.cost),
        uses=message.uses,
    )
