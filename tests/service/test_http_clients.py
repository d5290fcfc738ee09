"""OpenAI's own client, unchanged, against a server of a tiny model whose words mean nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Literal

import jsonschema
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from pydantic import BaseModel, Field

import guided
from guided.client import Client
from guided.spec.closed_objects import close_objects
from tests.kit.tiny_model import save_tiny_model
from tests.service.http_server import HttpServer, serving_http
from tests.service.server_process import REAL_SERVER

ASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Who is it?"}]


class Person(BaseModel):
    """Somebody."""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)
    kind: Literal["friend", "stranger"]


class Weather(BaseModel):
    """Tell the weather of a place."""

    city: str = Field(max_length=8)
    days: int = Field(ge=1, le=9)


class Stop(BaseModel):
    """Stop talking."""

    why: Literal["late", "bored"]


TOOLS: Any = [openai.pydantic_function_tool(Weather), openai.pydantic_function_tool(Stop)]
SCHEMAS: list[dict[str, Any]] = [
    Person.model_json_schema(),
    {"type": "object", "properties": {"a": {"type": "boolean"}}},
    {"enum": ["x", 1, None, {"a": [1]}]},
    {"type": "array", "items": {"type": "integer", "minimum": -5, "maximum": 5}, "maxItems": 4},
    {"type": "string", "pattern": "^[a-f]{2,6}$"},
    {
        "oneOf": [
            {
                "type": "object",
                "properties": {"k": {"const": kind}, kind: {"type": "integer", "maximum": 9}},
                "required": ["k", kind],
            }
            for kind in ("a", "b")
        ]
    },
    {
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "of": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}
                },
            }
        },
        "$ref": "#/$defs/tree",
    },
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder = tmp_path_factory.mktemp("tiny")
    settings = {"model": str(save_tiny_model(folder / "model")), "dtype": "float32"}
    with serving_http(REAL_SERVER, folder / "log", settings, timeout=300) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: HttpServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def model(client: openai.OpenAI) -> str:
    (listed,) = client.models.list().data
    assert client.models.retrieve(listed.id) == listed
    return listed.id


def reason_of(completion: ChatCompletion) -> str:
    """The exact reason, given beside OpenAI's."""
    told: Any = completion.choices[0].model_extra
    return str(told["guided"]["finish_reason"])


def test_text_comes_with_its_cost_and_is_that_of_grpc(
    client: openai.OpenAI, model: str, server: HttpServer
) -> None:
    with Client(server.process.address) as ours:
        for temperature in (0.0, 0.9):
            answer = client.chat.completions.create(
                model=model, messages=ASK, temperature=temperature, seed=11, max_tokens=12
            )
            same = ours.generate("Who is it?", temperature=temperature, seed=11, max_tokens=12)
            (choice,) = answer.choices
            assert choice.message.content == same.text
            assert choice.finish_reason == ("length" if "length" in same.finish_reason else "stop")
            assert answer.usage is not None
            assert answer.usage.prompt_tokens == same.usage.prompt_tokens
            assert answer.usage.completion_tokens == same.usage.output_tokens
            named = client.chat.completions.create(
                model=model,
                messages=ASK,
                temperature=temperature,
                seed=11,
                max_tokens=60,
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "person", "schema": SCHEMAS[0]},
                },
            )
            held = ours.generate(
                "Who is it?",
                schema=close_objects(SCHEMAS[0]),
                temperature=temperature,
                seed=11,
                max_tokens=60,
            )
            assert named.choices[0].message.content == held.text


def test_a_model_is_parsed_whole_and_from_a_stream(client: openai.OpenAI, model: str) -> None:
    options: dict[str, Any] = {"model": model, "messages": ASK, "seed": 3, "max_tokens": 60}
    parsed = client.chat.completions.parse(**options, response_format=Person)
    person = parsed.choices[0].message.parsed
    assert isinstance(person, Person)
    with client.chat.completions.stream(
        **options, response_format=Person, stream_options={"include_usage": True}
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].message.parsed == person
    assert final.usage is not None
    assert parsed.usage is not None
    assert final.usage.completion_tokens == parsed.usage.completion_tokens


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_an_answer_fits_its_schema(
    client: openai.OpenAI, model: str, schema: dict[str, Any]
) -> None:
    validator = jsonschema.Draft202012Validator(schema)
    for strict in (None, True, False):
        for seed in range(4):
            answer = client.chat.completions.create(
                model=model,
                messages=ASK,
                temperature=1.5,
                seed=seed,
                max_tokens=50,
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": schema, "strict": strict},
                },
            )
            # Also if the budget closed it: clients discard answers whose reason is "length".
            assert answer.choices[0].finish_reason == "stop"
            assert reason_of(answer) in ("complete", "stop", "length_closed")
            content = answer.choices[0].message.content
            assert content is not None
            validator.validate(json.loads(content))


def test_a_small_budget_closes_an_answer_and_breaks_text_off(
    client: openai.OpenAI, model: str
) -> None:
    parsed = client.chat.completions.parse(
        model=model,
        messages=ASK,
        response_format=Person,
        max_tokens=40,
        seed=1,
        logit_bias={},
        temperature=1.9,
    )
    assert parsed.choices[0].message.parsed is not None
    text = client.chat.completions.create(model=model, messages=ASK, max_tokens=3, seed=5)
    assert text.choices[0].finish_reason == "length"
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.parse(
            model=model, messages=ASK, response_format=Person, max_tokens=2
        )
    assert caught.value.param == "max_tokens"


# Tools


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "Stop"}}])
def test_calls_are_parsed_whole_and_from_a_stream(
    client: openai.OpenAI, model: str, choice: Any
) -> None:
    options: dict[str, Any] = {
        "model": model,
        "messages": ASK,
        "tools": TOOLS,
        "tool_choice": choice,
        "parallel_tool_calls": False,
        "max_tokens": 80,
    }
    for seed in range(3):
        answer = client.chat.completions.parse(**options, seed=seed)
        (call,) = answer.choices[0].message.tool_calls or []
        assert isinstance(call.function.parsed_arguments, Weather | Stop)
        assert answer.choices[0].finish_reason == "tool_calls"
        if choice != "required":
            assert call.function.name == "Stop"
        with client.chat.completions.stream(**options, seed=seed) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion()
        (streamed,) = final.choices[0].message.tool_calls or []
        assert streamed.function.parsed_arguments == call.function.parsed_arguments
        assert final.choices[0].finish_reason == "tool_calls"
        assert not final.choices[0].message.content


def test_a_conversation_goes_on_behind_its_calls(client: openai.OpenAI, model: str) -> None:
    options: dict[str, Any] = {"model": model, "tools": TOOLS, "max_tokens": 60, "seed": 2}
    first = client.chat.completions.create(messages=ASK, tool_choice="required", **options)
    message = first.choices[0].message
    told: Any = [
        *ASK,
        message,
        *(
            {"role": "tool", "tool_call_id": call.id, "content": "rain"}
            for call in message.tool_calls or ()
        ),
    ]
    second = client.chat.completions.create(messages=told, tool_choice="none", **options)
    assert second.choices[0].message.tool_calls is None
    assert isinstance(second.choices[0].message.content, str)
    assert second.usage is not None
    assert first.usage is not None
    assert second.usage.prompt_tokens > 20


REPLAYED: list[dict[str, Any]] = [
    {"tools": TOOLS, "tool_choice": "required"},
    {"response_format": Person},
]


# openai warns of a field that its own ``parse`` has put into a message.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("fields", REPLAYED, ids=["calls", "model"])
def test_what_a_client_got_goes_back_as_it_is(
    client: openai.OpenAI, model: str, fields: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"model": model, "max_tokens": 80, "seed": 3}
    parsed = client.chat.completions.parse(messages=ASK, **options, **fields)
    with client.chat.completions.stream(messages=ASK, **options, **fields) as stream:
        streamed = stream.until_done().get_final_completion()
    for completion in (parsed, streamed):
        message = completion.choices[0].message
        answers = [
            {
                "role": "tool",
                "tool_call_id": call.id,
                "name": call.function.name,
                "content": [{"type": "text", "text": "rain"}],
            }
            for call in message.tool_calls or ()
        ]
        assert bool(answers) == ("tools" in fields)
        for sent in (message, message.to_dict()):
            told: Any = [*ASK, sent, *answers]
            after = client.chat.completions.create(messages=told, **options)
            assert isinstance(after.choices[0].message.content, str)


@pytest.mark.parametrize("fields", REPLAYED, ids=["calls", "model"])
def test_what_a_client_got_of_a_response_goes_back_as_it_is(
    client: openai.OpenAI, model: str, fields: dict[str, Any]
) -> None:
    options: dict[str, Any] = {
        "model": model,
        "max_output_tokens": 80,
        "extra_body": {"seed": 3},
        "include": ["reasoning.encrypted_content"],
    }
    asking: Any = {"input": ASK}
    if "tools" in fields:
        tools = [{"type": "function", **tool["function"]} for tool in TOOLS]
        asking |= {"tools": tools, "tool_choice": "required"}
    if "response_format" in fields:
        asking |= {"text_format": fields["response_format"]}
    parsed = client.responses.parse(**options, **asking)
    quiet: Any = {"stream_options": {"include_obfuscation": False}}
    with client.responses.stream(**options, **asking, **quiet) as stream:
        streamed = stream.until_done().get_final_response()
    for response in (parsed, streamed):
        answers = [
            {"type": "function_call_output", "call_id": item.call_id, "output": "rain"}
            for item in response.output
            if item.type == "function_call"
        ]
        assert bool(answers) == ("tools" in fields)
        for sent in (response.output, [item.to_dict() for item in response.output]):
            told: Any = [*ASK, *sent, *answers]
            after = client.responses.create(input=told, **options)
            assert after.output[0].type == "message"


def test_tools_and_a_schema_are_one_grammar(client: openai.OpenAI, model: str) -> None:
    told = set()
    for seed in range(12):
        answer = client.chat.completions.parse(
            model=model,
            messages=ASK,
            tools=TOOLS,
            response_format=Person,
            parallel_tool_calls=False,
            temperature=2,
            seed=seed,
            max_tokens=120,
        )
        message = answer.choices[0].message
        assert bool(message.parsed) != bool(message.tool_calls)
        for call in message.tool_calls or ():
            json.loads(call.function.arguments)
        told.add(answer.choices[0].finish_reason)
    assert told == {"stop", "tool_calls"}


def test_several_answers_and_log_probabilities_come_as_asked_for(
    client: openai.OpenAI, model: str
) -> None:
    options: dict[str, Any] = {
        "model": model,
        "messages": ASK,
        "n": 3,
        "seed": 4,
        "max_tokens": 8,
        "logprobs": True,
        "top_logprobs": 2,
    }
    answer = client.chat.completions.create(**options)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    for choice in answer.choices:
        assert choice.logprobs is not None
        tokens = choice.logprobs.content or []
        said = b"".join(bytes(token.bytes or ()) for token in tokens)
        assert said.decode(errors="replace") == choice.message.content
        for token in tokens:
            assert token.logprob <= 0
            assert len(token.top_logprobs) == 2
    single: dict[str, Any] = options | {"n": 1, "stream": True}
    scored = [chunk.choices[0] for chunk in client.chat.completions.create(**single)]
    parts = [part.logprobs.content or [] for part in scored if part.logprobs is not None]
    assert len(parts) > 2
    came = [token for part in parts for token in part]
    assert answer.choices[0].logprobs is not None
    # In a batch of three, numbers are rounded differently.
    for token, same in zip(came, answer.choices[0].logprobs.content or (), strict=True):
        assert token.bytes == same.bytes
        assert token.logprob == pytest.approx(same.logprob, abs=1e-4)
    chunks = [*client.chat.completions.create(**options, stream=True)]
    texts = {0: "", 1: "", 2: ""}
    for chunk in chunks:
        for part in chunk.choices:
            texts[part.index] += part.delta.content or ""
    assert [*texts.values()] == [choice.message.content for choice in answer.choices]


def test_a_text_goes_on(client: openai.OpenAI, model: str) -> None:
    options: dict[str, Any] = {"model": model, "prompt": "Once", "seed": 6, "logprobs": 1}
    answer = client.completions.create(**options)
    (choice,) = answer.choices
    assert answer.usage is not None
    assert answer.usage.completion_tokens <= 16
    assert choice.logprobs is not None
    assert len(choice.logprobs.tokens or ()) == answer.usage.completion_tokens
    streamed = client.completions.create(**options, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == choice.text
    two: dict[str, Any] = options | {"n": 2}
    texts = {0: "", 1: ""}
    for chunk in client.completions.create(**two, stream=True):
        for part in chunk.choices:
            texts[part.index] += part.text
    assert [*texts.values()] == [one.text for one in client.completions.create(**two).choices]
    one_of_two = client.completions.create(
        model=model, prompt="Yes or no?", extra_body={"guided_choice": ["yes", "no"]}
    )
    assert one_of_two.choices[0].text in ("yes", "no")


# Responses


def test_responses_are_text_models_and_calls(client: openai.OpenAI, model: str) -> None:
    options: dict[str, Any] = {"model": model, "input": "Who is it?", "extra_body": {"seed": 3}}
    parsed = client.responses.parse(**options, text_format=Person, max_output_tokens=60)
    assert isinstance(parsed.output_parsed, Person)
    assert parsed.status == "completed"
    with client.responses.stream(**options, text_format=Person, max_output_tokens=60) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_parsed == parsed.output_parsed
    cut = client.responses.create(**options, max_output_tokens=3)
    assert cut.status == "incomplete"
    assert cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "max_output_tokens"
    tool: Any = {
        "type": "function",
        "name": "Stop",
        "parameters": Stop.model_json_schema(),
        "strict": True,
    }
    called = client.responses.create(
        **options, tools=[tool], tool_choice="required", parallel_tool_calls=False
    )
    (call,) = called.output
    assert call.type == "function_call"
    assert Stop.model_validate_json(call.arguments)
    said: Any = [
        {"role": "user", "content": "Who is it?"},
        call,
        {"type": "function_call_output", "call_id": call.call_id, "output": "done"},
    ]
    after = client.responses.create(
        model=model, input=said, tools=[tool], tool_choice="none", max_output_tokens=8
    )
    assert after.output[0].type == "message"


# Many at once


def test_sixty_four_streams_lose_nothing(server: HttpServer, model: str) -> None:
    asyncio.run(_crowd(server, model))


async def _crowd(server: HttpServer, model: str) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0
    ) as client:

        async def ask(seed: int) -> str:
            stream = await client.chat.completions.create(
                model=model,
                messages=ASK,
                seed=seed,
                max_tokens=50,
                stream=True,
                extra_body={"guided_json": SCHEMAS[0]},
            )
            text, ends = "", 0
            async for chunk in stream:
                text += chunk.choices[0].delta.content or ""
                ends += chunk.choices[0].finish_reason is not None
            assert ends == 1
            return text

        texts = await asyncio.gather(*(ask(seed) for seed in range(64)))
    async with guided.AsyncClient(server.process.address) as ours:
        for seed in (0, 40):
            same = await ours.generate(
                "Who is it?",
                schema=close_objects(SCHEMAS[0]),
                seed=seed,
                temperature=1.0,
                max_tokens=50,
            )
            assert texts[seed] == same.text
    for text in texts:
        Person.model_validate_json(text)
