"""Converts requests to protobuf messages and back, for the server and for the engine's process.

::

    client                          server                            engine process
    Request ─▶ GenerationRequest
               ─▶ message ──grpc──▶ GenerationRequest, checked
                                    ─▶ message ──zmq──────────────▶   GenerationRequest

Options are fields of the same name on both sides (``guided.wire``). Constraints are converted here:
their kinds are the fields of a oneof, so a message states its kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from guided.errors import InvalidConstraintError, RequestError, naming
from guided.spec import (
    MAX_DEADLINE,
    Choice,
    Constraint,
    Ebnf,
    EnginePrompt,
    GenerationRequest,
    JsonOptions,
    JsonSchema,
    Lark,
    Message,
    Regex,
    Stored,
    Structure,
    TokenId,
    TokenPrompt,
    Tool,
    ToolUse,
)
from guided.spec.composition import AnyOf, Repeat, Sequence, Template, Text
from guided.spec.constraints import INLINE_SCHEMA
from guided.spec.special_token import SpecialToken
from guided.spec.tagged import FreeText, Tag, Tagged, Until
from guided.spec.tools import input_field
from guided.v1 import generation_pb2 as pb
from guided.wire import encodable, number_of, read, refuse_unknown_fields, seconds_of, write

__all__ = [
    "decode_constraint",
    "decode_request",
    "encode_constraint",
    "encode_request",
    "has_schema",
    "parts_of",
]


def encode_request(request: GenerationRequest) -> pb.GenerateRequest:
    """Encode a request."""
    message = pb.GenerateRequest()
    if isinstance(request.prompt, str):
        with encodable("prompt"):
            message.text = request.prompt
    elif isinstance(request.prompt, TokenPrompt):
        message.tokens.tokens.extend(request.prompt.tokens)
    else:
        for turn in request.prompt:
            write(turn, message.messages.messages.add(), "messages")
    if request.constraint is not None:
        message.constraint.CopyFrom(encode_constraint(request.constraint))
    write(request, message, without=("constraint", "tools"))
    if request.tools is not None:
        _encode_tools(request.tools, message.tools)
    return message


def _encode_tools(use: ToolUse, message: pb.ToolUse) -> None:
    write(use, message, "tools", without=("tools",))
    for tool in use.tools:
        added = message.tools.add()
        write(tool, added, "tools.tools", without=("input",))
        if tool.input is not None:
            with encodable(input_field(tool.name)):
                added.input.CopyFrom(_encode_constraint(tool.input))


def encode_constraint(constraint: Structure) -> pb.Constraint:
    """Encode a constraint."""
    with encodable("constraint"):
        return _encode_constraint(constraint)


def _encode_constraint(constraint: Structure) -> pb.Constraint:
    match constraint:
        case JsonSchema():
            return _encode_schema(constraint)
        case Lark(text, start, imports, holes, options):
            grammar = pb.LarkGrammar(text=text, start=start, holes=_encode_holes(holes))
            for name, body in imports:
                grammar.imports.add(name=name, text=body)
            return _with_options(pb.Constraint(lark=grammar), options)
        case Ebnf(text, root):
            return pb.Constraint(ebnf=pb.EbnfGrammar(text=text, root=root))
        case Choice(options):
            return pb.Constraint(choice=pb.TextChoice(options=options))
        case Regex(pattern, dialect):
            number = number_of(dialect, pb.RegexDialect.DESCRIPTOR)
            return pb.Constraint(regex=pb.RegexPattern(pattern=pattern, dialect=number))
        case Text(text):
            return pb.Constraint(text=text)
        case Sequence(parts):
            return pb.Constraint(sequence=_encode_parts(parts))
        case AnyOf(alternatives):
            return pb.Constraint(any_of=_encode_parts(alternatives))
        case Repeat(part, least, most):
            repetition = pb.Repetition(part=_encode_constraint(part), least=least, most=most)
            return pb.Constraint(repeat=repetition)
        case Template(text, holes):
            return pb.Constraint(template=pb.Template(text=text, holes=_encode_holes(holes)))
        case FreeText(without):
            return pb.Constraint(free_text=pb.FreeText(without=without))
        case Until(ends):
            return pb.Constraint(until=pb.Until(ends=ends))
        case Tagged():
            return pb.Constraint(tagged=_encode_tagged(constraint))
        case SpecialToken(name):
            return pb.Constraint(special_token=name)
        case Stored(constraint_id):
            return pb.Constraint(constraint_id=constraint_id)
    raise AssertionError(f"{constraint!r} has no message")


def _encode_parts(parts: Iterable[Structure]) -> pb.ConstraintList:
    return pb.ConstraintList(parts=map(_encode_constraint, parts))


def _encode_holes(holes: Iterable[tuple[str, Structure]]) -> list[pb.NamedConstraint]:
    return [
        pb.NamedConstraint(name=name, constraint=_encode_constraint(part)) for name, part in holes
    ]


def _encode_tagged(tagged: Tagged) -> pb.Tagged:
    return pb.Tagged(
        tags=[
            pb.Tag(begin=tag.begin, body=_encode_constraint(tag.body), end=tag.end)
            for tag in tagged.tags
        ],
        triggers=tagged.triggers,
        calls=number_of(tagged.calls, pb.Calls.DESCRIPTOR),
        single=not tagged.parallel,
    )


def _encode_schema(constraint: JsonSchema) -> pb.Constraint:
    message = _with_options(pb.Constraint(json_schema=constraint.text), constraint.options)
    with encodable("documents"):
        for uri, text in constraint.documents:
            message.documents.add(uri=uri, text=text)
    return message


def _with_options(message: pb.Constraint, options: JsonOptions) -> pb.Constraint:
    """Return a message with the options of its schemas, if they are not the default ones."""
    if options != JsonOptions():
        message.json_options.SetInParent()
        write(options, message.json_options, "json_options")
    return message


def decode_request(
    message: pb.GenerateRequest, *, latest_seconds: float | None = None
) -> GenerationRequest:
    """Decode a request; any fault raises ``RequestError``.

    Its deadline is the earlier of its own and ``latest_seconds``.
    """
    refuse_unknown_fields(message)
    own = seconds_of(message.deadline) if message.HasField("deadline") else MAX_DEADLINE
    others: dict[str, Any] = {}
    if latest_seconds is not None and latest_seconds <= own <= MAX_DEADLINE:
        others["deadline"] = latest_seconds
    return read(
        message,
        GenerationRequest,
        prompt=_decode_prompt(message),
        constraint=_decode_constraint(message),
        tools=_decode_tools(message.tools) if message.HasField("tools") else None,
        **others,
    )


def _decode_prompt(message: pb.GenerateRequest) -> EnginePrompt:
    if message.WhichOneof("prompt") == "tokens":
        return TokenPrompt([*map(TokenId, message.tokens.tokens)])
    if message.WhichOneof("prompt") == "messages":
        return tuple(_decode_turn(*turn) for turn in enumerate(message.messages.messages))
    return message.text


def _decode_turn(number: int, turn: pb.Message) -> Message:
    if not turn.parts:
        return read(turn, Message)
    if turn.content:
        raise RequestError(
            f"message {number} has both content and parts",
            field="messages.parts",
            hint="send one of them",
        )
    for at, part in enumerate(turn.parts):
        if part.WhichOneof("kind") is None:
            raise RequestError(
                f"part {at} of message {number} says nothing",
                field="messages.parts",
                hint="set its text, or leave it out",
            )
    return read(turn, Message, content="".join([part.text for part in turn.parts]))


def _decode_tools(message: pb.ToolUse) -> ToolUse:
    tools = tuple([_decode_tool(tool) for tool in message.tools])
    return read(message, ToolUse, "tools", tools=tools)


def _decode_tool(message: pb.Tool) -> Tool:
    field = input_field(message.name[:64])  # it is checked later
    with naming((field,), field=field):
        grammar = decode_constraint(message.input) if message.HasField("input") else None
    return read(message, Tool, "tools.tools", input=grammar)


def _decode_constraint(message: pb.GenerateRequest) -> Constraint:
    return decode_constraint(message.constraint) if message.HasField("constraint") else None


def decode_constraint(message: pb.Constraint) -> Structure:
    """Decode a constraint; raises ``RequestError`` if it is wrong."""
    return _decode_structure(message, ())


def _decode_structure(message: pb.Constraint, place: tuple[str, ...]) -> Structure:
    """Decode a constraint; errors name its ``place`` in the whole one."""
    inner = [_decode_structure(part, (*place, what)) for what, part in parts_of(message)]
    with naming(place):
        if place and message.WhichOneof("kind") == "constraint_id":
            raise InvalidConstraintError(
                "a stored constraint stands for a whole one", hint="send what it stands for"
            )
        return _made(message, inner)


def has_schema(message: pb.Constraint) -> bool:
    """Return whether a constraint is a schema, or a grammar with schemas in it."""
    texts = [message.lark.text, *[grammar.text for grammar in message.lark.imports]]
    is_schema = bool(message.WhichOneof("kind") == "json_schema")
    return is_schema or any(INLINE_SCHEMA in text for text in texts)


def parts_of(message: pb.Constraint) -> list[tuple[str, pb.Constraint]]:
    """Return the constraints that one is made of, each with its name."""
    match message.WhichOneof("kind"):
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
    """Make the constraint of a message from its decoded parts."""
    kind = message.WhichOneof("kind")
    if kind is None:
        known = ", ".join(field.name for field in message.DESCRIPTOR.oneofs[0].fields)
        raise InvalidConstraintError(
            "the constraint says nothing",
            hint=f"set one of {known}, or leave the constraint out",
        )
    if (message.documents and kind != "json_schema") or (
        message.HasField("json_options") and not has_schema(message)
    ):
        raise RequestError(f"json_options and documents do not go with {kind}", field="constraint")
    options = read(message.json_options, JsonOptions, "json_options")
    match kind:
        case "json_schema":
            documents = tuple((document.uri, document.text) for document in message.documents)
            return JsonSchema(message.json_schema, options, documents)
        case "lark":
            holes = _named(message.lark.holes, inner)
            return read(message.lark, Lark, "constraint", holes=holes, json_options=options)
        case "ebnf":
            return read(message.ebnf, Ebnf)
        case "choice":
            return Choice(message.choice.options)
        case "regex":
            return read(message.regex, Regex, "regex")
        case "text":
            return Text(message.text)
        case "constraint_id":
            return Stored(message.constraint_id)
        case "sequence":
            return Sequence(inner)
        case "any_of":
            return AnyOf(inner)
        case "repeat":
            return read(message.repeat, Repeat, part=inner[0])
        case "template":
            return Template(message.template.text, _named(message.template.holes, inner))
        case "free_text":
            return FreeText(message.free_text.without)
        case "special_token":
            return SpecialToken(message.special_token)
        case "until":
            return Until(message.until.ends)
        case "tagged":
            tagged = message.tagged
            bodies = zip(tagged.tags, inner, strict=True)
            tags = [Tag(tag.begin, body, tag.end) for tag, body in bodies]
            return read(tagged, Tagged, "constraint", tags=tags, parallel=not tagged.single)


def _named(
    holes: Iterable[pb.NamedConstraint], inner: list[Structure]
) -> list[tuple[str, Structure]]:
    return [(hole.name, part) for hole, part in zip(holes, inner, strict=True)]
