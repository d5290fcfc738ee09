"""Calls of Anthropic's API to a server whose answers repeat what was said last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from guided.bearer import bearer_of
from guided_service.http.dialect import dialect_of
from tests.service.http_server import HttpServer, serving_http
from tests.service.server_process import ECHO_SERVER
from tests.service.test_anthropic_requests import SCHEMA, TOOL
from tests.service.test_doors import ANN, BOB, STRANGER, tokens_file

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
VERSION = {"anthropic-version": "2023-06-01"}
CALL = '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>'


def said(content: str = "hello", **fields: Any) -> dict[str, Any]:
    """The body of a call, with fields added or replaced."""
    turn = {"role": "user", "content": content}
    return {"model": "echo", "max_tokens": 20, "messages": [turn], **fields}


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving_http(ECHO_SERVER, tmp_path_factory.mktemp("http") / "log") as server:
        yield server


def error_of(response: httpx2.Response, status: int, kind: str) -> dict[str, Any]:
    """The error of a response in Anthropic's form."""
    told = response.json()
    assert (response.status_code, told["type"], told["error"]["type"]) == (status, "error", kind)
    assert told["request_id"] == response.headers["request-id"]
    assert set(told["error"]) == {"type", "message", "guided"}
    error: dict[str, Any] = told["error"]
    return error


def events_of(response: httpx2.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    blocks = response.text.strip().split("\n\n")
    found = [json.loads(block.partition("\ndata: ")[2]) for block in blocks]
    names = [block.partition("\n")[0].removeprefix("event: ") for block in blocks]
    assert names == [each["type"] for each in found]
    return found


# Answers


def test_an_answer_is_a_message(echo: HttpServer) -> None:
    answered = echo.post(MESSAGES, said())
    told = answered.json()
    assert told["content"] == [{"type": "text", "text": "hello"}]
    assert (told["model"], told["stop_reason"]) == ("echo", "end_turn")
    assert told["id"] == f"msg_{answered.headers['request-id']}"
    assert answered.headers["x-request-id"] == answered.headers["request-id"]


def test_a_stream_has_the_same_text(echo: HttpServer) -> None:
    found = events_of(echo.post(MESSAGES, said(stream=True)))
    assert [each["type"] for each in found if each["type"] != "content_block_delta"] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    texts = [e["delta"]["text"] for e in found if e["type"] == "content_block_delta"]
    assert "".join(texts) == "hello"
    assert len(texts) > 1


def test_a_call_has_its_input_as_an_object(echo: HttpServer) -> None:
    body = said(CALL, tools=[TOOL], tool_choice={"type": "any"}, max_tokens=200)
    told = echo.post(MESSAGES, body).json()
    (block,) = told["content"]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "f", {"a": 1})
    assert told["stop_reason"] == "tool_use"
    found = events_of(echo.post(MESSAGES, {**body, "stream": True}))
    grown = [e["delta"]["partial_json"] for e in found if e["type"] == "content_block_delta"]
    assert json.loads("".join(grown)) == {"a": 1}


def test_tokens_are_counted(echo: HttpServer) -> None:
    counted = echo.post(COUNT, {"model": "echo", "messages": said()["messages"]})
    tokenized = echo.post("/tokenize", {"messages": said()["messages"]})
    assert counted.json() == {"input_tokens": tokenized.json()["count"]}


def test_models_are_told_in_the_form_of_the_caller(echo: HttpServer) -> None:
    listed = httpx2.get(f"{echo.url}/v1/models?limit=20", headers=VERSION).json()
    (model,) = listed["data"]
    assert listed == {"data": [model], "has_more": False, "first_id": "echo", "last_id": "echo"}
    assert (model["type"], model["id"], model["display_name"]) == ("model", "echo", "echo")
    assert httpx2.get(f"{echo.url}/v1/models/echo", headers=VERSION).json() == model
    assert httpx2.get(f"{echo.url}/v1/models").json()["object"] == "list"


# Errors


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "guided"),
    [
        (
            MESSAGES,
            said(stop="a"),
            400,
            "invalid_request_error",
            {"code": "invalid_request", "param": "stop"},
        ),
        (
            MESSAGES,
            said(model="claude"),
            404,
            "not_found_error",
            {"code": "model_not_found", "param": "model"},
        ),
        (
            MESSAGES,
            said(output_format={"type": "json_schema", "schema": {"type": "odd"}}, report=True),
            400,
            "invalid_request_error",
            {"code": "invalid_constraint", "param": "output_format.schema"},
        ),
        (
            COUNT,
            said(),
            400,
            "invalid_request_error",
            {"code": "invalid_request", "param": "max_tokens"},
        ),
        (
            "/v1/messages/batches",
            said(),
            404,
            "not_found_error",
            {"code": "invalid_request", "param": None},
        ),
        (
            MESSAGES,
            said("x" * 5000, on_incomplete="error"),
            400,
            "invalid_request_error",
            {
                "code": "incomplete_answer",
                "param": None,
                "finish_reason": "length_closed",
                "text": "x" * 5000,
            },
        ),
    ],
)
def test_errors_have_the_form_of_anthropic(
    echo: HttpServer,
    path: str,
    body: dict[str, Any],
    status: int,
    kind: str,
    guided: dict[str, Any],
) -> None:
    assert error_of(echo.post(path, body), status, kind)["guided"] == guided


def test_a_wrong_method_and_a_large_body_are_errors_of_that_form(echo: HttpServer) -> None:
    refused = httpx2.get(f"{echo.url}{MESSAGES}")
    assert "takes POST, not GET" in error_of(refused, 405, "invalid_request_error")["message"]
    large = echo.post(MESSAGES, said("x" * 5_000_000))
    assert "above the limit" in error_of(large, 413, "request_too_large")["message"]


def test_a_base_url_with_a_version_is_named(echo: HttpServer) -> None:
    refused = echo.post(f"/v1{MESSAGES}", said(), headers=VERSION)
    error = error_of(refused, 404, "not_found_error")
    assert "the base URL that a client of Anthropic's API is given has no /v1" in error["message"]


def test_an_error_ends_a_stream_that_has_begun(echo: HttpServer) -> None:
    found = events_of(echo.post(MESSAGES, said("abcdefgh", stream=True, on_incomplete="error")))
    *_, last = found
    assert found[0]["type"] == "message_start"
    assert (last["type"], last["error"]["type"]) == ("error", "invalid_request_error")
    assert last["error"]["guided"]["text"] == "abcdefgh"
    assert found[0]["message"]["id"] == f"msg_{last['request_id']}"


@pytest.mark.parametrize(
    ("path", "headers", "service"),
    [
        (MESSAGES, [], "anthropic.v1"),
        (COUNT, [], "anthropic.v1"),
        ("/v1/models", [(b"anthropic-version", b"2023-06-01")], "anthropic.v1"),
        ("/v1/models", [], "openai.v1"),
        ("/v1/chat/completions", [(b"anthropic-beta", b"x")], "openai.v1"),
        # Gateways pass the header on.
        ("/v1/chat/completions", [(b"anthropic-version", b"2023-06-01")], "openai.v1"),
        ("/v1/responses", [(b"anthropic-version", b"2023-06-01")], "openai.v1"),
    ],
)
def test_whose_api_a_call_speaks(
    path: str, headers: list[tuple[bytes, bytes]], service: str
) -> None:
    assert dialect_of({"type": "http", "path": path, "headers": headers}).service == service


# Access


def test_a_token_is_shown_as_a_key_or_a_bearer(tmp_path: Path) -> None:
    file = tokens_file(tmp_path, ann="requests_per_minute = 4", bob="weight = 2")
    log = tmp_path / "log"
    with serving_http(ECHO_SERVER, log, {"tokens": str(file)}) as server:

        def call(*headers: tuple[str, str]) -> httpx2.Response:
            return httpx2.post(f"{server.url}{MESSAGES}", json=said(), headers=[*headers])

        ann, bob = ("x-api-key", ANN), ("authorization", bearer_of(BOB))
        unknown: list[list[tuple[str, str]]] = [
            [],
            [("x-api-key", STRANGER)],
            [("x-api-key", bearer_of(ANN))],
            [ann, bob],
        ]
        for shown in unknown:
            refused = call(*shown)
            error = error_of(refused, 401, "authentication_error")
            assert error["guided"]["code"] == "invalid_api_key"
        assert error["message"] == (
            "the call's headers do not show one and the same token; pass one, as 'x-api-key: ...' "
            "or as 'Authorization: Bearer ...'"
        )
        assert call(ann).status_code == call(bob).status_code == 200
        assert call(ann, ("authorization", bearer_of(ANN))).status_code == 200
        assert httpx2.get(f"{server.url}/v1/models", headers=[ann]).status_code == 200
        statuses = [call(ann).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        exceeded = call(ann)
        error_of(exceeded, 429, "rate_limit_error")
        assert int(exceeded.headers["retry-after"]) > 0
    assert ANN not in log.read_text()


def test_a_schema_that_cannot_be_enforced_is_refused_before_the_first_token(
    echo: HttpServer,
) -> None:
    """The echo engine compiles the constraint of an answer for its report alone."""
    odd = {**SCHEMA, "$ref": "elsewhere.json"}
    body = said(output_config={"format": {"type": "json_schema", "schema": odd}}, report=True)
    error = error_of(echo.post(MESSAGES, body), 400, "invalid_request_error")
    assert error["guided"]["param"] == "output_config.format.schema"
