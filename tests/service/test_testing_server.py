"""The server without a model that users test with."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from openai import OpenAI
from pydantic import BaseModel, Field

from guided import testing
from guided.client import AsyncClient, Client, Request, wait_until_serving
from guided.errors import (
    IncompleteAnswerError,
    InvalidConstraintError,
    OutOfMemoryError,
    RequestError,
    UnsupportedFeatureError,
)
from guided.spec import Beams, Choice, FinishReason, JsonSchema, Message, Regex


class Person(BaseModel):
    name: str = Field(max_length=30)
    age: int = Field(ge=0, le=150)


ADA = '{"name":"Ada","age":36}'


def test_answers_are_those_that_the_test_gives_then_the_shortest(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply(ADA, "yes")
    answer = asking.generate("Invent a person.", Person)
    assert answer.value == Person(name="Ada", age=36)
    assert answer.finish_reason is FinishReason.COMPLETE
    assert asking.generate("Yes or no?", grammar=Choice(["yes", "no"])).text == "yes"
    assert asking.generate("Invent a person.", Person).value == Person(name="", age=0)
    assert asking.generate("Hello.").text == "An answer without a model."
    assert [request.prompt for request in model_free.requests] == [
        (Message("user", "Invent a person."),),
        (Message("user", "Yes or no?"),),
        (Message("user", "Invent a person."),),
        (Message("user", "Hello."),),
    ]
    assert isinstance(model_free.requests[0].constraint, JsonSchema)


def test_a_reply_that_no_server_would_give_is_an_error_that_shows_one(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply('{"name":"Ada","age":-1}')
    with pytest.raises(RequestError) as caught:
        asking.generate("?", Person)
    assert str(caught.value) == (
        """the reply '{"name":"Ada","age":-1}' is no answer to this request: it leaves the """
        """constraint after '{"name":"Ada","age":'; give one that fits, such as """
        """'{"name":"Ada","age":0}'"""
    )
    model_free.reply('{"name":"Ad')
    with pytest.raises(RequestError, match=re.escape("""such as '{"name":"Ad","age":0}'""")):
        asking.generate("?", Person)


@pytest.mark.parametrize(
    "reply", [Person(name="Ada", age=36), {"name": "Ada", "age": 36}], ids=["model", "dict"]
)
def test_a_reply_may_be_a_value(model_free: testing.Server, asking: Client, reply: Any) -> None:
    model_free.reply(reply, [reply])
    assert asking.generate("?", Person).text == ADA
    assert asking.generate("?", list[Person]).text == f"[{ADA}]"


@pytest.mark.parametrize("reply", [5, None, ValueError("x"), {"a": object()}])
def test_what_is_no_reply_is_refused_where_it_is_given(
    model_free: testing.Server, asking: Client, reply: Any
) -> None:
    for give in (lambda: model_free.reply(ADA, reply), lambda: testing.Server(reply)):
        with pytest.raises(RequestError, match=r"no reply; pass the text|has no JSON"):
            give()
    assert asking.generate("?", Person).value.name == ""


def test_a_reply_with_needless_white_space_is_refused_for_it(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply(json.dumps({"name": "Ada", "age": 36}))
    with pytest.raises(RequestError) as caught:
        asking.generate("?", Person)
    assert str(caught.value) == (
        """the reply '{"name": "Ada", "age": 36}' is no answer to this request: it leaves the """
        """constraint after '{"name":', with white space; leave out white space that JSON """
        """options do not allow, or give a dict or a model"""
    )


def test_an_error_among_the_replies_is_met_by_the_caller(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply(OutOfMemoryError("no room"), ADA)
    with pytest.raises(OutOfMemoryError, match="no room"):
        asking.with_options(retries=0).generate("?", Person)
    assert asking.generate("?", Person).text == ADA


def test_with_a_temperature_answers_are_drawn_by_their_seed(asking: Client) -> None:
    texts = {asking.generate("?", Person, temperature=1, seed=seed).text for seed in range(20)}
    assert len(texts) > 10
    for text in texts:
        Person.model_validate_json(text)
    several = asking.generate("?", Person, temperature=1, seed=3, n=3)
    alone = [asking.generate("?", Person, temperature=1, seed=3 + i).text for i in range(3)]
    assert [one.text for one in several.candidates] == alone


def test_a_random_answer_ends_within_its_tokens_or_on_the_shortest_way(asking: Client) -> None:
    schema = {"type": "array", "items": {"type": "string", "minLength": 5}, "minItems": 2}
    for seed in range(10):
        answer = asking.generate("?", schema=schema, temperature=1, seed=seed, max_tokens=3)
        assert len(json.loads(answer.text)) >= 2
        assert answer.finish_reason is FinishReason.LENGTH_CLOSED
        with pytest.raises(IncompleteAnswerError, match="the answer was cut short") as caught:
            asking.generate(
                "?",
                schema=schema,
                temperature=1,
                seed=seed,
                max_tokens=3,
                on_incomplete="error",
            )
        assert caught.value.text == answer.text


def test_an_answer_that_is_whole_is_no_error_where_incomplete_ones_are(
    model_free: testing.Server, asking: Client
) -> None:
    assert asking.generate("?", Person, on_incomplete="error").value == Person(name="", age=0)
    model_free.reply(ADA)
    with asking.stream("?", Person, on_incomplete="error") as stream:
        assert "".join(stream) == ADA


def test_a_stream_comes_in_pieces_and_stops_where_it_is_told(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply("one, two. three.")
    with asking.stream("Count.", stop=[".", ", t"]) as stream:
        pieces = list(stream)
    assert pieces == ["one"]
    assert stream.answer.finish_reason is FinishReason.STOP_SEQUENCE
    model_free.reply(ADA)
    with asking.stream("?", Person) as stream:
        assert [event.pointer for event in stream.values()] == ["/name", "/age", ""]


def test_requests_and_constraints_are_checked_as_by_any_server(
    model_free: testing.Server, asking: Client
) -> None:
    with pytest.raises(InvalidConstraintError, match="line 1, column 2"):
        asking.generate("?", schema="{")
    with pytest.raises(UnsupportedFeatureError):
        asking.generate("?", grammar=Regex(r"(a)\1"))
    assert model_free.requests == ()
    assert asking.grammars.check(Person).shortest_answer == '{"name":"","age":0}'
    stored = asking.grammars.compile(Person)
    assert asking.generate("?", Person, grammar=stored.constraint).value == Person(name="", age=0)
    assert asking.model().name == "no model"
    assert asking.stats().answered == {FinishReason.COMPLETE: 1}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request("?", beams=Beams(2)), "beams needs a model, and this is a server without one"),
        (Request("?", top_logprobs=0), "top_logprobs needs a model"),
        (Request("?", stop_tokens=[3]), "stop_tokens needs a model"),
        (Request("?", min_tokens=3), "min_tokens needs a model"),
        (Request("?", stop="a", stop_after=3), "stop_after needs a model"),
    ],
)
def test_what_only_a_model_knows_is_refused(
    asking: Client, request_: Request[str], message: str
) -> None:
    (outcome,) = asking.batch([request_])
    assert isinstance(outcome, RequestError)
    assert str(outcome).startswith(message)


def test_asyncio_clients_and_many_at_once(model_free: testing.Server) -> None:
    async def ask() -> list[str]:
        async with AsyncClient(model_free.address) as asking:
            answers = [asking.generate("?", Choice([str(i)])) for i in range(50)]  # type: ignore[arg-type]
            return [answer.text for answer in await asyncio.gather(*answers)]

    assert asyncio.run(ask()) == [str(i) for i in range(50)]


def test_health_says_that_it_serves(model_free: testing.Server) -> None:
    wait_until_serving(model_free.address, timeout=10)


def test_openai_clients_are_answered_where_that_is_asked_for(model_free: testing.Server) -> None:
    with pytest.raises(RequestError, match="does not serve HTTP; make it with http=True"):
        _ = model_free.http_url
    with pytest.raises(RequestError, match="the server is not started; use it in a with"):
        _ = testing.Server().address
    with testing.Server(ADA, http=True) as both:
        openai = OpenAI(base_url=both.http_url, api_key="none")
        answer = openai.chat.completions.parse(
            model="no model",
            messages=[{"role": "user", "content": "Invent a person."}],
            response_format=Person,
        )
        openai.close()
    assert answer.choices[0].message.parsed == Person(name="Ada", age=36)
