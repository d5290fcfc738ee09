"""Completions of several prompts in one call, and prompts that are echoed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from guided.errors import LimitExceededError, RequestError
from guided.spec import CandidateResult, FinishReason, GenerationResult, Usage
from guided_service.config import ServerConfig
from guided_service.http.asked import FormOfSeveral, Shown
from guided_service.http.completions import CompletionForm, read_completion
from tests.service.http_server import HttpServer, error_of, serving_http
from tests.service.server_process import ECHO_SERVER
from tests.service.test_http_fields import asked
from tests.service.test_request_log import lines
from tests.service.test_supervision import eventually

PATH = "/v1/completions"


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    settings = {"max_batch_size": "5", "log_format": "json"}
    with serving_http(ECHO_SERVER, tmp_path_factory.mktemp("prompts") / "log", settings) as server:
        yield server


def body(prompts: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "echo", "prompt": prompts, "max_tokens": 4, **fields}


def chunks(server: HttpServer, **fields: Any) -> list[dict[str, Any]]:
    response = server.post(PATH, body(**fields, stream=True))
    lines = [line for line in response.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def test_each_prompt_has_a_choice(echo: HttpServer) -> None:
    prompts = ["one", "two", "three"]
    told = echo.post(PATH, body(prompts)).json()
    assert [(each["index"], each["text"]) for each in told["choices"]] == [*enumerate(prompts)]
    of_one = echo.post(PATH, body(["one"])).json()
    for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert told["usage"][count] == 3 * of_one["usage"][count] > 0
    (alone,) = of_one["choices"]
    assert (alone["index"], alone["text"]) == (0, "one")


def test_choices_grow_side_by_side(echo: HttpServer) -> None:
    prompts = ["one", "three", "two"]
    found = chunks(echo, prompts=prompts, stream_options={"include_usage": True})
    *parts, last = found
    texts = ["", "", ""]
    ended = set[int]()
    for part in parts:
        (choice,) = part["choices"]
        assert choice["index"] not in ended
        texts[choice["index"]] += choice["text"]
        if choice["finish_reason"]:
            ended.add(choice["index"])
    assert (texts, ended) == (prompts, {0, 1, 2})
    assert (last["choices"], last["usage"]["prompt_tokens"]) == ([], 3)


def test_an_error_of_one_prompt_is_that_of_the_call(echo: HttpServer) -> None:
    def cancelled() -> int:
        told: str = echo.post(PATH, body("count")).json()["choices"][0]["text"]
        return int(told.removesuffix(" cancelled"))

    before = cancelled()
    told = body(["wait", "refuse", "wait"], guided_json={})
    response = echo.post(PATH, told)
    assert response.status_code == 400
    assert error_of(response)["message"] == "at /type: the type is odd; even it out"
    # Both of the others were cancelled, so the engine is idle.
    eventually(lambda: cancelled() == before + 2)


def test_an_error_of_one_prompt_ends_the_stream_of_all(echo: HttpServer) -> None:
    response = echo.post(PATH, body(["wait", "fail later"], stream=True))
    *_, last, end = response.text.split("\n\n")
    assert (json.loads(last.removeprefix("data: "))["error"]["message"], end) == (
        "at /rest: the rest is odd",
        "",
    )


def test_each_prompt_has_a_line_in_the_log(echo: HttpServer) -> None:
    response = echo.post(PATH, body(["one", "two"]))
    call = response.headers["x-request-id"]

    def found() -> list[dict[str, Any]]:
        return [line for line in lines(echo.process) if line.get("call_id") == call]

    eventually(lambda: len(found()) == 2)
    assert sorted(line["index"] for line in found()) == [0, 1]
    assert {line["status"] for line in found()} == {"OK"}


def test_too_many_prompts_are_refused(echo: HttpServer) -> None:
    response = echo.post(PATH, body(["x"] * 6))
    error = error_of(response)
    assert (response.status_code, error["param"]) == (400, "prompt")
    assert "prompt has 6 prompts, above the limit of 5" in error["message"]
    with pytest.raises(LimitExceededError):
        read_completion(body(["x"] * 3), ServerConfig(max_batch_size=2))


@pytest.mark.parametrize("prompt", [[], [""], ["x", ""], [-1], [[1, -2]], ["x", 1], [["x"]]])
def test_other_lists_are_refused(echo: HttpServer, prompt: Any) -> None:
    response = echo.post(PATH, body(prompt))
    assert (response.status_code, error_of(response)["param"].partition("[")[0]) == (400, "prompt")


def result(*texts: str) -> GenerationResult:
    candidates = tuple(
        CandidateResult(index, text, (), FinishReason.STOP, score=0.0)
        for index, text in enumerate(texts)
    )
    usage = Usage(prompt_tokens=2, sampled_tokens=len(texts))
    return GenerationResult(
        texts[0], (), FinishReason.STOP, usage, 1.0,
        candidates=candidates if len(texts) > 1 else (),
    )  # fmt: skip


def form(**fields: Any) -> FormOfSeveral:
    made = asked("completions", **fields).form(Shown("id", 0, "m"))
    assert isinstance(made, CompletionForm)
    return made


def choices(body: Any) -> list[tuple[int, str]]:
    return [(each["index"], each["text"]) for each in body["choices"]]


def test_answer_j_to_prompt_i_has_the_index_of_openai() -> None:
    several = form(prompt=["a", "b"], n=2)
    told = several.together([result("1", "2"), result("3", "4")])
    assert choices(told) == [(0, "1"), (1, "2"), (2, "3"), (3, "4")]
    usage: Any = told["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (4, 4)
    last = several.beside(1).last(result("3", "4"))
    found = [json.loads(line[6:]) for line in last.decode().split("\n\n") if line]
    assert [each for part in found for each in choices(part)] == [(2, "3"), (3, "4")]


def test_an_echoed_prompt_begins_each_text() -> None:
    echoed = form(prompt=["a ", "b "], n=2, echo=True)
    told = echoed.together([result("1", "2"), result("3", "4")])
    assert choices(told) == [(0, "a 1"), (1, "a 2"), (2, "b 3"), (3, "b 4")]
    assert choices(form(prompt="a ", echo=True).whole(result("1"))) == [(0, "a 1")]


def test_an_echoed_prompt_is_streamed_once() -> None:
    growing = form(prompt="a ", echo=True)
    events = growing.grown("b") + growing.grown("c") + growing.ended(result("bc"))
    parts = [json.loads(line[6:]) for line in events.decode().split("\n\n")[:-2]]
    assert "".join(each["choices"][0]["text"] for each in parts) == "a bc"
    at_once = form(prompt="a ", echo=True).ended(result(""))
    assert json.loads(at_once.decode().split("\n\n")[0][6:])["choices"][0]["text"] == "a "


def test_an_echo_reaches_the_caller(echo: HttpServer) -> None:
    (choice,) = echo.post(PATH, body("one", echo=True)).json()["choices"]
    assert choice["text"] == "oneone"
    parts = chunks(echo, prompts=["one", "two"], echo=True)
    texts = ["", ""]
    for part in parts:
        texts[part["choices"][0]["index"]] += part["choices"][0]["text"]
    assert texts == ["oneone", "twotwo"]


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        (
            {"echo": True, "logprobs": 2},
            "logprobs",
            "log-probabilities of a prompt are not computed, so they cannot be echoed with it",
        ),
        (
            {"heal": True, "logprobs": 2},
            "logprobs",
            "tokens of a healed answer begin in the prompt, and their text_offset says nothing",
        ),
        ({"suffix": "x"}, "suffix", "suffix is not honoured by this server"),
    ],
)
def test_what_is_not_exact_is_refused(fields: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        asked("completions", **fields)
    assert (refused.value.field, refused.value.message) == (field, message)


def test_all_requests_say_the_same_but_their_prompt() -> None:
    one = asked("completions", prompt=["a", "b"], heal=True, seed=3)
    assert [request.prompt for request in one.requests] == ["a", "b"]
    first, second = one.requests
    assert second.heal
    assert second.sampling == first.sampling
