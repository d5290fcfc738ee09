"""The records of engines, and of those that have ended."""

from __future__ import annotations

from typing import Any

import pytest

from guided.v1 import generation_pb2 as pb
from guided_service.ray.affinity import Affinity, affinity_of
from guided_service.ray.routing import Routing

IDLE = {0: 0.0, 1: 0.0}


def test_nothing_is_kept_of_engines_that_have_ended() -> None:
    routing = Routing[int](16, str)
    shared = Affinity((b"shared",), b"constraint", 300, 256)
    for engine in IDLE:
        routing.sent(shared, engine)
        routing.sent(Affinity((str(engine).encode(),)), engine)
    routing.keep(IDLE.keys())
    assert routing.choices(shared, IDLE)[0] == [0, 1]
    assert len(routing) == 4
    routing.keep({1})
    assert routing.choices(shared, IDLE)[0] == [1]
    assert len(routing) == 3, "what only the other one had is gone"


def test_what_is_kept_does_not_grow_with_those_that_came_and_went() -> None:
    routing = Routing[int](16, str)
    for engine in range(100):
        routing.sent(Affinity((str(engine).encode(),)), engine)
        routing.keep({engine})
    assert len(routing) == 1


def test_the_weight_of_a_constraint_is_that_of_the_request() -> None:
    routing = Routing[int](16, str)
    routing.sent(Affinity((b"a", b"b")), 0)  # 512 bytes
    routing.sent(Affinity((), b"constraint"), 1)
    for weight, best in ((1, [0]), (511, [0]), (512, [0, 1]), (513, [1])):
        asked = Affinity((b"a", b"b"), b"constraint", 600, weight)
        assert routing.choices(asked, IDLE)[0] == best


def of_turns(*turns: pb.Message) -> pb.GenerateRequest:
    return pb.GenerateRequest(messages=pb.Messages(messages=turns))


def of_text(text: str) -> pb.GenerateRequest:
    return pb.GenerateRequest(text=text)


def of_one_turn(text: str) -> pb.GenerateRequest:
    return of_turns(pb.Message(role="user", content=text))


def of_two_turns(text: str) -> pb.GenerateRequest:
    system = pb.Message(role="system", content="Be brief.")
    return of_turns(system, pb.Message(role="user", content=text))


def of_parts(text: str) -> pb.GenerateRequest:
    return of_turns(pb.Message(role="user", parts=[pb.ContentPart(text=text)]))


def of_tokens(text: str) -> pb.GenerateRequest:
    """A token for each four characters."""
    return pb.GenerateRequest(tokens=pb.Tokens(tokens=map(ord, text[::4])))


@pytest.mark.parametrize("request_of", [of_text, of_one_turn, of_two_turns, of_parts, of_tokens])
def test_prompts_of_any_form_that_begin_alike_have_the_same_beginnings(request_of: Any) -> None:
    shared = "x" * 2200
    one, other = (affinity_of(request_of(shared + end)) for end in ("?", "y" * 900))
    assert one.beginnings[:4] == other.beginnings[:4]
    assert len(other.beginnings) == 4
    assert one.prompt_bytes < other.prompt_bytes
    assert affinity_of(request_of("z" + shared)).beginnings[0] != one.beginnings[0]


def test_turns_of_others_make_other_beginnings() -> None:
    said = {
        affinity_of(of_turns(pb.Message(role=role, content="x" * 300))).beginnings
        for role in ("system", "user", "assistant")
    }
    assert len(said) == 3


def test_thoughts_of_a_turn_are_a_part_of_its_beginning() -> None:
    thoughts = {
        affinity_of(
            of_turns(pb.Message(role="assistant", reasoning=thought, content="x" * 300))
        ).beginnings
        for thought in ("", "Hm.", "So.")
    }
    assert len(thoughts) == 3
