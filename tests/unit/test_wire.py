"""Dataclasses and messages with fields of the same names."""

from __future__ import annotations

import pytest
from google.protobuf.duration_pb2 import Duration

from guided.errors import LimitExceededError, RequestError
from guided.spec import Beams, JsonOptions, KeyOrder, Message, Sampling, Usage
from guided.v1 import generation_pb2 as pb
from guided.wire import duration_of, encodable, member_of, number_of, read, seconds_of, write


def test_only_what_is_not_the_default_is_written() -> None:
    message = pb.Sampling()
    write(Sampling(top_k=3, temperature=0.0), message)
    assert message == pb.Sampling(top_k=3)
    assert read(message, Sampling) == Sampling(top_k=3)


def test_a_field_without_a_default_is_always_written_and_read() -> None:
    message = pb.Beams()
    write(Beams(2), message)
    assert message == pb.Beams(width=2)
    with pytest.raises(RequestError, match="width 0 is below 1"):
        read(pb.Beams(), Beams)


def test_fields_of_one_side_alone_are_left_alone() -> None:
    written = pb.GenerateResponse()
    write(Usage(prompt_tokens=3), written)  # which has none of its fields
    assert written == pb.GenerateResponse()
    turn = read(pb.Message(role="user", content="hi"), Message)
    assert turn == Message("user", "hi")


def test_a_field_may_be_left_out_or_said_otherwise() -> None:
    message = pb.Sampling()
    write(Sampling(top_k=3, seed=5), message, without=("seed",))
    assert message == pb.Sampling(top_k=3)
    assert read(message, Sampling, seed=7) == Sampling(top_k=3, seed=7)


def test_a_bound_without_a_number_is_none_and_an_absent_one_the_default() -> None:
    message = pb.JsonOptions()
    write(JsonOptions(whitespace=None), message)
    assert message == pb.JsonOptions(whitespace=pb.Bound())
    assert read(message, JsonOptions) == JsonOptions(whitespace=None)


def test_a_tuple_in_a_tuple_is_a_message_of_its_fields_in_order() -> None:
    message = pb.Sampling()
    write(Sampling(logit_bias=((5, 1.5), (7, 0.0))), message)
    assert message.logit_bias == [pb.LogitBias(token=5, bias=1.5), pb.LogitBias(token=7)]
    assert read(message, Sampling).logit_bias == ((5, 1.5), (7, 0.0))


def test_an_integer_that_does_not_fit_is_refused_by_its_path() -> None:
    with pytest.raises(LimitExceededError, match=r"a\.top_k 2147483648 is above") as caught:
        write(Sampling(top_k=2**31), pb.Sampling(), "a")
    assert caught.value.field == "a.top_k"


def test_text_with_half_a_character_is_refused_by_its_path() -> None:
    with pytest.raises(RequestError, match="at offset 1, which is no character") as caught:
        write(Message("user", "a\ud800"), pb.Message(), "messages")
    assert caught.value.field == "messages.content"
    with pytest.raises(RequestError), encodable("prompt"):
        "\ud800".encode()


def test_members_of_enumerations_have_the_numbers_of_their_names() -> None:
    enumeration = pb.KeyOrder.DESCRIPTOR
    assert number_of(KeyOrder.ANY, enumeration) == pb.KEY_ORDER_ANY
    assert member_of(KeyOrder, enumeration, pb.KEY_ORDER_ANY) is KeyOrder.ANY
    assert member_of(KeyOrder, enumeration, pb.KEY_ORDER_UNSPECIFIED) is None
    assert member_of(KeyOrder, enumeration, 99) is None


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1.382286, 86_400.0, 1e9 + 0.5])
def test_times_come_back_as_they_were(seconds: float) -> None:
    assert seconds_of(duration_of(seconds)) == seconds
    assert seconds_of(Duration(seconds=2, nanos=500_000_000)) == 2.5
