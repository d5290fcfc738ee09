"""Requests and results are the same on both sides of the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.client.decode import decode_answer
from guided.client.encode import encode_request
from guided.errors import InvalidConstraintError, RequestError
from guided.spec import (
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    JsonSchema,
    Message,
    Sampling,
    TokenId,
    Usage,
)
from guided.v1 import generation_pb2 as pb
from guided_service.decode import decode_request
from guided_service.encode import encode_result
from guided_service.messages import (
    Answered,
    Submit,
    read_from_engine,
    read_to_engine,
    write,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
counts = st.integers(0, 2**31 - 1)
samplings = st.builds(
    Sampling,
    temperature=st.floats(0, 100),
    top_k=st.none() | st.integers(1, 2**31 - 1),
    top_p=st.none() | st.floats(0, 1, exclude_min=True),
    seed=st.none() | st.integers(0, 2**63 - 1),
)
messages = st.builds(Message, st.sampled_from(["system", "user", "assistant"]), text)
conversations = st.lists(messages, min_size=1, max_size=3).map(tuple)
constraints = st.builds(JsonSchema, text)
requests = st.builds(
    GenerationRequest,
    prompt=conversations | text.filter(bool),
    constraint=st.none() | constraints,
    max_tokens=st.integers(1, 2**31 - 1),
    sampling=samplings,
    forcing=st.sampled_from(Forcing),
) | st.builds(
    GenerationRequest, prompt=conversations, constraint=constraints, show_schema=st.just(True)
)
results = st.builds(
    GenerationResult,
    text=text,
    tokens=st.lists(st.integers(0, 300_000).map(TokenId), max_size=3).map(tuple),
    finish_reason=st.sampled_from(FinishReason),
    usage=st.builds(Usage, counts, counts, counts, counts),
    seconds=st.integers(0, 10**9).map(lambda micros: micros / 1e6),
)


@given(requests)
def test_the_server_reads_the_request_that_the_client_wrote(request: GenerationRequest) -> None:
    payload = encode_request(request).SerializeToString()
    assert decode_request(pb.GenerateRequest.FromString(payload)) == request


@given(requests)
def test_the_engine_reads_the_request_that_the_server_wrote(request: GenerationRequest) -> None:
    assert read_to_engine(write(Submit("1", request))) == Submit("1", request)


@given(results)
def test_the_client_reads_the_answer_that_the_engine_wrote(result: GenerationResult) -> None:
    arrived = read_from_engine(write(Answered("1", result)))
    assert arrived == Answered("1", result)
    answer = decode_answer(encode_result(result))
    assert (answer.text, answer.finish_reason, answer.usage) == (
        result.text,
        result.finish_reason,
        result.usage,
    )
    assert answer.seconds == pytest.approx(result.seconds, abs=1e-6)


def test_what_a_message_leaves_out_has_its_documented_default() -> None:
    assert decode_request(pb.GenerateRequest(text="x")) == GenerationRequest("x")


def newer_request() -> pb.GenerateRequest:
    """A request with a field 15 that no version has yet, inside its constraint."""
    return pb.GenerateRequest.FromString(b"\x0a\x01x" + b"\x1a\x04" + b"\x0a\x00" + b"\x78\x01")


@pytest.mark.parametrize(
    ("message", "kind", "complaint"),
    [
        (pb.GenerateRequest(), RequestError, "the prompt is empty"),
        (pb.GenerateRequest(messages=pb.Messages()), RequestError, "the prompt is empty"),
        (
            pb.GenerateRequest(messages=pb.Messages(messages=[pb.Message(role="robot")])),
            RequestError,
            "role 'robot' is none of 'system', 'user', 'assistant'",
        ),
        (pb.GenerateRequest(text="x", max_tokens=0), RequestError, "max_tokens 0 is below 1"),
        (
            pb.GenerateRequest(text="x", constraint=pb.Constraint()),
            InvalidConstraintError,
            "the constraint says nothing; set json_schema, or leave the constraint out",
        ),
        (
            pb.GenerateRequest(text="x", forcing=9),  # type: ignore[arg-type]
            RequestError,
            "forcing 9 is none of FORCING_UNSPECIFIED, FORCING_OFF, FORCING_STRICT, "
            "FORCING_CANONICAL",
        ),
        (
            newer_request(),
            RequestError,
            "field number 15 of guided.v1.Constraint is unknown to this server; "
            "use a client of the server's version",
        ),
    ],
)
def test_a_message_that_asks_for_nothing_possible_is_refused(
    message: pb.GenerateRequest, kind: type[RequestError], complaint: str
) -> None:
    with pytest.raises(RequestError) as caught:
        decode_request(message)
    assert type(caught.value) is kind
    assert str(caught.value) == complaint
