"""Answers that their type refuses are requested again, and the cost of all tries is reported."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, field_validator

import guided
from guided import testing
from guided.client import AsyncClient, Client, RawPrompt, Request
from guided.errors import AnswerValidationError, DeadlineExceededError, RequestError
from guided.spec import Message
from guided.spec.tool_format import HERMES


class Age(BaseModel):
    years: int

    @field_validator("years")
    @classmethod
    def is_odd(cls, years: int) -> int:
        if years % 2 == 0:
            raise ValueError(f"{years} is even")
        return years


FIRST, SECOND, GOOD = '{"years":2}', '{"years":40}', '{"years":7}'
REASON = "years: Value error, 2 is even"


def test_the_model_is_told_its_answer_and_the_reason(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply(FIRST, SECOND, GOOD)
    answer = asking.generate("How old?", Age, max_retries=5)
    assert (answer.value, answer.tries) == (Age(years=7), 3)
    assert answer.usage.sampled_tokens == len(FIRST + SECOND + GOOD)
    prompts = [request.prompt for request in model_free.requests]
    read = [len(asking.tokenize(prompt).tokens) for prompt in prompts if isinstance(prompt, tuple)]
    assert answer.usage.prompt_tokens == sum(read) > 3
    first, second, third = prompts
    assert first == (Message("user", "How old?"),)
    told = f"This answer is refused: {REASON}\nAnswer again, with that put right."
    assert second == (*first, Message("assistant", FIRST), Message("user", told))
    assert isinstance(third, tuple)
    assert third[2:4] == (second[2], Message("assistant", SECOND))
    assert len({request.constraint for request in model_free.requests}) == 1


def test_options_that_can_be_read_once_are_those_of_every_try(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply(FIRST, GOOD)
    words = ["unlikely"]
    tools = iter([guided.Tool("weather", "The weather.", "{}")])
    options: dict[str, Any] = {"stop": iter(words), "tools": tools, "show_schema": True}
    answer = asking.generate("How old?", Age, max_retries=1, **options)
    assert answer.tries == 2
    first, second = model_free.requests
    assert first.stop == second.stop == ("unlikely",)
    assert first.tools == second.tools is not None
    # They are recorded as requested, not as rewritten for a model without tools.
    assert first.show_schema
    assert isinstance(first.constraint, guided.JsonSchema)


def test_without_a_try_left_the_error_tells_what_all_of_them_cost(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply(FIRST, FIRST, SECOND)
    with pytest.raises(AnswerValidationError) as caught:
        asking.generate("How old?", Age, max_retries=2)
    error = caught.value
    assert (error.tries, error.text, error.reason) == (3, SECOND, REASON.replace("2", "40"))
    assert error.usage.sampled_tokens == len(FIRST + FIRST + SECOND)
    model_free.reply(FIRST)
    with pytest.raises(AnswerValidationError) as alone:
        asking.generate("How old?", Age)
    assert alone.value.tries == 1


def age_of(years: Annotated[int, AfterValidator(Age.is_odd)]) -> str:
    """Guess."""
    return f"{years} years"


def test_the_model_is_told_of_refused_calls_as_their_results(
    model_free: testing.Server, asking: Client
) -> None:
    refused = "\n".join(HERMES.call("age_of", years) for years in (FIRST, GOOD))
    model_free.reply(refused, HERMES.call("age_of", GOOD))
    answer = asking.generate("How old?", tools=[age_of], tool_choice="required", max_retries=1)
    (call,) = answer.tool_calls
    assert (answer.tries, call.value()) == (2, "7 years")
    told = model_free.requests[1].prompt
    assert isinstance(told, tuple)
    asked, said, *results = told
    assert asked == Message("user", "How old?")
    assert isinstance(said, Message)
    assert [call.arguments for call in said.tool_calls] == [FIRST, GOOD]
    told = f"Nothing was called: in the call of age_of, {REASON}\nCall again, with that put right."
    assert results == [Message("tool", told, tool_call_id=call.id) for call in said.tool_calls]


def test_each_request_of_a_batch_is_tried_again_by_itself(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply(*[GOOD] * 3)
    requests = [Request(f"{i}", Age, max_retries=9) for i in range(3)]
    model_free.reply(*[FIRST] * 4)
    more = [Request(f"{i}", Age, max_retries=1) for i in range(2)]
    outcomes: list[Any] = asking.with_options(concurrency=1).batch([*requests, *more])
    assert [outcome.tries for outcome in outcomes] == [1, 1, 1, 2, 2]
    assert [type(outcome) for outcome in outcomes[3:]] == [AnswerValidationError] * 2
    model_free.reply(FIRST, GOOD)
    (mended,) = asking.batch([Request("?", Age, max_retries=1)])
    assert not isinstance(mended, Exception)
    assert (mended.value, mended.tries) == (Age(years=7), 2)


def test_the_asyncio_client_tries_again_alike(model_free: testing.Server) -> None:
    async def ask() -> tuple[Any, list[Any]]:
        async with AsyncClient(model_free.address) as asking:
            model_free.reply(FIRST, GOOD)
            alone = await asking.generate("?", Age, max_retries=1)
            model_free.reply(FIRST, GOOD)
            return alone, await asking.batch([Request("?", Age, max_retries=1)])

    alone, batch = asyncio.run(ask())
    assert [(one.value, one.tries) for one in (alone, *batch)] == [(Age(years=7), 2)] * 2


def test_each_try_has_a_name_of_its_own_and_several_answers_are_one_try(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply(FIRST, GOOD)
    assert asking.generate("?", Age, max_retries=1, request_id="r").request_id == "r/2"
    # The same id means the same request, so each of its tries is answered as before.
    assert asking.generate("?", Age, max_retries=1, request_id="r").tries == 2
    assert len(model_free.requests) == 2
    long = "x" * 128
    model_free.reply(FIRST, GOOD)
    assert asking.generate("?", Age, max_retries=1, request_id=long).request_id == long[:120] + "/2"
    model_free.reply(FIRST, SECOND, FIRST, GOOD)
    answer = asking.generate("?", Age, max_retries=1, temperature=1, n=2)
    assert (answer.tries, answer.value) == (2, Age(years=7))


def test_all_tries_share_the_time_of_the_call(model_free: testing.Server, asking: Client) -> None:
    model_free.reply(*[FIRST] * 2000)
    with pytest.raises(DeadlineExceededError):
        asking.generate("?", Age, max_retries=10**6, timeout=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_retries": -1}, "max_retries -1 is below 0"),
        ({"max_retries": "2"}, "max_retries '2' is not an integer; pass an integer"),
        (
            {"max_retries": 1, "prompt": RawPrompt("x")},
            "max_retries needs a conversation, in which the model is told what was wrong; "
            "pass the prompt as a string or as messages",
        ),
    ],
)
def test_what_cannot_be_tried_again_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        Request(**{"prompt": "x", **options})
    assert str(caught.value) == message
    assert caught.value.field == "max_retries"


def test_a_stream_is_not_tried_again(asking: Client) -> None:
    with pytest.raises(RequestError, match="a stream has no max_retries: what was streamed is not"):
        asking.stream("?", Age, max_retries=1)
