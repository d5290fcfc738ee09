"""Prompts of token ids, over gRPC and HTTP: answers are those to the text that they spell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from guided.client import Client, RawPrompt, TokenPrompt
from guided.errors import LimitExceededError, RequestError
from guided.spec import GenerationRequest, TokenId
from guided.testing import Server
from guided.wire_request import decode_request, encode_request
from tests.service.http_server import HttpServer, error_of, serving_http
from tests.service.server_process import ECHO_SERVER

PATH = "/v1/completions"
STORY = "Once upon a time, in a small village by the sea, there lived an old"


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    log = tmp_path_factory.mktemp("tokens") / "log"
    with serving_http(ECHO_SERVER, log, {"max_batch_size": "2"}) as server:
        yield server


def body(prompt: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "echo", "prompt": prompt, "max_tokens": 9, **fields}


def ids(text: str) -> list[int]:
    """The echo engine's tokens are bytes."""
    return [*text.encode()]


@pytest.mark.parametrize("tokens", [(5,), (0, 151_935, 7), tuple(range(1000))])
def test_tokens_arrive_as_they_were_sent(tokens: tuple[int, ...]) -> None:
    request = GenerationRequest(TokenPrompt(tuple(map(TokenId, tokens))))
    assert decode_request(encode_request(request)) == request


def test_a_number_below_zero_on_the_wire_is_refused() -> None:
    message = encode_request(GenerationRequest(TokenPrompt([TokenId(1)])))
    message.tokens.tokens.append(-3)
    with pytest.raises(RequestError, match="token 1 of the prompt is -3, which is no token"):
        decode_request(message)


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        (ids("hello"), ["hello"]),
        ([ids("one"), ids("two")], ["one", "two"]),
        ([ids("one")], ["one"]),
    ],
)
def test_completions_take_them_as_openai_does(
    http: HttpServer, prompt: Any, texts: list[str]
) -> None:
    told = http.post(PATH, body(prompt)).json()
    assert [each["text"] for each in told["choices"]] == texts


@pytest.mark.parametrize(
    ("prompt", "param", "message"),
    [
        ([1, "a"], "prompt[1]", "prompt[1]: should be a valid integer"),
        ([1, True], "prompt[1]", "prompt[1]: should be a valid integer"),
        ([1, 2.5], "prompt[1]", "prompt[1]: should be a valid integer"),
        ([-1], "prompt[0]", "prompt[0]: should be greater than or equal to 0"),
        ([[1], "a"], "prompt[1]", "prompt[1]: should be a list"),
        ([[1], [2, "a"]], "prompt[1][1]", "prompt[1][1]: should be a valid integer"),
        ([[]], "prompt[0]", "prompt[0] has fewer than 1 part"),
        (["a", 1], "prompt[1]", "prompt[1]: should be a valid string"),
        ([300], "prompt", "token 0 of the prompt is 300, and those of this model are 0 to 255"),
        ([[1], [2], [3]], "prompt", "prompt has 3 prompts, above the limit of 2"),
        ({"a": 1}, "prompt", "prompt: should be a text or a list"),
        (7, "prompt", "prompt: should be a text or a list"),
    ],
)
def test_what_is_no_prompt_is_told_by_its_place(
    http: HttpServer, prompt: Any, param: str, message: str
) -> None:
    response = http.post(PATH, body(prompt))
    error = error_of(response)
    assert (response.status_code, error["param"]) == (400, param)
    assert error["message"].startswith(message)


def test_tokens_are_not_echoed_as_a_text(http: HttpServer) -> None:
    error = error_of(http.post(PATH, body(ids("a"), echo=True)))
    assert (error["param"], error["message"]) == (
        "echo",
        "a prompt of token ids is not echoed as a text; leave it out, and read the text of tokens "
        "from /detokenize",
    )


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 12},
        {"max_tokens": 12, "temperature": 0.8, "seed": 5},
        {"max_tokens": 40, "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        {"max_tokens": 12, "n": 2, "best_of": 3, "temperature": 1.0, "seed": 1},
    ],
    ids=["greedy", "sampled", "schema", "several"],
)
def test_the_answer_is_that_to_the_text(client: Client, options: dict[str, Any]) -> None:
    tokens = client.tokenize(RawPrompt(STORY)).tokens
    of_text = client.generate(RawPrompt(STORY), **options)
    of_tokens = client.generate(TokenPrompt(tokens), **options)
    assert of_tokens.text == of_text.text
    texts = [[one.text for one in answer.candidates] for answer in (of_tokens, of_text)]
    assert texts[0] == texts[1]
    assert of_tokens.usage.output_tokens == of_text.usage.output_tokens > 0
    assert of_tokens.usage.prompt_tokens == len(tokens)
    # The text left its tokens in the cache, and these are the same.
    assert of_tokens.usage.reused_tokens > 0


def test_the_tokens_of_tokens_are_they(client: Client) -> None:
    tokens = client.tokenize(RawPrompt(STORY)).tokens
    assert client.tokenize(TokenPrompt(tokens)).tokens == tokens


def test_texts_are_scored_after_tokens_as_after_their_text(client: Client) -> None:
    tokens = client.tokenize(RawPrompt(STORY)).tokens
    of_text = client.score(RawPrompt(STORY), [" man", " woman"])
    of_tokens = client.score(TokenPrompt(tokens), [" man", " woman"])
    assert [one.logprob for one in of_tokens] == [one.logprob for one in of_text]


def test_what_the_model_has_not_or_cannot_read_is_refused(client: Client) -> None:
    with pytest.raises(RequestError, match=r"token 1 of the prompt is 49152, and those of this"):
        client.generate(TokenPrompt([TokenId(1), TokenId(49152)]))
    with pytest.raises(LimitExceededError, match="leaves no room for an answer"):
        client.generate(TokenPrompt([TokenId(1)] * 9000))
    with pytest.raises(RequestError, match="max_retries needs a conversation"):
        client.generate(TokenPrompt([TokenId(1)]), int, max_retries=1)


def test_a_server_without_a_model_takes_them() -> None:
    with Server() as server, Client(server.address) as client:
        assert client.generate(TokenPrompt([TokenId(65)]), schema={"const": 1}).text == "1"
        with pytest.raises(RequestError, match="those of this model are 0 to 256"):
            client.generate(TokenPrompt([TokenId(257)]), schema={"const": 1})
