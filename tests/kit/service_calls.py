"""Random calls to a server: to every method over gRPC, and to every path over HTTP."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from google.protobuf.message import Message

from guided.client import RawPrompt, Request
from guided.errors import GuidedError
from guided.spec import Choice, GenerationRequest, Regex
from guided.v1 import generation_pb2 as pb
from guided.v1 import grammar_pb2, model_pb2
from guided.wire_request import encode_request
from tests.kit.fuzz_front_ends import FRONT_ENDS, mutated_text
from tests.kit.hard_schemas import hard_schema
from tests.kit.hostile_constraints import HOSTILE
from tests.kit.hostile_options import hostile_options
from tests.kit.mutated_messages import broken, twist

__all__ = ["BODIES", "METHODS", "Call", "Face", "hostile_calls", "mutated_calls"]

Face: TypeAlias = Literal["grpc", "http"]


@dataclass(frozen=True)
class Call:
    """A call that may be wrong in any way."""

    face: Face
    place: str
    """``guided.v1.ModelService/GetModel``, or the path over HTTP."""
    message: bytes


# Messages over gRPC


def _of_one(rng: random.Random) -> Message:
    return _request(rng)


def _of_stream(rng: random.Random) -> Message:
    return pb.GenerateStreamRequest(request=_request(rng))


def _of_batch(rng: random.Random) -> Message:
    return pb.GenerateBatchRequest(requests=[_request(rng)] * rng.choice([1, 2, 5]))


def _of_constraint(kind: type[Message], rng: random.Random) -> Message:
    return kind(constraint=_request(rng).constraint)


def _of_text(rng: random.Random) -> Message:
    text = rng.choice(['{"a":1}', "2", "abc", "left", ""])
    return grammar_pb2.ValidateTextRequest(constraint=_request(rng).constraint, text=text)


def _of_prompt(rng: random.Random) -> Message:
    return model_pb2.TokenizeRequest(request=_request(rng), texts=rng.random() < 0.5)


def _of_tokens(rng: random.Random) -> Message:
    return model_pb2.DetokenizeRequest(tokens=[rng.randrange(256) for _ in range(5)])


def _of_nothing(kind: type[Message], rng: random.Random) -> Message:  # noqa: ARG001
    return kind()


_MAKERS: Final[Mapping[str, tuple[Callable[[random.Random], Message], int]]] = {
    "GenerationService/Generate": (_of_one, 8),
    "GenerationService/GenerateStream": (_of_stream, 4),
    "GenerationService/GenerateBatch": (_of_batch, 4),
    "GrammarService/Check": (partial(_of_constraint, grammar_pb2.CheckRequest), 2),
    "GrammarService/Compile": (partial(_of_constraint, grammar_pb2.CompileRequest), 2),
    "GrammarService/ValidateText": (_of_text, 2),
    "GrammarService/List": (partial(_of_nothing, grammar_pb2.ListRequest), 1),
    "GrammarService/Delete": (partial(_of_nothing, grammar_pb2.DeleteRequest), 1),
    "ModelService/GetModel": (partial(_of_nothing, model_pb2.GetModelRequest), 1),
    "ModelService/ListModels": (partial(_of_nothing, model_pb2.ListModelsRequest), 1),
    "ModelService/GetStats": (partial(_of_nothing, model_pb2.GetStatsRequest), 1),
    "ModelService/Tokenize": (_of_prompt, 2),
    "ModelService/Detokenize": (_of_tokens, 1),
}
"""For each method, the maker of a valid message, and how often it is drawn."""

METHODS: Final = tuple(f"guided.v1.{name}" for name in _MAKERS)


def _request(rng: random.Random) -> pb.GenerateRequest:
    constraints: tuple[dict[str, Any], ...] = (
        {"schema": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        {"schema": {"enum": ["one", 2, None]}},
        {"grammar": Regex("[a-z]{1,9}")},
        {"grammar": Choice(("left", "right"))},
        {},
    )
    options: tuple[dict[str, Any], ...] = (
        {},
        {"temperature": 1.0, "top_k": 5, "top_p": 0.9, "seed": 3},
        {"n": 2, "temperature": 1.0},
        {"stop": ("a", "b"), "top_logprobs": 2},
        {"repetition_penalty": 1.2, "logit_bias": {5: 1.0}, "priority": 3},
    )
    made = Request(
        RawPrompt("Say it: ") if rng.random() < 0.5 else "Say it.",
        **rng.choice(constraints),
        **rng.choice(options),
        max_tokens=rng.choice([1, 8, 24]),
    )
    return encode_request(made.specification)


def _mutated_message(rng: random.Random) -> Call:
    (name,) = rng.choices(tuple(_MAKERS), [weight for _, weight in _MAKERS.values()])
    message = _MAKERS[name][0](rng)
    for _ in range(rng.choice([0, 1, 1, 3])):
        if message.DESCRIPTOR.fields:
            twist(rng, message)
    return Call("grpc", f"guided.v1.{name}", _perhaps_broken(rng, message.SerializeToString()))


def _perhaps_broken(rng: random.Random, packed: bytes) -> bytes:
    if rng.random() < 0.6:
        for _ in range(rng.choice([1, 1, 2, 8])):
            packed = broken(rng, packed)
    return packed


# Bodies over HTTP

_SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "integer"}}}
_FORMAT: Final = {"name": "x", "schema": _SCHEMA}
_ASKED: Final = {"messages": [{"role": "user", "content": "Say it."}], "max_tokens": 8}
_HELD: Final = {"response_format": {"type": "json_schema", "json_schema": _FORMAT}}
_TOOL: Final = {"type": "function", "function": {"name": "f", "parameters": _SCHEMA}}

BODIES: Final[Mapping[str, tuple[dict[str, Any], ...]]] = {
    "/v1/chat/completions": (
        {**_ASKED, **_HELD, "stream": True, "stream_options": {"include_usage": True}},
        {**_ASKED, "tools": [_TOOL], "tool_choice": "required"},
        {**_ASKED, "n": 2, "temperature": 1, "logprobs": True, "top_logprobs": 2, "stop": ["a"]},
    ),
    "/v1/completions": (
        {"prompt": "Say it: ", "max_tokens": 8, "guided_regex": "[a-z]{1,9}", "stream": True},
        {"prompt": ["Say it: "], "max_tokens": 4, "logprobs": 2, "logit_bias": {"5": 1}},
    ),
    "/v1/responses": (
        {"input": "Say it.", "max_output_tokens": 24, "stream": True},
        {
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "Say it."}]}],
            "text": {"format": {"type": "json_schema", **_FORMAT}},
            "max_output_tokens": 24,
        },
    ),
    "/v1/messages": (
        {**_ASKED, "output_config": {"format": {"type": "json_schema", "schema": _SCHEMA}}},
        {
            **_ASKED,
            "tools": [{"name": "f", "input_schema": _SCHEMA}],
            "tool_choice": {"type": "any"},
        },
        {**_ASKED, "system": [{"type": "text", "text": "Be kind."}], "stream": True},
    ),
    "/v1/messages/count_tokens": ({"messages": _ASKED["messages"], "system": "Be kind."},),
    "/tokenize": (
        {"prompt": "Say it: ", "return_token_strs": True},
        {"messages": _ASKED["messages"], "tools": [_TOOL], "add_generation_prompt": True},
    ),
    "/detokenize": ({"tokens": [5, 6]},),
    "/playground/answer": ({**_ASKED, **_HELD},),
    "/playground/mask": ({**_HELD, "tokens": [5, 6]}, {"guided_regex": "[a-z]+"}),
    "/playground/automaton": (_HELD, {"guided_choice": ["left", "right"]}),
}
"""Bodies that are valid except for the name of the model, by path."""

_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1e300, 2**63, 0.5, "", "x", "\0é\U0001f600", "x" * 5000),
    *([], {}, [None], {"type": "object"}, [[[[]]]], "json_schema", "auto"),
)


def _mutated_body(rng: random.Random, model: str) -> Call:
    path = rng.choice(tuple(BODIES))
    # A copy, because it is changed below.
    body = json.loads(json.dumps({"model": model, **rng.choice(BODIES[path])}))
    for _ in range(rng.choice([0, 1, 1, 3])):
        _twist_value(rng, body)
    packed = json.dumps(body).encode()
    return Call("http", path, packed if rng.random() < 0.5 else _perhaps_broken(rng, packed))


def _twist_value(rng: random.Random, value: Any) -> None:
    """Change, drop or add a member or an item, of the value or of one inside of it."""
    places = [*value] if isinstance(value, dict) else [*range(len(value))]
    if not places:
        return None
    place = rng.choice(places)
    if isinstance(value[place], dict | list) and rng.random() < 0.7:
        return _twist_value(rng, value[place])
    match rng.randrange(4):
        case 0:
            del value[place]
        case 1 if isinstance(value, dict):
            value[rng.choice(("x", "stream", "n", "seed", "tools"))] = _another_value(rng)
        case _:
            value[place] = _another_value(rng)


def _another_value(rng: random.Random) -> Any:
    """A value of its own: a later change of the body must change no other body."""
    return copy.deepcopy(rng.choice(_VALUES))


def mutated_calls(rng: random.Random, model: str) -> Iterator[Call]:
    """Valid calls with random mutations; ``model`` is the name of the server's model."""
    while True:
        yield _mutated_body(rng, model) if rng.random() < 0.3 else _mutated_message(rng)


# Constraints


def hostile_calls(rng: random.Random) -> Iterator[Call]:
    """Constraints that are wrong, cannot be met, or take more work than they should."""
    while True:
        try:
            request = encode_request(_hostile(rng))
        except GuidedError:
            continue  # the client itself refuses it
        name = rng.choice(("Generate", "Generate", "Generate", "GenerateBatch", "Check"))
        yield _asking(name, request)


def _asking(name: str, request: pb.GenerateRequest) -> Call:
    if name == "Check":
        message: Message = grammar_pb2.CheckRequest(constraint=request.constraint)
        return Call("grpc", "guided.v1.GrammarService/Check", message.SerializeToString())
    message = request if name == "Generate" else pb.GenerateBatchRequest(requests=[request])
    return Call("grpc", f"guided.v1.GenerationService/{name}", message.SerializeToString())


def _hostile(rng: random.Random) -> GenerationRequest:
    tokens = rng.choice([4, 32])
    if rng.random() < 0.2:
        made = HOSTILE[rng.choice(tuple(HOSTILE))]()
        return GenerationRequest("x", made, max_tokens=tokens)
    kinds: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: hostile_options(rng),
        lambda: {"schema": hard_schema(rng)},
        lambda: {"grammar": _mutant(rng)},
    )
    options = rng.choices(kinds, (1, 2, 3))[0]()
    return Request("x", **options, max_tokens=tokens).specification


def _mutant(rng: random.Random) -> Any:
    make, valid = FRONT_ENDS[rng.choice(tuple(FRONT_ENDS))]
    text = rng.choice(valid)
    for _ in range(rng.choice([1, 2, 8])):
        text = mutated_text(text, rng.choice(valid), rng)
    return make(text.encode(errors="replace").decode())
