"""From protobuf messages to requests, refusing what this server does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.unknown_fields import UnknownFieldSet

from guided.composition import AnyOf, Repeat, Sequence, Template, Text
from guided.errors import InvalidConstraintError, RequestError
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
    Rank,
    Regex,
    Sampling,
    Structure,
    TokenId,
)
from guided.tagged import Calls, FreeText, Tag, Tagged, Until
from guided.v1 import generation_pb2 as pb
from guided_service.decode_options import decode_json_options, decode_regex_dialect

__all__ = ["DEFAULT_MAX_TOKENS", "FORCING", "decode_request"]

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


_CALLS: Mapping[pb.Calls.ValueType, Calls] = {
    pb.CALLS_UNSPECIFIED: Calls.AUTO,
    pb.CALLS_AUTO: Calls.AUTO,
    pb.CALLS_REQUIRED: Calls.REQUIRED,
    pb.CALLS_NONE: Calls.NONE,
}


def decode_request(message: pb.GenerateRequest) -> GenerationRequest:
    """The request that a message stands for; whatever is wrong with it raises ``RequestError``."""
    _refuse_unknown_fields(message)
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
    )


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9


def _decode_prompt(message: pb.GenerateRequest) -> str | tuple[Message, ...]:
    if message.WhichOneof("prompt") == "messages":
        return tuple(Message(turn.role, turn.content) for turn in message.messages.messages)
    return message.text


def _decode_constraint(message: pb.GenerateRequest) -> Constraint:
    return _decode_structure(message.constraint) if message.HasField("constraint") else None


def _decode_structure(constraint: pb.Constraint) -> Structure:
    kind = constraint.WhichOneof("kind")
    if kind is None:
        known = ", ".join(field.name for field in constraint.DESCRIPTOR.oneofs[0].fields)
        raise InvalidConstraintError(
            "the constraint says nothing",
            hint=f"set one of {known}, or leave the constraint out",
        )
    if kind != "json_schema" and (constraint.HasField("json_options") or constraint.documents):
        raise RequestError(f"json_options and documents do not go with {kind}", field="constraint")
    if kind == "lark":
        grammar = constraint.lark
        imports = tuple((imported.name, imported.text) for imported in grammar.imports)
        return Lark(grammar.text, grammar.start or "start", imports, _decode_holes(grammar.holes))
    if kind == "ebnf":
        return Ebnf(constraint.ebnf.text, constraint.ebnf.root or "root")
    if kind == "choice":
        return Choice(constraint.choice.options)
    if kind == "regex":
        return Regex(constraint.regex.pattern, decode_regex_dialect(constraint.regex))
    if kind in _COMPOSITIONS:
        return _COMPOSITIONS[kind](constraint)
    return JsonSchema(
        constraint.json_schema,
        decode_json_options(constraint.json_options),
        tuple((document.uri, document.text) for document in constraint.documents),
    )


def _decode_repeat(message: pb.Repetition) -> Repeat:
    most = message.most if message.HasField("most") else None
    return Repeat(_decode_structure(message.part), message.least, most)


def _decode_tagged(message: pb.Tagged) -> Tagged:
    tags = [Tag(tag.begin, _decode_structure(tag.body), tag.end) for tag in message.tags]
    calls = _CALLS.get(message.calls)
    if calls is None:
        known = ", ".join(pb.Calls.Name(number) for number in _CALLS)
        raise RequestError(f"calls {message.calls} is none of {known}", field="constraint")
    return Tagged(tags, message.triggers, calls, parallel=not message.single)


def _decode_template(message: pb.Template) -> Template:
    return Template(message.text, _decode_holes(message.holes))


def _decode_holes(holes: Iterable[pb.NamedConstraint]) -> list[tuple[str, Structure]]:
    return [(hole.name, _decode_structure(hole.constraint)) for hole in holes]


_COMPOSITIONS: Mapping[str, Callable[[pb.Constraint], Structure]] = {
    "text": lambda message: Text(message.text),
    "sequence": lambda message: Sequence(map(_decode_structure, message.sequence.parts)),
    "any_of": lambda message: AnyOf(map(_decode_structure, message.any_of.parts)),
    "repeat": lambda message: _decode_repeat(message.repeat),
    "template": lambda message: _decode_template(message.template),
    "free_text": lambda message: FreeText(message.free_text.without),
    "until": lambda message: Until(message.until.ends),
    "tagged": lambda message: _decode_tagged(message.tagged),
}


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


def _decode_rank(value: pb.Rank.ValueType) -> Rank:
    rank = _RANKS.get(value)
    if rank is None:
        known = ", ".join(pb.Rank.Name(number) for number in _RANKS)
        raise RequestError(f"rank {value} is none of {known}", field="rank")
    return rank


def _refuse_unknown_fields(message: ProtobufMessage) -> None:
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
                _refuse_unknown_fields(part)
