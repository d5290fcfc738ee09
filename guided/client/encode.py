"""From a request to its protobuf message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields

from google.protobuf.duration_pb2 import Duration

from guided.errors import LimitExceededError, RequestError
from guided.spec import (
    Beams,
    Choice,
    Ebnf,
    Forcing,
    FormatMode,
    GenerationRequest,
    JsonOptions,
    JsonSchema,
    KeyOrder,
    Lark,
    Message,
    OnIncomplete,
    Rank,
    Regex,
    RegexDialect,
    Sampling,
    Spelling,
    Structure,
)
from guided.spec.composition import AnyOf, Repeat, Sequence, Template, Text
from guided.spec.tagged import Calls, FreeText, Tagged, Until
from guided.v1 import generation_pb2 as pb

__all__ = [
    "FORCING",
    "FORMAT_MODES",
    "KEY_ORDERS",
    "ON_INCOMPLETE",
    "REGEX_DIALECTS",
    "SPELLINGS",
    "encode_batch",
    "encode_request",
    "encode_stream",
]

FORCING: Mapping[Forcing, pb.Forcing.ValueType] = {
    Forcing.OFF: pb.FORCING_OFF,
    Forcing.STRICT: pb.FORCING_STRICT,
    Forcing.CANONICAL: pb.FORCING_CANONICAL,
}

KEY_ORDERS: Mapping[KeyOrder, pb.KeyOrder.ValueType] = {
    KeyOrder.SCHEMA: pb.KEY_ORDER_SCHEMA,
    KeyOrder.ANY: pb.KEY_ORDER_ANY,
}

FORMAT_MODES: Mapping[FormatMode, pb.FormatMode.ValueType] = {
    FormatMode.ASSERT: pb.FORMAT_MODE_ASSERT,
    FormatMode.ANNOTATE: pb.FORMAT_MODE_ANNOTATE,
}

ON_INCOMPLETE: Mapping[OnIncomplete, pb.OnIncomplete.ValueType] = {
    OnIncomplete.CLOSE: pb.ON_INCOMPLETE_CLOSE,
    OnIncomplete.ERROR: pb.ON_INCOMPLETE_ERROR,
}

REGEX_DIALECTS: Mapping[RegexDialect, pb.RegexDialect.ValueType] = {
    RegexDialect.PYTHON: pb.REGEX_DIALECT_PYTHON,
    RegexDialect.ECMA: pb.REGEX_DIALECT_ECMA,
}

CALLS: Mapping[Calls, pb.Calls.ValueType] = {
    Calls.AUTO: pb.CALLS_AUTO,
    Calls.REQUIRED: pb.CALLS_REQUIRED,
    Calls.NONE: pb.CALLS_NONE,
}

SPELLINGS: Mapping[Spelling, pb.Spelling.ValueType] = {
    Spelling.CANONICAL: pb.SPELLING_CANONICAL,
    Spelling.ANY: pb.SPELLING_ANY,
}

_LARGEST_INT32 = 2**31 - 1


def encode_request(request: GenerationRequest) -> pb.GenerateRequest:
    """The message of one request."""
    message = pb.GenerateRequest(
        max_tokens=_int32(request.max_tokens, "max_tokens"),
        sampling=_encode_sampling(request.sampling),
        forcing=FORCING[request.forcing],
        show_schema=request.show_schema,
        stop=[_utf8(string, "stop") for string in request.stop],
        stop_tokens=[_int32(token, "stop_tokens") for token in request.stop_tokens],
        include_stop=request.include_stop,
        top_logprobs=request.top_logprobs,
        priority=request.priority,
        deadline=None if request.deadline is None else _duration(request.deadline),
        # Left out where they say nothing, so that a server that does not know them takes the rest.
        n=None if request.n == 1 else _int32(request.n, "n"),
        best_of=None if request.best_of is None else _int32(request.best_of, "best_of"),
        rank=pb.RANK_REWARD if request.rank is Rank.REWARD else pb.RANK_UNSPECIFIED,
        beams=None if request.beams is None else _encode_beams(request.beams),
        cache_salt=_utf8(request.cache_salt, "cache_salt"),
        on_incomplete=(
            pb.ON_INCOMPLETE_UNSPECIFIED
            if request.on_incomplete is OnIncomplete.CLOSE
            else ON_INCOMPLETE[request.on_incomplete]
        ),
    )
    if isinstance(request.prompt, str):
        message.text = _utf8(request.prompt, "prompt")
    else:
        message.messages.messages.extend(_encode_turn(turn) for turn in request.prompt)
    if request.constraint is not None:
        message.constraint.CopyFrom(_encode_constraint(request.constraint))
    return message


def encode_stream(request: GenerationRequest) -> pb.GenerateStreamRequest:
    """The message of one request whose answer is to be sent as it grows."""
    return pb.GenerateStreamRequest(request=encode_request(request))


def encode_batch(requests: Iterable[GenerationRequest]) -> pb.GenerateBatchRequest:
    """The message of many requests."""
    return pb.GenerateBatchRequest(requests=[encode_request(request) for request in requests])


def _encode_constraint(constraint: Structure) -> pb.Constraint:
    match constraint:
        case JsonSchema():
            return _encode_schema(constraint)
        case Lark(text, start, imports, holes):
            grammar = pb.LarkGrammar(
                text=_utf8(text, "constraint"),
                start=_utf8(start, "constraint"),
                imports=[
                    pb.ImportedGrammar(
                        name=_utf8(name, "constraint"), text=_utf8(body, "constraint")
                    )
                    for name, body in imports
                ],
                holes=_encode_holes(holes),
            )
            return pb.Constraint(lark=grammar)
        case Ebnf(text, root):
            return pb.Constraint(
                ebnf=pb.EbnfGrammar(text=_utf8(text, "constraint"), root=_utf8(root, "constraint"))
            )
        case Choice(options):
            written_options = [_utf8(option, "constraint") for option in options]
            return pb.Constraint(choice=pb.TextChoice(options=written_options))
        case Regex(pattern, dialect):
            written = _utf8(pattern, "constraint")
            return pb.Constraint(
                regex=pb.RegexPattern(pattern=written, dialect=REGEX_DIALECTS[dialect])
            )
        case Text(text):
            return pb.Constraint(text=_utf8(text, "constraint"))
        case Sequence(parts):
            return pb.Constraint(sequence=_encode_parts(parts))
        case AnyOf(alternatives):
            return pb.Constraint(any_of=_encode_parts(alternatives))
        case Repeat(part, least, most):
            repetition = pb.Repetition(part=_encode_constraint(part), least=least, most=most)
            return pb.Constraint(repeat=repetition)
        case Template(text, holes):
            template = pb.Template(text=_utf8(text, "constraint"), holes=_encode_holes(holes))
            return pb.Constraint(template=template)
        case FreeText(without):
            texts = [_utf8(text, "constraint") for text in without]
            return pb.Constraint(free_text=pb.FreeText(without=texts))
        case Until(ends):
            texts = [_utf8(text, "constraint") for text in ends]
            return pb.Constraint(until=pb.Until(ends=texts))
        case Tagged():
            return pb.Constraint(tagged=_encode_tagged(constraint))
    raise AssertionError(f"{constraint!r} has no message")


def _encode_parts(parts: Iterable[Structure]) -> pb.ConstraintList:
    return pb.ConstraintList(parts=map(_encode_constraint, parts))


def _encode_holes(holes: Iterable[tuple[str, Structure]]) -> list[pb.NamedConstraint]:
    return [
        pb.NamedConstraint(name=_utf8(name, "constraint"), constraint=_encode_constraint(part))
        for name, part in holes
    ]


def _encode_tagged(tagged: Tagged) -> pb.Tagged:
    tags = [
        pb.Tag(
            begin=_utf8(tag.begin, "constraint"),
            body=_encode_constraint(tag.body),
            end=_utf8(tag.end, "constraint"),
        )
        for tag in tagged.tags
    ]
    return pb.Tagged(
        tags=tags,
        triggers=[_utf8(trigger, "constraint") for trigger in tagged.triggers],
        calls=CALLS[tagged.calls],
        single=not tagged.parallel,
    )


def _encode_schema(constraint: JsonSchema) -> pb.Constraint:
    is_default = constraint.options == JsonOptions()
    return pb.Constraint(
        json_schema=_utf8(constraint.text, "constraint"),
        # Left out where it says nothing, so that a server that does not know it need not refuse it.
        json_options=None if is_default else _encode_json_options(constraint.options),
        documents=[
            pb.SchemaDocument(uri=_utf8(uri, "documents"), text=_utf8(text, "documents"))
            for uri, text in constraint.documents
        ],
    )


def _encode_json_options(options: JsonOptions) -> pb.JsonOptions:
    return pb.JsonOptions(
        whitespace=_bound(options.whitespace, "whitespace"),
        key_order=KEY_ORDERS[options.key_order],
        format=FORMAT_MODES[options.format],
        spelling=SPELLINGS[options.spelling],
        max_string_length=_bound(options.max_string_length, "max_string_length"),
        max_number_digits=_bound(options.max_number_digits, "max_number_digits"),
    )


def _bound(value: int | None, name: str) -> pb.Bound:
    """A bound without a number is one that is lifted."""
    return pb.Bound(at_most=None if value is None else _int32(value, f"json_options.{name}"))


def _encode_beams(beams: Beams) -> pb.Beams:
    return pb.Beams(
        width=_int32(beams.width, "beams.width"),
        length_penalty=beams.length_penalty,
        early_stopping=beams.early_stopping,
    )


def _encode_turn(turn: Message) -> pb.Message:
    return pb.Message(role=turn.role, content=_utf8(turn.content, "messages.content"))


def _encode_sampling(sampling: Sampling) -> pb.Sampling:
    message = pb.Sampling()
    # Left out where it says nothing, so that a server that does not know it need not refuse it.
    for field in fields(Sampling):
        value = getattr(sampling, field.name)
        if field.name != "logit_bias" and value != field.default:
            is_integer = field.name in ("top_k", "no_repeat_ngram_size")
            value = _int32(value, f"sampling.{field.name}") if is_integer else value
            setattr(message, field.name, value)
    for token, bias in sampling.logit_bias:
        message.logit_bias.add(token=_int32(token, "sampling.logit_bias"), bias=bias)
    return message


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration


def _int32(value: int, field: str) -> int:
    if value > _LARGEST_INT32:
        raise LimitExceededError(
            f"{field} {value!r} is above {_LARGEST_INT32}", limit=_LARGEST_INT32, field=field
        )
    return value


def _utf8(text: str, field: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"{field} holds {text[error.start]!r} at offset {error.start}, which is no character",
            field=field,
            hint="replace lone surrogates before sending",
        ) from error
    return text
