"""From protobuf messages to requests, refusing what this server does not know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.unknown_fields import UnknownFieldSet

from guided.errors import InvalidConstraintError, RequestError
from guided.naming import naming
from guided.spec import (
    Beams,
    Choice,
    Constraint,
    Ebnf,
    Forcing,
    GenerationRequest,
    JsonSchema,
    Lark,
    Message,
    OnIncomplete,
    Rank,
    Regex,
    Sampling,
    Structure,
    TokenId,
)
from guided.spec.composition import AnyOf, Repeat, Sequence, Template, Text
from guided.spec.tagged import Calls, FreeText, Tag, Tagged, Until
from guided.v1 import generation_pb2 as pb
from guided_service.decode_options import decode_json_options, decode_regex_dialect

__all__ = ["DEFAULT_MAX_TOKENS", "FORCING", "decode_request", "refuse_unknown_fields"]

DEFAULT_MAX_TOKENS = 256

FORCING: Mapping[pb.Forcing.ValueType, Forcing] = {
    pb.FORCING_UNSPECIFIED: Forcing.CANONICAL,
    pb.FORCING_OFF: Forcing.OFF,
    pb.FORCING_STRICT: Forcing.STRICT,
    pb.FORCING_CANONICAL: Forcing.CANONICAL,
}


_RANKS: Mapping[pb.Rank.ValueType, Rank] = {
    pb.RANK_UNSPECIFIED: Rank.LIKELIHOOD,
    pb.RANK_LIKELIHOOD: Rank.LIKELIHOOD,
    pb.RANK_REWARD: Rank.REWARD,
}


_ON_INCOMPLETE: Mapping[pb.OnIncomplete.ValueType, OnIncomplete] = {
    pb.ON_INCOMPLETE_UNSPECIFIED: OnIncomplete.CLOSE,
    pb.ON_INCOMPLETE_CLOSE: OnIncomplete.CLOSE,
    pb.ON_INCOMPLETE_ERROR: OnIncomplete.ERROR,
}


_CALLS: Mapping[pb.Calls.ValueType, Calls] = {
    pb.CALLS_UNSPECIFIED: Calls.AUTO,
    pb.CALLS_AUTO: Calls.AUTO,
    pb.CALLS_REQUIRED: Calls.REQUIRED,
    pb.CALLS_NONE: Calls.NONE,
}


def decode_request(message: pb.GenerateRequest) -> GenerationRequest:
    """The request that a message stands for; whatever is wrong with it raises ``RequestError``."""
    refuse_unknown_fields(message)
    has_budget = message.HasField("max_tokens")
    return GenerationRequest(
        prompt=_decode_prompt(message),
        constraint=_decode_constraint(message),
        max_tokens=message.max_tokens if has_budget else DEFAULT_MAX_TOKENS,
        sampling=_decode_sampling(message.sampling),
        forcing=_decode_forcing(message.forcing),
        show_schema=message.show_schema,
        stop=tuple(message.stop),
        stop_tokens=tuple(TokenId(token) for token in message.stop_tokens),
        include_stop=message.include_stop,
        top_logprobs=message.top_logprobs if message.HasField("top_logprobs") else None,
        priority=message.priority,
        deadline=_seconds(message.deadline) if message.HasField("deadline") else None,
        n=message.n if message.HasField("n") else 1,
        best_of=message.best_of if message.HasField("best_of") else None,
        rank=_decode_rank(message.rank),
        beams=_decode_beams(message.beams) if message.HasField("beams") else None,
        cache_salt=message.cache_salt,
        on_incomplete=_decode_on_incomplete(message.on_incomplete),
    )


def _seconds(duration: Duration) -> float:
    # One division, which rounds once: 1.382286 s come back as they were sent.
    return (duration.seconds * 10**9 + duration.nanos) / 10**9


def _decode_prompt(message: pb.GenerateRequest) -> str | tuple[Message, ...]:
    if message.WhichOneof("prompt") == "messages":
        return tuple(Message(turn.role, turn.content) for turn in message.messages.messages)
    return message.text


def _decode_constraint(message: pb.GenerateRequest) -> Constraint:
    return _decode_structure(message.constraint, ()) if message.HasField("constraint") else None


def _decode_structure(message: pb.Constraint, place: tuple[str, ...]) -> Structure:
    """A constraint; errors name its ``place`` in the whole one."""
    inner = [_decode_structure(part, (*place, what)) for what, part in _parts_of(message)]
    with naming(place):
        return _made(message, inner)


def _parts_of(message: pb.Constraint) -> list[tuple[str, pb.Constraint]]:
    """The constraints that one is made of, each with its name."""
    kind = message.WhichOneof("kind")
    match kind:
        case "sequence":
            parts = enumerate(message.sequence.parts, start=1)
            return [(f"part {number}", part) for number, part in parts]
        case "any_of":
            parts = enumerate(message.any_of.parts, start=1)
            return [(f"alternative {number}", part) for number, part in parts]
        case "repeat":
            return [("the repeated part", message.repeat.part)]
        case "template":
            return [(f"hole {hole.name!r}", hole.constraint) for hole in message.template.holes]
        case "lark":
            return [(f"hole {hole.name!r}", hole.constraint) for hole in message.lark.holes]
        case "tagged":
            return [(f"tag {tag.begin!r}", tag.body) for tag in message.tagged.tags]
    return []


def _made(message: pb.Constraint, inner: list[Structure]) -> Structure:
    """The constraint of a message, whose own parts are decoded already."""
    kind = message.WhichOneof("kind")
    if kind is None:
        known = ", ".join(field.name for field in message.DESCRIPTOR.oneofs[0].fields)
        raise InvalidConstraintError(
            "the constraint says nothing",
            hint=f"set one of {known}, or leave the constraint out",
        )
    if kind != "json_schema" and (message.HasField("json_options") or message.documents):
        raise RequestError(f"json_options and documents do not go with {kind}", field="constraint")
    match kind:
        case "json_schema":
            return JsonSchema(
                message.json_schema,
                decode_json_options(message.json_options),
                tuple((document.uri, document.text) for document in message.documents),
            )
        case "lark":
            grammar = message.lark
            imports = tuple((imported.name, imported.text) for imported in grammar.imports)
            holes = _named(grammar.holes, inner)
            return Lark(grammar.text, grammar.start or "start", imports, holes)
        case "ebnf":
            return Ebnf(message.ebnf.text, message.ebnf.root or "root")
        case "choice":
            return Choice(message.choice.options)
        case "regex":
            return Regex(message.regex.pattern, decode_regex_dialect(message.regex))
        case "text":
            return Text(message.text)
        case "sequence":
            return Sequence(inner)
        case "any_of":
            return AnyOf(inner)
        case "repeat":
            bounds = message.repeat
            return Repeat(inner[0], bounds.least, bounds.most if bounds.HasField("most") else None)
        case "template":
            return Template(message.template.text, _named(message.template.holes, inner))
        case "free_text":
            return FreeText(message.free_text.without)
        case "until":
            return Until(message.until.ends)
        case "tagged":
            return _tagged(message.tagged, inner)


def _tagged(message: pb.Tagged, bodies: list[Structure]) -> Tagged:
    tags = [Tag(tag.begin, body, tag.end) for tag, body in zip(message.tags, bodies, strict=True)]
    calls = _CALLS.get(message.calls)
    if calls is None:
        known = ", ".join(pb.Calls.Name(number) for number in _CALLS)
        raise RequestError(f"calls {message.calls} is none of {known}", field="constraint")
    return Tagged(tags, message.triggers, calls, parallel=not message.single)


def _named(
    holes: Iterable[pb.NamedConstraint], inner: list[Structure]
) -> list[tuple[str, Structure]]:
    return [(hole.name, part) for hole, part in zip(holes, inner, strict=True)]


def _decode_sampling(message: pb.Sampling) -> Sampling:
    """What is set as it is, and the rest as ``Sampling`` itself leaves it."""
    given: dict[str, Any] = {
        descriptor.name: value
        for descriptor, value in message.ListFields()
        if not descriptor.is_repeated
    }
    bias = tuple((one.token, one.bias) for one in message.logit_bias)
    return Sampling(**given, logit_bias=bias)


def _decode_beams(message: pb.Beams) -> Beams:
    penalty = message.length_penalty if message.HasField("length_penalty") else 1.0
    return Beams(message.width, penalty, message.early_stopping)


def _decode_forcing(value: pb.Forcing.ValueType) -> Forcing:
    forcing = FORCING.get(value)
    if forcing is None:
        known = ", ".join(pb.Forcing.Name(number) for number in FORCING)
        raise RequestError(f"forcing {value} is none of {known}", field="forcing")
    return forcing


def _decode_on_incomplete(value: pb.OnIncomplete.ValueType) -> OnIncomplete:
    asked = _ON_INCOMPLETE.get(value)
    if asked is None:
        known = ", ".join(pb.OnIncomplete.Name(number) for number in _ON_INCOMPLETE)
        raise RequestError(f"on_incomplete {value} is none of {known}", field="on_incomplete")
    return asked


def _decode_rank(value: pb.Rank.ValueType) -> Rank:
    rank = _RANKS.get(value)
    if rank is None:
        known = ", ".join(pb.Rank.Name(number) for number in _RANKS)
        raise RequestError(f"rank {value} is none of {known}", field="rank")
    return rank


def refuse_unknown_fields(message: ProtobufMessage) -> None:
    """Refuse what a newer client asks for; left unread, it would be silently not granted."""
    unknown = UnknownFieldSet(message)
    if len(unknown):
        raise RequestError(
            f"field number {unknown[0].field_number} of {message.DESCRIPTOR.full_name} "
            "is unknown to this server",
            hint="use a client of the server's version",
        )
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for part in value if descriptor.is_repeated else (value,):
                refuse_unknown_fields(part)
