"""Our own fields over HTTP: JSON options, answers that must be whole, and reports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

import guided
from guided.errors import RequestError
from guided.spec import JsonOptions, JsonSchema, Lark, OnIncomplete, Structure, UnknownKeywords
from tests.service.http_server import HttpServer, chat, error_of, serving_http
from tests.service.server_process import ECHO_SERVER
from tests.service.test_http_fields import FLAT_TOOL, SCHEMA, TOOL, asked, refusal

NAMED = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "sequence",
        "elements": [
            {"type": "const_string", "value": "Answer: "},
            {"type": "json_schema", "json_schema": SCHEMA},
        ],
    },
}


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving_http(ECHO_SERVER, tmp_path_factory.mktemp("http") / "log") as server:
        yield server


# JSON options


def _options(structure: Structure) -> Iterator[JsonOptions]:
    if isinstance(structure, JsonSchema):
        yield structure.options
    if isinstance(structure, Lark):
        yield structure.json_options
    for inner in structure.inner():
        yield from _options(inner)


@pytest.mark.parametrize(
    ("face", "fields"),
    [
        ("chat", {"response_format": NAMED}),
        ("chat", {"response_format": {"type": "json_object"}}),
        ("chat", {"response_format": {"type": "json_object", "schema": SCHEMA}}),
        ("chat", {"response_format": TAG}),
        ("completions", {"structured_outputs": {"json": SCHEMA}}),
        ("completions", {"structured_outputs": {"json_object": True}}),
        ("completions", {"structured_outputs": {"structural_tag": json.dumps(TAG)}}),
        ("completions", {"guided_json": json.dumps(SCHEMA)}),
        ("chat", {"structured_outputs": {"grammar": "start: %json {}"}}),
        ("completions", {"guided_grammar": "start: %json {}"}),
        ("chat", {"response_format": NAMED, "tools": [TOOL]}),
        ("responses", {"text": {"format": {"type": "json_object"}}}),
        (
            "responses",
            {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}},
        ),
    ],
)
def test_json_options_are_those_of_the_schema(face: str, fields: dict[str, Any]) -> None:
    told = {"whitespace": "free", "key_order": "any", "unknown_keywords": "refuse"}
    for given, expected in (
        (told, JsonOptions("free", "any", unknown_keywords="refuse")),
        ({"max_string_length": "unbounded"}, JsonOptions(max_string_length=None)),
        ({"max_string_length": None}, JsonOptions()),
        ({}, JsonOptions()),
    ):
        constraint = asked(face, **fields, json_options=given).request.constraint
        assert constraint is not None
        assert {*_options(constraint)} == {expected}


@pytest.mark.parametrize(
    ("face", "fields", "field", "told"),
    [
        (
            "chat",
            {"guided_json": SCHEMA, "json_options": {"unknown_keyword": "refuse"}},
            "json_options.unknown_keyword",
            "there is no JSON option 'unknown_keyword'; there is unknown_keywords",
        ),
        (
            "chat",
            {"guided_json": SCHEMA, "json_options": {"key_order": "random"}},
            "json_options.key_order",
            "key_order 'random' is none of 'schema', 'any'",
        ),
        (
            "chat",
            {"guided_json": SCHEMA, "json_options": {"whitespace": [1]}},
            "json_options.whitespace",
            'whitespace [1] is not an integer; pass "compact", "free", an integer or None',
        ),
        (
            "chat",
            {"guided_json": SCHEMA, "json_options": 5},
            "json_options",
            "json_options: should be an object",
        ),
        *(
            (
                face,
                {**fields, "json_options": {"whitespace": 1}},
                "json_options",
                "json_options are about a schema of the answer, and there is none; leave them out; "
                "of a tool's schema only unknown_keywords may be told",
            )
            for face, fields in (
                ("chat", {}),
                ("chat", {"guided_regex": "a"}),
                ("chat", {"tools": [TOOL]}),
                ("chat", {"response_format": {"type": "text"}}),
                (
                    "chat",
                    {"response_format": {"type": "structural_tag", "format": {"type": "any_text"}}},
                ),
                ("completions", {"guided_grammar": 'start: "a"'}),
                ("responses", {"tools": [FLAT_TOOL]}),
            )
        ),
    ],
)
def test_options_that_are_wrong_or_about_nothing_are_refused(
    face: str, fields: dict[str, Any], field: str, told: str
) -> None:
    error = refusal(face, **fields)
    assert (error.field, str(error)) == (field, told)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, {"whitespace": None}),
        ({"tools": [TOOL]}, {"unknown_keywords": "refuse", "whitespace": None}),
    ],
)
def test_an_option_that_is_null_says_nothing(fields: dict[str, Any], told: dict[str, Any]) -> None:
    assert asked("chat", **fields, json_options=told).request.constraint is None


@pytest.mark.parametrize(
    ("face", "budget"),
    [
        ("chat", "max_tokens"),
        ("chat", "max_completion_tokens"),
        ("completions", "max_tokens"),
        ("responses", "max_output_tokens"),
    ],
)
def test_the_budget_is_named_as_the_body_names_it(face: str, budget: str) -> None:
    error = refusal(face, **{"min_tokens": 9, budget: 5})
    assert str(error) == f"min_tokens 9 is above {budget} (5)"


@pytest.mark.parametrize(("face", "tool"), [("chat", TOOL), ("responses", FLAT_TOOL)])
def test_unknown_keywords_are_those_of_tools_too(face: str, tool: dict[str, Any]) -> None:
    for fields, words in (
        ({}, [None]),
        ({"json_options": {"unknown_keywords": "refuse"}}, [UnknownKeywords.REFUSE]),
    ):
        use = asked(face, tools=[tool], **fields).request.tools
        assert use is not None
        assert [each.unknown_keywords for each in use.tools] == words


def test_a_misspelt_keyword_is_an_error_where_the_options_say_so(echo: HttpServer) -> None:
    """The echo engine reads the constraint only for the report."""
    schema = {"type": "string", "maxlength": 3}
    told = {"guided_json": schema, "max_tokens": 1, "report": True}
    assert echo.chat(**told).status_code == 200
    refused = echo.chat(**told, json_options={"unknown_keywords": "refuse"})
    assert refused.status_code == 400
    error = error_of(refused)
    assert "/maxlength" in error["message"]
    assert "did you mean 'maxLength'?" in error["message"]
    assert error["param"] == "guided_json"


# Answers that must be whole


def test_an_answer_that_is_cut_short_is_an_error_on_request(echo: HttpServer) -> None:
    for face in ("chat", "completions", "responses"):
        assert asked(face).request.on_incomplete is OnIncomplete.CLOSE
        request = asked(face, on_incomplete="error").request
        assert request.on_incomplete is OnIncomplete.ERROR
    assert refusal("chat", on_incomplete="fail").field == "on_incomplete"
    refused = echo.chat(content="cut", max_tokens=9, on_incomplete="error")
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["code"], error["guided"]["finish_reason"]) == (
        "incomplete_answer",
        "length_closed",
    )
    assert error["guided"]["text"]


def test_a_stream_of_a_response_tells_what_was_cut_short(echo: HttpServer) -> None:
    body = {"model": "echo", "input": "cut", "max_output_tokens": 9, "on_incomplete": "error"}
    events = echo.post("/v1/responses", {**body, "stream": True}).text
    (failed,) = re.findall(r"event: error\ndata: (.*)", events)
    assert json.loads(failed)["guided"]["finish_reason"] == "length_closed"


# Answers of at least so many tokens


@pytest.mark.parametrize(
    ("face", "fields", "least"),
    [
        ("chat", {}, None),
        ("chat", {"min_tokens": 0}, None),
        ("chat", {"min_tokens": 7}, 7),
        ("chat", {"ignore_eos": True}, 1024),
        ("chat", {"ignore_eos": True, "max_completion_tokens": 9, "stop": "x"}, 9),
        ("completions", {"ignore_eos": True}, 16),
        ("responses", {"ignore_eos": True, "min_tokens": 3, "max_output_tokens": 9}, 9),
    ],
)
def test_an_ignored_end_is_a_whole_budget(
    face: str, fields: dict[str, Any], least: int | None
) -> None:
    assert asked(face, **fields).request.min_tokens == least


@pytest.mark.parametrize(
    ("face", "fields", "after"),
    [
        ("chat", {"min_tokens": 7, "stop": "x"}, 7),
        ("chat", {"min_tokens": 0, "stop": "x"}, None),
        ("chat", {"min_tokens": 7}, None),
        ("chat", {"ignore_eos": True, "stop": "x"}, None),
        ("completions", {"ignore_eos": True, "min_tokens": 3, "stop": ["x", "y"]}, 3),
        ("chat", {"min_tokens": 7, "stop_token_ids": [5]}, 7),
        ("responses", {"min_tokens": 7, "stop_token_ids": [5]}, 7),
        ("chat", {"ignore_eos": True, "stop_token_ids": [5]}, None),
        ("completions", {"ignore_eos": True, "min_tokens": 3, "stop_token_ids": [5]}, 3),
    ],
)
def test_stops_count_behind_the_least_length(
    face: str, fields: dict[str, Any], after: int | None
) -> None:
    assert asked(face, **fields).request.stop_after == after


# Reports


def _report(schema: dict[str, Any]) -> dict[str, Any]:
    """The report as it is told: JSON has lists for tuples."""
    told: dict[str, Any] = json.loads(json.dumps(asdict(guided.check(schema))))
    del told["unenforced_validators"]
    return told


OBJECT = {**SCHEMA, "additionalProperties": False}


def test_a_report_comes_with_the_answer(echo: HttpServer) -> None:
    told = {"guided_json": OBJECT, "max_tokens": 1}
    assert "guided" not in echo.chat(**told).json()
    whole = echo.chat(**told, report=True).json()
    assert whole["guided"] == {"report": _report(OBJECT)}
    body = {"model": "echo", "prompt": "hi", "report": True, **told}
    assert echo.post("/v1/completions", body).json()["guided"] == whole["guided"]
    form = {"format": {"type": "json_schema", "name": "x", "schema": OBJECT}}
    response = {"model": "echo", "input": "hi", "text": form, "report": True}
    body = echo.post("/v1/responses", {**response, "max_output_tokens": 1}).json()
    assert body["guided"]["report"] == whole["guided"]["report"]


@pytest.mark.parametrize("tells_usage", [True, False])
def test_the_last_chunk_of_a_stream_has_the_report(echo: HttpServer, *, tells_usage: bool) -> None:
    body = chat(guided_json=OBJECT, max_tokens=3, report=True, stream=True)
    body["stream_options"] = {"include_usage": tells_usage}
    events = echo.post("/v1/chat/completions", body).text.split("\n\n")
    *chunks, last = [
        json.loads(event.removeprefix("data: ")) for event in events if event.startswith("data: {")
    ]
    assert last["choices"] == []
    assert last["guided"] == {"report": _report(OBJECT)}
    assert bool(last.get("usage")) == tells_usage
    assert all("guided" not in chunk for chunk in chunks)


def test_a_report_needs_a_constraint() -> None:
    with pytest.raises(RequestError, match="report needs a constraint to report on"):
        asked("chat", report=True)
