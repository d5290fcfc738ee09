"""Answers watched over HTTP, and the contents of their events."""

from __future__ import annotations

import json
from typing import Any

import httpx2

from tests.service.http_server import HttpServer

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}, "dark": {"type": "boolean"}},
    "required": ["colour", "dark"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "sky", "schema": SCHEMA}}


def watched(server: HttpServer, **fields: Any) -> list[dict[str, Any]]:
    """The events of one answer."""
    model = httpx2.get(f"{server.url}/v1/models").json()["data"][0]["id"]
    messages = [{"role": "user", "content": "Which colour has the sky?"}]
    body = {"model": model, "messages": messages, "temperature": 0, **fields}
    response = httpx2.post(f"{server.url}/playground/answer", json=body, timeout=60)
    assert response.headers["content-type"].startswith("text/event-stream"), response.text
    return [
        json.loads(event.removeprefix("data: ")) for event in response.text.split("\n\n") if event
    ]


def test_events_tell_every_token_with_its_origin_and_every_step(playground: HttpServer) -> None:
    *steps, last = watched(playground, response_format=FORMAT)
    tokens = [token for event in steps for token in event["tokens"]]
    calls = [step for event in steps for step in event["steps"]]
    end = last["end"]
    assert "".join(token["text"] for token in tokens) == end["text"]
    assert json.loads(end["text"]).keys() == {"colour", "dark"}
    assert end["output_tokens"] == len(tokens)
    assert [step["number"] for step in calls] == [*range(1, end["model_calls"] + 1)]
    assert end["model_calls"] < end["plain_model_calls"] == len(tokens)
    forced = [token for token in tokens if token["origin"] == "forced"]
    assert 0 < len(forced) < len(tokens)
    for token in tokens:
        is_forced = token["origin"] == "forced"
        assert (token["probability"] is None) == is_forced
        assert bool(token["likeliest"]) != is_forced
        assert is_forced or 0 < token["allowed_share"] <= 1.001


def test_free_text_is_watched_and_the_budget_ends_it(playground: HttpServer) -> None:
    *steps, last = watched(playground, max_tokens=12, top_logprobs=3, logprobs=True)
    tokens = [token for event in steps for token in event["tokens"]]
    assert last["end"]["output_tokens"] == len(tokens) <= 12
    assert {len(token["likeliest"]) for token in tokens} == {3}


def test_lines_within_texts_end_no_event(playground: HttpServer) -> None:
    text = "a\u2028b\x85c\r\nd"
    *steps, last = watched(playground, structured_outputs={"choice": [text]})
    assert last["end"]["text"] == text
    assert "".join(t["text"] for event in steps for t in event["tokens"]).startswith("a\\u2028b")


def test_a_constraint_that_is_wrong_is_an_error_before_the_first_event(
    playground: HttpServer,
) -> None:
    model = httpx2.get(f"{playground.url}/v1/models").json()["data"][0]["id"]
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "?"}],
        "structured_outputs": {"regex": "("},
    }
    response = httpx2.post(f"{playground.url}/playground/answer", json=body, timeout=60)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "structured_outputs.regex"
