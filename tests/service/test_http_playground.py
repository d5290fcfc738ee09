"""The playground over HTTP: its files, access to them, and calls that inspect a constraint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import pytest

from guided import testing
from guided.bearer import bearer_of
from tests.service.http_server import HttpServer, serving_http
from tests.service.server_process import ECHO_SERVER
from tests.service.test_doors import ANN, BOB, tokens_file

FILES = Path(__file__).parents[2] / "service" / "http" / "page"
YES_OR_NO = {"structured_outputs": {"choice": ["yes", "no"]}}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The playground's address on a server without a model, whose tokens are bytes."""
    with testing.Server(http=True) as server:
        yield server.http_url.removesuffix("/v1") + "/playground/"


def ask(url: str, path: str, **body: Any) -> httpx2.Response:
    return httpx2.post(url + path, json={"model": "no model", **body}, timeout=180)


class References(HTMLParser):
    """The references of a page, and its parts that a policy without inline code would block."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.files: set[str] = set()
        self.inline: list[str] = []
        self._is_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "href"):
                self.files.add(value or "")
            if name == "style" or name.startswith("on"):
                self.inline.append(name)
        self._is_script = tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if self._is_script and data.strip():
            self.inline.append(data)


def test_the_page_and_all_that_it_refers_to_are_served(url: str) -> None:
    read = References(httpx2.get(url).text)
    assert read.inline == []
    scripts = {file.name for file in FILES.glob("*.js")}
    imported = {
        name
        for file in FILES.glob("*.js")
        for name in re.findall(r'from "\./([^"]+)"', file.read_text("utf-8"))
    }
    assert scripts == imported | {name for name in read.files if name.endswith(".js")}
    for name in read.files | imported:
        found = httpx2.get(url + name)
        assert found.status_code == 200, name
        assert found.headers["content-type"].startswith(("text/", "image/svg+xml"))


def test_nothing_of_the_page_comes_from_elsewhere(url: str) -> None:
    policy = httpx2.get(url).headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert httpx2.get(url).headers["x-content-type-options"] == "nosniff"
    for file in FILES.iterdir():
        text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|innerHTML|insertAdjacentHTML|eval\(", text), file.name


def test_its_path_without_a_slash_leads_there(url: str) -> None:
    found = httpx2.get(url.removesuffix("/"))
    assert (found.status_code, found.headers["location"]) == (308, "playground/")
    assert httpx2.get(url.removesuffix("/"), follow_redirects=True).status_code == 200


def test_the_mask_behind_tokens_is_told(url: str) -> None:
    assert ask(url, "mask", **YES_OR_NO).json() == {
        "allowed": 2,
        "forbidden": 255,
        "may_end": False,
        "forced": "",
        "first": [{"id": 110, "shown": "n"}, {"id": 121, "shown": "y"}],
    }
    told = ask(url, "mask", tokens=[*b"ye"], **YES_OR_NO).json()
    assert (told["allowed"], told["forced"]) == (1, "s")
    assert ask(url, "mask", tokens=[*b"yes"], **YES_OR_NO).json()["may_end"] is True


def test_the_automaton_is_told(url: str) -> None:
    arrow = {"source": 0, "target": 1, "is_text": True}
    assert ask(url, "automaton", **YES_OR_NO).json() == {
        "states": 2,
        "accepting": [1],
        "open": [],
        "arrows": [{**arrow, "label": "no"}, {**arrow, "label": "yes"}],
    }


@pytest.mark.parametrize(
    ("path", "body", "status", "field", "message"),
    [
        ("mask", {}, 400, "response_format", "the call names no constraint"),
        ("automaton", {"guided_regex": "("}, 400, "guided_regex", "missing )"),
        ("mask", {**YES_OR_NO, "tokens": [*b"yo"]}, 400, "tokens", "tokens[1]: token 111"),
        ("mask", {**YES_OR_NO, "tokens": [-1]}, 400, "tokens[0]", "tokens[0]"),
        ("mask", {**YES_OR_NO, "tokens": [2**64]}, 400, "tokens[0]", "2147483647"),
        ("mask", {**YES_OR_NO, "messages": []}, 400, "messages", "messages is not honoured"),
        ("mask", {**YES_OR_NO, "min_tokens": 3}, 400, "min_tokens", "min_tokens is not honoured"),
        ("automaton", {**YES_OR_NO, "stop": "y"}, 400, "stop", "stop is not honoured"),
        ("automaton", {**YES_OR_NO, "model": "else"}, 404, "model", "there is no model 'else'"),
        (
            "answer",
            {
                **YES_OR_NO,
                "n": 2,
                "temperature": 1.0,
                "messages": [{"role": "user", "content": ""}],
            },
            400,
            "n",
            "only one answer can be watched",
        ),
        (
            "answer",
            {"messages": [{"role": "user", "content": "?"}]},
            400,
            None,
            "a server without a model cannot show how an answer comes to be",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_field(
    url: str, path: str, body: dict[str, Any], status: int, field: str | None, message: str
) -> None:
    response = ask(url, path, **body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (status, field), error
    assert message in error["message"]


def statuses(server: HttpServer, **headers: str) -> tuple[int, int]:
    """The statuses of the page, and of a call that it makes."""
    page = httpx2.get(f"{server.url}/playground/")
    # A server's first call loads a compiler.
    call = server.post("/playground/mask", {"model": "echo", **YES_OR_NO}, headers=headers)
    return page.status_code, call.status_code


def test_everybody_sees_the_page_and_its_calls_ask_for_a_token(tmp_path: Path) -> None:
    settings = {"tokens": str(tokens_file(tmp_path))}
    with serving_http(ECHO_SERVER, tmp_path / "log", settings) as server:
        assert statuses(server) == (200, 401)
        assert statuses(server, authorization=bearer_of(ANN)) == (200, 200)


def test_its_calls_count_for_the_quotas_of_the_token(tmp_path: Path) -> None:
    limits = {"ann": "requests_per_minute = 2\ncompile_seconds_per_minute = 9"}
    settings = {"tokens": str(tokens_file(tmp_path, **limits))}
    with serving_http(ECHO_SERVER, tmp_path / "log", settings) as server:
        # Another client calls first, because loading kernels takes longer than a quota lasts.
        assert statuses(server, authorization=bearer_of(BOB))[1] == 200
        asked = [statuses(server, authorization=bearer_of(ANN))[1] for _ in range(3)]
        assert asked == [200, 200, 429]


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"playground": "false"}, 404),
        ({"http_host": "0.0.0.0", "insecure": "true"}, 404),
        ({"http_host": "0.0.0.0", "insecure": "true", "playground": "true"}, 200),
    ],
)
def test_beyond_this_machine_it_is_there_where_the_settings_say_so(
    tmp_path: Path, settings: dict[str, str], status: int
) -> None:
    with serving_http(ECHO_SERVER, tmp_path / "log", settings) as server:
        assert statuses(server) == (status, status)


def test_a_look_at_a_constraint_is_given_up_in_time(tmp_path: Path) -> None:
    settings = {"look_seconds": "0.05"}
    endless = {"guided_regex": r"(\w|\d|\s|\u00e9){1,4000}"}
    with serving_http(ECHO_SERVER, tmp_path / "log", settings, timeout=120) as server:
        answer = server.post("/playground/automaton", {"model": "echo", **endless})
    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "deadline_exceeded"
