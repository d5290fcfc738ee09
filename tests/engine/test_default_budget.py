"""A budget that nobody sets is lowered to the room beside the prompt; a set one has to fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from guided.engine.token_room import TokenRoom
from guided.errors import GuidedError, LimitExceededError, RequestError
from guided.spec import Beams, GenerationRequest, Reasoning, Sampling
from guided.v1 import generation_pb2 as pb
from guided.wire_request import decode_request, encode_request
from tests.engine.tiny_models import answers, make_engine, make_model, words

MODEL = make_model()
ROOM = TokenRoom(context_window=100, cache_tokens=100, block_size=4)
SMALL_CACHE = replace(ROOM, cache_tokens=60)


def asked(**options: Any) -> GenerationRequest:
    return GenerationRequest("x", **options)


@pytest.mark.parametrize(
    ("room", "request_", "prompt_length", "budget"),
    [
        (replace(ROOM, context_window=512, cache_tokens=512), asked(), 100, 256),
        (ROOM, asked(), 40, 60),
        (ROOM, asked(), 99, 1),
        (ROOM, asked(default_max_tokens=30), 40, 30),
        (ROOM, asked(default_max_tokens=30), 90, 10),
        (ROOM, asked(default_max_tokens=2**31 - 1), 40, 60),
        (ROOM, asked(max_tokens=7, default_max_tokens=30), 40, 7),
        (ROOM, asked(max_tokens=60), 40, 60),
        (SMALL_CACHE, asked(), 40, 20),
        # A candidate token of contrastive search takes a slot of the cache.
        (SMALL_CACHE, asked(sampling=Sampling(penalty_alpha=0.5, top_k=4)), 40, 16),
        # Two beams share twenty tokens; each may need three blocks of four besides.
        (replace(ROOM, cache_tokens=90), asked(beams=Beams(2)), 40, 13),
    ],
)
def test_budgets(
    room: TokenRoom, request_: GenerationRequest, prompt_length: int, budget: int
) -> None:
    assert room.budget_of(request_, prompt_length) == budget


@pytest.mark.parametrize(
    ("room", "request_", "prompt_length", "kind", "message"),
    [
        (
            ROOM,
            asked(max_tokens=61),
            40,
            RequestError,
            "the prompt has 40 tokens, and max_tokens is 61: 101 in all, but the context window "
            "holds 100; lower max_tokens to 60",
        ),
        (
            ROOM,
            asked(),
            100,
            LimitExceededError,
            "the prompt has 100 tokens and leaves no room for an answer: the context window holds "
            "100; shorten the prompt",
        ),
        (
            SMALL_CACHE,
            asked(),
            60,
            LimitExceededError,
            "the prompt has 60 tokens and leaves no room for an answer: the key/value cache takes "
            "60; shorten the prompt",
        ),
        (
            ROOM,
            asked(min_tokens=50),
            60,
            RequestError,
            "min_tokens is 50, but the prompt has 60 tokens and leaves room for 40; lower it, or "
            "shorten the prompt",
        ),
    ],
)
def test_refusals(
    room: TokenRoom,
    request_: GenerationRequest,
    prompt_length: int,
    kind: type[GuidedError],
    message: str,
) -> None:
    with pytest.raises(kind) as caught:
        room.budget_of(request_, prompt_length)
    assert type(caught.value) is kind
    assert str(caught.value) == message


@pytest.mark.parametrize(("prompt_length", "budget"), [(500, 12), (300, 212), (10, 256)])
def test_an_answer_without_a_budget_is_that_of_the_budget_that_fits(
    prompt_length: int, budget: int
) -> None:
    engine = make_engine(MODEL, context_window=512)
    left_out = GenerationRequest("x" * prompt_length)
    found = answers(engine, {"left out": left_out, "set": replace(left_out, max_tokens=budget)})
    assert found["left out"].tokens == found["set"].tokens
    assert found["left out"].finish_reason == found["set"].finish_reason


def test_the_shortest_answer_has_to_fit_into_what_the_prompt_leaves() -> None:
    engine = make_engine(MODEL, context_window=20)
    request = GenerationRequest("x" * 16, constraint=words("ababababab"))
    with pytest.raises(LimitExceededError) as caught:
        engine.submit("r", request)
    assert str(caught.value) == (
        "the prompt has 16 tokens and leaves room for 4, but the shortest answer known has 5 "
        "tokens; shorten the prompt"
    )


def test_the_shortest_answer_has_to_fit_into_the_default() -> None:
    engine = make_engine(MODEL)
    request = GenerationRequest("x", constraint=words("ababababab"), default_max_tokens=4)
    with pytest.raises(LimitExceededError) as caught:
        engine.submit("r", request)
    assert str(caught.value) == (
        "the budget is 4, but the shortest answer known has 5 tokens; allow at least 5"
    )


def test_a_message_says_whether_a_budget_is_set() -> None:
    """A set budget that equals the default is still a set one."""
    for budget in (None, 256, 1):
        message = encode_request(asked(max_tokens=budget))
        assert message.HasField("max_tokens") == (budget is not None)
        assert decode_request(message) == asked(max_tokens=budget)
    assert decode_request(pb.GenerateRequest(text="x")).max_tokens is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"default_max_tokens": 0}, "default_max_tokens 0 is below 1"),
        ({"min_tokens": 257}, "min_tokens 257 is above default_max_tokens (256)"),
        (
            {"reasoning": Reasoning(256)},
            "the thoughts may have 256 tokens, but default_max_tokens is 256 for thoughts and "
            "answer together; raise max_tokens, or lower it",
        ),
    ],
)
def test_options_that_fit_no_default(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        asked(**options)
    assert str(caught.value) == message
