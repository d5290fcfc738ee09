"""Tokens of prompts and texts of tokens, over gRPC and HTTP: as answers have them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import guided
from guided import testing
from guided.bearer import bearer_of
from guided.client import AsyncClient, Client
from guided.errors import LimitExceededError, RequestError, UnknownModelError
from guided.v1 import model_pb2
from guided.v1.model_pb2_grpc import ModelServiceStub
from tests.service.http_server import HttpServer, error_of, serving_http
from tests.service.server_process import ECHO_SERVER
from tests.service.test_doors import ANN, tokens_file

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = guided.Tool("add", "Adds two numbers.", SCHEMA)
TALK = [guided.Message("system", "Be brief."), guided.Message("user", "Hé, <|im_end|> 😀")]


@pytest.fixture
def client(thinker: HttpServer) -> Iterator[Client]:
    with Client(thinker.process.address) as connected:
        yield connected


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server whose tokens are bytes, and whose prompts are bounded."""
    log = tmp_path_factory.mktemp("bounded") / "log"
    with serving_http(ECHO_SERVER, log, {"model": "bounded"}) as server:
        yield server


# As answers have them


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        pytest.param(guided.RawPrompt("The sky"), {}, id="text"),
        pytest.param(guided.RawPrompt("<|im_end|>"), {"allow_special_tokens": False}, id="spelled"),
        pytest.param("Who?", {}, id="turn"),
        pytest.param(TALK, {}, id="messages"),
        pytest.param(TALK, {"allow_special_tokens": True}, id="special"),
        pytest.param(TALK, {"schema": SCHEMA}, id="schema"),
        pytest.param(TALK, {"schema": SCHEMA, "show_schema": True}, id="shown"),
        pytest.param(TALK, {"tools": [TOOL]}, id="tools"),
        pytest.param(TALK, {"tools": [TOOL], "tool_choice": "required"}, id="calls"),
        pytest.param(TALK, {"reasoning": 5}, id="thoughts"),
    ],
)
def test_as_many_as_an_answer_to_the_same_request_counts(
    client: Client, prompt: Any, options: dict[str, Any]
) -> None:
    found = client.tokenize(prompt, texts=True, **options)
    answer = client.generate(prompt, max_tokens=16, **options)
    assert len(found.tokens) == answer.usage.prompt_tokens
    assert len(found.texts) == len(found.tokens)
    assert client.detokenize(found.tokens) == b"".join(found.texts)
    assert client.tokenize(prompt, **options) == guided.PromptTokens(found.tokens)


def test_their_texts_are_the_prompt_with_the_names_of_special_tokens(client: Client) -> None:
    spelled = "Hé, <|im_end|> 😀"
    text = client.tokenize(guided.RawPrompt(spelled), texts=True)
    assert b"".join(text.texts).decode() == spelled
    assert b"<|im_end|>" in text.texts
    turns = client.tokenize([guided.Message("user", spelled)], texts=True)
    assert b"".join(turns.texts).decode() == f"user: {spelled}"
    assert b"<|im_end|>" not in turns.texts, "several tokens that spell the name"


def test_a_token_found_so_can_be_biased(client: Client) -> None:
    (token,) = client.tokenize(guided.RawPrompt("x")).tokens
    answer = client.generate("Say it.", max_tokens=3, logit_bias={token: 100.0})
    assert answer.text == "xxx"


def test_the_asyncio_client_has_the_same(thinker: HttpServer, client: Client) -> None:
    async def ask() -> tuple[guided.PromptTokens, bytes]:
        async with AsyncClient(thinker.process.address) as connected:
            found = await connected.tokenize(TALK, texts=True)
            return found, await connected.detokenize(np.array(found.tokens))

    found, text = asyncio.run(ask())
    assert found == client.tokenize(TALK, texts=True)
    assert text == b"".join(found.texts)


USER = {"role": "user", "content": "Hé, <|im_end|> 😀"}
FUNCTION = {"type": "function", "function": {"name": "add", "parameters": SCHEMA}}


@pytest.mark.parametrize(
    ("path", "body", "beside"),
    [
        ("/v1/completions", {"prompt": "The sky"}, {"add_special_tokens": True}),
        ("/v1/chat/completions", {"messages": [USER]}, {"add_special_tokens": False}),
        (
            "/v1/chat/completions",
            {"messages": [USER], "tools": [FUNCTION]},
            {"add_generation_prompt": True, "continue_final_message": False},
        ),
    ],
)
def test_over_http_they_are_those_of_answers_too(
    thinker: HttpServer, path: str, body: dict[str, Any], beside: dict[str, Any]
) -> None:
    model = model_of(thinker)
    answer = thinker.post(path, {"model": model, "max_tokens": 4, **body}).json()
    said = thinker.post("/tokenize", {"model": model, **body, **beside}).json()
    assert said.keys() == {"count", "max_model_len", "tokens"}
    assert said["count"] == len(said["tokens"]) == answer["usage"]["prompt_tokens"]
    with Client(thinker.process.address) as client:
        assert said["max_model_len"] == client.model().context_window
        text = client.detokenize(said["tokens"]).decode()
    for named in ({"model": model}, {}):
        back = thinker.post("/detokenize", {**named, "tokens": said["tokens"]})
        assert back.json() == {"prompt": text}
        assert thinker.post("/tokenize", {**named, **body}).json() == said
    strings = {"model": model, **body, "return_token_strs": True}
    assert len(thinker.post("/tokenize", strings).json()["token_strs"]) == said["count"]


def model_of(server: HttpServer) -> str:
    with Client(server.process.address) as client:
        return client.model().name


# What is wrong


@pytest.mark.parametrize(
    ("tokens", "options", "kind", "message"),
    [
        ([5, 256], {}, RequestError, "tokens[1] is 256, and the vocabulary has 256 tokens"),
        ([-1], {}, RequestError, "tokens[0] is -1, which is no token"),
        ([2**31], {}, RequestError, "tokens[0] is 2147483648, which is no token"),
        ([True], {}, RequestError, "tokens[0] True is not an integer"),
        (["5"], {}, RequestError, "tokens[0] '5' is not an integer"),
        ([5], {"model": "other"}, UnknownModelError, "model is 'other', but the server has 'echo'"),
        (
            [5] * 1001,
            {},
            LimitExceededError,
            "there are 1001 tokens, but the context window holds 1000; send fewer in one call",
        ),
    ],
)
def test_what_is_no_token_is_refused(
    told: HttpServer, tokens: list[Any], options: dict[str, Any], kind: type, message: str
) -> None:
    with Client(told.process.address) as client, pytest.raises(kind) as caught:
        client.detokenize(tokens, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("prompt", "options", "kind", "message"),
    [
        (guided.RawPrompt("x" * 8000), {}, LimitExceededError, "1000 tokens at least, but the"),
        (guided.RawPrompt("x"), {"model": "other"}, UnknownModelError, "model is 'other'"),
        (guided.RawPrompt("x"), {"texts": 1}, RequestError, "texts 1 is not True or False"),
        (guided.RawPrompt("x"), {"temperature": -1}, RequestError, "temperature"),
        (guided.RawPrompt("x"), {"grammar": guided.Stored("regex:0")}, guided.GuidedError, "regex"),
    ],
)
def test_a_request_that_would_get_no_answer_gets_no_tokens(
    told: HttpServer, prompt: Any, options: dict[str, Any], kind: type, message: str
) -> None:
    with Client(told.process.address) as client, pytest.raises(kind) as caught:
        client.tokenize(prompt, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message", "told_of"),
    [
        ("Tokenize", model_pb2.TokenizeRequest(), "the call has no request"),
        ("Detokenize", model_pb2.DetokenizeRequest(tokens=[3, -2]), "tokens[1] is -2, and the"),
    ],
)
def test_messages_of_other_clients_are_checked(
    told: HttpServer, call: str, message: Any, told_of: str
) -> None:
    with grpc.insecure_channel(told.process.address) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            getattr(ModelServiceStub(channel), call)(message)
        error: Any = caught.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details().startswith(told_of)


@pytest.mark.parametrize(
    ("path", "body", "field", "message"),
    [
        ("/tokenize", {}, "prompt", "prompt is missing"),
        ("/tokenize", {"prompt": ""}, "prompt", "the prompt is empty"),
        ("/tokenize", {"messages": []}, "messages", "messages has fewer than 1 part"),
        (
            "/tokenize",
            {"prompt": "x", "messages": [USER]},
            "prompt",
            "prompt is not honoured by this server; send either prompt or messages",
        ),
        (
            "/tokenize",
            {"prompt": "x", "add_special_tokens": False},
            "add_special_tokens",
            "add_special_tokens: should be True; leave it out: a text is tokenised as for an "
            "answer, with the prefix of the tokenizer",
        ),
        (
            "/tokenize",
            {"messages": [USER], "add_generation_prompt": False},
            "add_generation_prompt",
            "without a new turn there has to be a message to continue; leave it out, or set "
            "continue_final_message",
        ),
        (
            "/tokenize",
            {"messages": [USER], "chat_template": "{{ messages }}"},
            "chat_template",
            "chat_template is not honoured by this server; leave it out; docs/openai.md lists what "
            "is honoured",
        ),
        (
            "/tokenize",
            {"prompt": "x" * 8000},
            "prompt",
            "the prompt has 8000 bytes, which are 1000 tokens at least, but the context window "
            "holds 1000; shorten the prompt",
        ),
        (
            "/tokenize",
            {"messages": [{"role": "user", "content": "x" * 8000}]},
            "messages",
            "the prompt has 8000 bytes, which are 1000 tokens at least, but the context window "
            "holds 1000; shorten the prompt",
        ),
        (
            "/detokenize",
            {"tokens": [5, 256]},
            "tokens",
            "tokens[1] is 256, and the vocabulary has 256 tokens",
        ),
        (
            "/detokenize",
            {"tokens": [-1]},
            "tokens[0]",
            "tokens[0]: should be greater than or equal to 0",
        ),
        ("/detokenize", {"tokens": "5"}, "tokens", "tokens: should be a list"),
    ],
)
def test_over_http_an_error_names_its_field(
    told: HttpServer, path: str, body: dict[str, Any], field: str, message: str
) -> None:
    response = told.post(path, {"model": "echo", **body})
    error = error_of(response)
    assert (response.status_code, error["param"], error["message"]) == (400, field, message)


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize"])
def test_over_http_another_model_is_not_found(told: HttpServer, path: str) -> None:
    asked = {"prompt": "x"} if path == "/tokenize" else {"tokens": [5]}
    response = told.post(path, {"model": "other", **asked})
    assert (response.status_code, error_of(response)["code"]) == (404, "model_not_found")


# Quotas and places


def test_calls_need_a_token_and_use_its_quota(tmp_path: Path) -> None:
    tokens = tokens_file(tmp_path, ann="requests_per_minute = 2")
    with serving_http(ECHO_SERVER, tmp_path / "log", {"tokens": str(tokens)}) as server:
        body = {"model": "echo", "prompt": "hey"}
        assert server.post("/tokenize", body).status_code == 401
        stranger = Client(server.process.address, retries=0)
        with stranger, pytest.raises(guided.UnauthenticatedError):
            stranger.detokenize([5])
        headers = {"authorization": bearer_of(ANN)}
        said = server.post("/tokenize", body, headers=headers).json()
        assert said == {"count": 3, "max_model_len": 1000, "tokens": [*b"hey"]}
        with Client(server.process.address, token=ANN, retries=0) as ann:
            assert ann.detokenize([*b"hey"]) == b"hey"
            with pytest.raises(guided.ServiceUnavailableError, match="its requests_per_minute of"):
                ann.tokenize(guided.RawPrompt("hey"))
        assert server.post("/tokenize", body, headers=headers).status_code == 429


def test_a_server_without_a_model_has_bytes_for_tokens() -> None:
    with testing.Server() as server, Client(server.address) as client:
        found = client.tokenize(guided.RawPrompt("hé"), texts=True)
        assert found.tokens == tuple("hé".encode())
        assert b"".join(found.texts) == "hé".encode()
        assert client.detokenize(found.tokens) == "hé".encode()
        answer = client.generate(guided.RawPrompt("hé"))
        assert answer.usage.prompt_tokens == len(found.tokens)


@pytest.mark.parametrize(
    "thinking", [{"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}]
)
def test_a_prompt_for_thoughts_is_counted(thinker: HttpServer, thinking: dict[str, Any]) -> None:
    """Counting has no budget of which thoughts could take too much."""
    body = {"model": model_of(thinker), "messages": [{"role": "user", "content": "hi"}]}
    counted = thinker.post("/v1/messages/count_tokens", {**body, "thinking": thinking})
    assert counted.status_code == 200, counted.text
    assert counted.json()["input_tokens"] > 0
