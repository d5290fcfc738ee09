"""Web pages of other sites may call the HTTP port where the settings name their origin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.service.http_server import HttpServer, completion, serving_http
from tests.service.server_process import ECHO_SERVER

OURS, OTHER = "https://app.example", "https://other.example"
PATH = "/v1/completions"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    log = tmp_path_factory.mktemp("cors") / "log"
    with serving_http(ECHO_SERVER, log, {"http_cors_origins": OURS}) as found:
        yield found


def asked(server: HttpServer, origin: str, **more: str) -> httpx2.Response:
    """The answer to what a browser asks before a page makes a call."""
    headers = more | {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type, x-stainless-lang",
    }
    return httpx2.request("OPTIONS", server.url + PATH, headers=headers)


def test_a_page_of_a_named_origin_may_call_with_its_token(server: HttpServer) -> None:
    before = asked(server, OURS)
    assert before.status_code == 200
    assert before.headers["access-control-allow-origin"] == OURS
    assert "POST" in before.headers["access-control-allow-methods"]
    assert "x-stainless-lang" in before.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in before.headers


@pytest.mark.parametrize("origins", [OURS, "*"])
def test_a_page_may_reach_a_private_network_where_its_origin_was_named(
    origins: str, tmp_path: Path
) -> None:
    with serving_http(ECHO_SERVER, tmp_path / "log", {"http_cors_origins": origins}) as server:
        found = asked(server, OURS, **{"access-control-request-private-network": "true"})
    assert found.status_code == (200 if origins == OURS else 400)


@pytest.mark.parametrize("stream", [False, True])
def test_it_may_read_answers_and_when_to_come_again(server: HttpServer, stream: bool) -> None:
    body = completion("hello", max_tokens=5, stream=stream)
    answer = server.post(PATH, body, headers={"origin": OURS})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == OURS
    assert {"x-request-id", "retry-after"} <= set(
        answer.headers["access-control-expose-headers"].split(", ")
    )


def test_it_may_read_errors(server: HttpServer) -> None:
    wrong = server.post(PATH, {}, headers={"origin": OURS})
    assert (wrong.status_code, wrong.headers["access-control-allow-origin"]) == (400, OURS)


def test_pages_of_other_origins_may_not(server: HttpServer) -> None:
    assert asked(server, OTHER).status_code == 400
    answer = server.post(PATH, completion("hello", max_tokens=5), headers={"origin": OTHER})
    assert "access-control-allow-origin" not in answer.headers


def test_without_the_setting_no_page_may(tmp_path: Path) -> None:
    with serving_http(ECHO_SERVER, tmp_path / "log") as server:
        assert asked(server, OURS).status_code == 405
        body = completion("hello", max_tokens=5)
        answer = server.post(PATH, body, headers={"origin": OURS})
        assert answer.status_code == 200
        assert not [name for name in answer.headers if name.startswith("access-control")]
