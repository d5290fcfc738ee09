"""A request that cannot be served is refused before its first token, with the numbers."""

from __future__ import annotations

from typing import Any

import pytest

from guided.errors import GuidedError, LimitExceededError, RequestError, UnknownModelError
from guided.spec import GenerationRequest, JsonSchema, Message
from tests.engine.tiny_models import answers, make_engine, make_model, words

MODEL = make_model()

REFUSED: list[tuple[dict[str, Any], GenerationRequest, type[RequestError], str]] = [
    (
        {"context_window": 20},
        GenerationRequest(prompt="hello", max_tokens=16),
        RequestError,
        "the prompt has 5 tokens, and max_tokens is 16: 21 in all, but the context window holds "
        "20; lower max_tokens to 15",
    ),
    (
        {"context_window": 20},
        GenerationRequest(prompt="x" * 20, max_tokens=1),
        RequestError,
        "the prompt has 20 tokens, and max_tokens is 1: 21 in all, but the context window holds "
        "20; shorten the prompt",
    ),
    (
        {"cache_tokens": 20},
        GenerationRequest(prompt="hello", max_tokens=16),
        LimitExceededError,
        "the prompt has 5 tokens, and max_tokens is 16: 21 in all, but the key/value cache takes "
        "20; lower max_tokens to 15, or give the engine a larger cache",
    ),
    (
        {},
        GenerationRequest(prompt="hello", model="other"),
        UnknownModelError,
        "model is 'other', but the server has 'tiny'; name one of these, or leave model out for "
        "the first",
    ),
    (
        {"render": lambda *_: ()},
        GenerationRequest(prompt="hello"),
        RequestError,
        "the prompt has no tokens",
    ),
    (
        {},
        GenerationRequest(prompt="hello", constraint=words("a"), report=True),
        RequestError,
        "a report is made by the server, beside the answer; leave it out; guided.check reports "
        "without a model",
    ),
]


@pytest.mark.parametrize(("options", "request_", "kind", "message"), REFUSED)
def test_refusals(
    options: dict[str, Any], request_: GenerationRequest, kind: type[RequestError], message: str
) -> None:
    engine = make_engine(MODEL, **options)
    with pytest.raises(kind) as caught:
        engine.submit("r", request_)
    assert type(caught.value) is kind
    assert str(caught.value) == message
    assert not engine.has_work


def test_a_request_that_just_fits_is_taken() -> None:
    engine = make_engine(MODEL, context_window=20, cache_tokens=20)
    result = answers(engine, {"r": GenerationRequest(prompt="hello", max_tokens=15)})["r"]
    assert len(result.tokens) == 15


def test_a_constraint_that_does_not_compile_is_refused_and_the_engine_goes_on() -> None:
    error = RequestError("not this one", field="constraint")

    def refuse(constraint: JsonSchema | None) -> Any:  # noqa: ARG001
        raise error

    engine = make_engine(MODEL, start=refuse)
    with pytest.raises(GuidedError, match="not this one"):
        engine.submit("r", GenerationRequest(prompt="hello", constraint=words("a")))
    assert not engine.has_work


def test_an_id_is_in_use_until_its_outcome_is_collected() -> None:
    """An answer that is forced from beginning to end is complete before the first step."""
    engine = make_engine(MODEL)
    request = GenerationRequest(prompt="hello", constraint=words("ab"), max_tokens=8)
    engine.submit("r", request)
    assert engine.stats().running == engine.stats().waiting == 0
    with pytest.raises(RequestError, match="request id 'r' is in use"):
        engine.submit("r", request)
    assert [finished.request_id for finished in engine.step()] == ["r"]
    engine.submit("r", request)


def test_an_id_in_use_is_refused_until_its_request_is_over() -> None:
    engine = make_engine(MODEL)
    request = GenerationRequest(prompt="hello", max_tokens=2)
    engine.submit("r", request)
    with pytest.raises(RequestError, match="request id 'r' is in use"):
        engine.submit("r", request)
    engine.step()
    with pytest.raises(RequestError, match="request id 'r' is in use"):
        engine.submit("r", request)
    engine.step()
    assert set(answers(engine, {"r": request})) == {"r"}


def test_the_schema_is_shown_only_where_the_request_says_so() -> None:
    shown: list[str | None] = []

    def render(prompt: object, schema: str | None, *_: object) -> tuple[int, ...]:  # noqa: ARG001
        shown.append(schema)
        return (40,)

    engine = make_engine(MODEL, render=render)
    prompt = (Message("user", "hi"),)
    for show in (True, False):
        engine.submit(
            f"{show}",
            GenerationRequest(prompt=prompt, constraint=words("a"), show_schema=show),
        )
    assert shown == ['["a"]', None]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_batch": 0}, "max_batch 0 is not between 1 and step_tokens (512)"),
        ({"max_batch": 9, "step_tokens": 8}, "max_batch 9 is not between 1 and step_tokens (8)"),
        ({"step_tokens": 0}, "step_tokens 0 is below 1"),
        ({"max_batch": 0, "step_tokens": -1}, "step_tokens -1 is below 1"),
        ({"cache_tokens": 0}, "cache_tokens 0 leave no room for a request"),
    ],
)
def test_an_engine_that_could_serve_nobody_is_refused(
    options: dict[str, int], message: str
) -> None:
    with pytest.raises(RequestError) as caught:
        make_engine(MODEL, **options)
    assert str(caught.value) == message
    assert caught.value.field == message.split()[0]
