"""The playground in a browser: its input, its display, and its keys."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.playground.chromium import Browser, Element, until
from tests.service.http_server import HttpServer, serving_http
from tests.service.server_process import ECHO_SERVER
from tests.service.test_doors import ANN, tokens_file

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}, "dark": {"type": "boolean"}},
    "required": ["colour", "dark"],
}


@pytest.fixture
def page(browser: Browser, playground: HttpServer) -> Browser:
    """The playground, which has found its model."""
    browser.open(f"{playground.url}/playground/")
    until(lambda: "tiny" in browser.one("#model").text)
    return browser


def vocabulary_size(server: HttpServer) -> int:
    """The sum of a mask's allowed and forbidden tokens."""
    model = httpx2.get(f"{server.url}/v1/models").json()["data"][0]["id"]
    body = {"model": model, "structured_outputs": {"regex": "a"}}
    told = httpx2.post(f"{server.url}/playground/mask", json=body).json()
    return int(told["allowed"] + told["forbidden"])


def told_of(page: Browser, message: str) -> bool:
    return message in page.one("#fault").text


def write(page: Browser, selector: str, text: str) -> None:
    field = page.one(selector)
    field.clear()
    field.type(text)


def generate(page: Browser, kind: str, constraint: str) -> list[Element]:
    """Request an answer and wait for its end; returns its tokens."""
    page.one(f"input[value={kind}]").click()
    write(page, "#prompt", "Which colour has the sky?")
    if constraint:
        write(page, "#constraint", constraint)
    page.one("#run").click()
    until(lambda: page.all("#cost table"))
    return page.all("#answer [role=option]")


def test_a_schema_is_typed_and_a_token_of_its_answer_shows_its_mask(
    page: Browser, playground: HttpServer
) -> None:
    tokens = generate(page, "schema", json.dumps(SCHEMA))
    answer = json.loads(page.one("#answer").text)
    assert answer["colour"] in ("red", "green")
    assert answer.keys() == {"colour", "dark"}
    assert "complete" in page.one("#status").text
    forced = page.one("#answer .forced").style("background-color")
    chosen = next(token for token in tokens if token.attribute("class") != "forced")
    assert chosen.style("background-color") != forced
    chosen.click()
    allowed = int(page.one("#allowed").text.replace(",", ""))
    forbidden = int(page.one("#forbidden").text.replace(",", ""))
    assert 2 <= allowed < 20
    assert allowed + forbidden == vocabulary_size(playground)
    likeliest = [row.text for row in page.all("#panel-token tbody tr")]
    assert len(likeliest) == min(allowed, 10)
    assert page.one("#panel-token tr.chosen").text.startswith(chosen.text)
    assert page.log() == []


def test_the_draft_tree_of_a_step_and_the_automaton_are_drawn(page: Browser) -> None:
    generate(page, "regex", "(red|green) (sky|sea)")
    page.one("#tab-tree").click()
    assert page.one("#panel-tree b").text.startswith("model call 1 of ")
    assert page.one("#panel-tree .tree li").attribute("class") == "certain"
    page.one("#tab-automaton").click()
    until(lambda: page.all("#panel-automaton svg"))
    assert "4 states" in page.one("#automaton-told").text
    assert len(page.all("#panel-automaton .state")) == 4
    labels = [label.text for label in page.all("#panel-automaton .label")]
    assert any("red" in label and "green" in label for label in labels)
    assert page.log() == []


def draw(page: Browser, expression: str) -> None:
    """Draw an automaton, and wait until it is there."""
    page.one("input[value=regex]").click()
    write(page, "#constraint", expression)
    page.one("#tab-automaton").click()
    until(lambda: page.all("#panel-automaton svg"))


def test_an_automaton_is_made_smaller_to_be_seen_whole_as_long_as_it_can_be_read(
    page: Browser,
) -> None:
    measure = (
        "const [place] = document.getElementsByClassName('drawing'), svg = place.firstChild;"
        "return [place.clientWidth, place.scrollWidth, svg.clientWidth, svg.viewBox.baseVal.width]"
    )
    draw(page, "(a|b)c(d|e)f(g|h)i(j|k)l(m|n)o(p|q)")
    seen, needed, shown, full = page.run(measure)
    assert needed <= seen < full
    assert shown < full
    draw(page, "(aa|b)" * 40)
    until(lambda: page.run(measure)[3] > 2 * full)
    seen, needed, shown, full = page.run(measure)
    assert needed > seen
    assert shown == pytest.approx(0.6 * full, abs=1)


def test_the_keyboard_alone_will_do(page: Browser) -> None:
    generate(page, "lark", 'start: "a" ("b" | "c") "d"')
    page.run("document.querySelector('#answer [tabindex=\"0\"]').focus()")
    for key in ("\ue012", "\ue014"):  # left, where there is nothing, and right
        page.focused().type(key)
    selected = page.one("#answer [aria-selected=true]")
    assert selected.text in ("b", "c")
    assert page.focused().text == selected.text
    assert int(page.one("#allowed").text) >= 2
    page.run("document.querySelector('#tab-token').focus()")
    page.focused().type("\ue014")
    assert page.focused().attribute("id") == "tab-tree"
    assert page.one("#panel-tree").attribute("hidden") is None
    page.run("document.querySelector('#status').textContent = ''")
    page.one("#prompt").type("\ue009\ue007")  # Ctrl and Enter
    until(lambda: "complete" in page.one("#status").text)


def test_mistakes_are_told_where_they_are_made(page: Browser) -> None:
    for kind, constraint, message in (
        ("schema", '{"type": ', "the schema is not JSON"),
        ("schema", '{"type": "odd"}', "odd"),
        ("regex", "(", "("),
        ("lark", "start: missing", "missing"),
    ):
        page.one(f"input[value={kind}]").click()
        write(page, "#constraint", constraint)
        page.one("#run").click()
        until(partial(told_of, page, message))
    generate(page, "none", "")
    assert page.all("#fault:not([hidden])") == []


def test_what_a_model_writes_is_never_markup(page: Browser) -> None:
    evil = "<img src=x onerror=document.title='taken'>"
    tokens = generate(page, "lark", f'start: "{evil}"')
    assert page.one("#answer").text == evil
    tokens[0].click()
    page.one("#tab-automaton").click()
    until(lambda: page.all("#panel-automaton svg"))
    assert page.all("main img") == []
    assert page.run("return document.title") == "guided playground"


def test_a_server_with_tokens_asks_for_one(browser: Browser, tmp_path: Path) -> None:
    settings = {"tokens": str(tokens_file(tmp_path))}
    with serving_http(ECHO_SERVER, tmp_path / "log", settings) as server:
        browser.open(f"{server.url}/playground/")
        until(lambda: browser.all("#access:not([hidden])"))
        browser.one("#token").type(ANN + "\ue007")
        until(lambda: "echo" in browser.one("#model").text)
        assert browser.all("#access:not([hidden])") == []
