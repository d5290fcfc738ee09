"""Settings of a server for what requests leave open, over both faces."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import guided
from guided.client import Client, RawPrompt
from guided.errors import IncompleteAnswerError, InvalidConstraintError
from guided.spec import (
    GenerationRequest,
    JsonOptions,
    JsonSchema,
    Lark,
    Message,
    OnIncomplete,
    Regex,
    Structure,
    Tool,
    UnknownKeywords,
)
from guided.spec.composition import AnyOf, JsonObject, Repeat, Sequence, Template
from guided.spec.tagged import Tag, Tagged
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import FORMATS, HERMES, ToolFormat
from guided.spec.tools import ToolUse
from guided.wire_request import decode_request, encode_request
from guided_service.config import ServerConfig
from guided_service.defaults import fill_request
from tests.service.http_server import HttpServer, chat, serving_http
from tests.service.server_process import ECHO_SERVER
from tests.service.test_http_fields import FACES, SCHEMA

STRICT = ServerConfig(unknown_keywords="refuse", on_incomplete="error")
PLAIN = ServerConfig()
OPEN = JsonSchema("{}")
NOTING = JsonSchema("{}", JsonOptions(unknown_keywords="note"))


def filled(request: GenerationRequest, config: ServerConfig) -> GenerationRequest:
    """The request as a server with these settings reads it."""
    message = encode_request(request)
    fill_request(message, config)
    return decode_request(message)


def words(structure: Structure | None) -> list[UnknownKeywords | None]:
    """What each schema in a constraint says of unknown keywords."""
    if structure is None:
        return []
    own = [structure.options.unknown_keywords] if isinstance(structure, JsonSchema) else []
    return [*own, *(word for inner in structure.inner() for word in words(inner))]


WITHIN: tuple[Callable[[JsonSchema], Structure], ...] = (
    lambda schema: schema,
    lambda schema: Sequence(["x", schema]),
    lambda schema: AnyOf([Regex("a"), schema]),
    lambda schema: Repeat(Sequence([schema, "x"])),
    lambda schema: Template("{a}", {"a": schema}),
    lambda schema: Lark("start: a\n%declare a", holes={"a": schema}),
    lambda schema: Tagged([Tag("<a>", schema, "</a>")], "<a>"),
)


@pytest.mark.parametrize("within", WITHIN)
def test_a_schema_that_does_not_say_has_the_word_of_the_settings(
    within: Callable[[JsonSchema], Structure],
) -> None:
    request = GenerationRequest("x", within(OPEN))
    assert words(filled(request, STRICT).constraint) == [UnknownKeywords.REFUSE]
    assert filled(request, PLAIN) == request
    says = GenerationRequest("x", within(NOTING))
    assert words(filled(says, STRICT).constraint) == [UnknownKeywords.NOTE]


def test_schemas_in_a_grammar_have_the_word_of_the_settings() -> None:
    text = "start: %json {}"
    for says, means in (
        (None, UnknownKeywords.REFUSE),
        (UnknownKeywords.NOTE, UnknownKeywords.NOTE),
    ):
        options = JsonOptions(whitespace=2, unknown_keywords=says)
        request = GenerationRequest("x", Lark(text, json_options=options))
        expected = Lark(text, json_options=replace(options, unknown_keywords=means))
        assert filled(request, STRICT).constraint == expected
        assert filled(request, PLAIN) == request
    plain = GenerationRequest("x", Lark('start: "a"'))
    assert filled(plain, STRICT).constraint == plain.constraint


def test_other_options_of_a_schema_stay_as_they_are() -> None:
    options = JsonOptions(whitespace=None, key_order="any")
    (schema,) = [filled(GenerationRequest("x", JsonSchema("{}", options)), STRICT).constraint]
    assert schema == JsonSchema("{}", JsonOptions(None, "any", unknown_keywords="refuse"))


PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 9},
        "days": {"type": "integer"},
        "units": {"$ref": "#/$defs/units"},
    },
    "required": ["city", "days", "units"],
    "$defs": {"units": {"type": "number", "minimum": 1}},
}


@pytest.mark.parametrize("form", FORMATS.values(), ids=list(FORMATS))
def test_schemas_of_tools_have_the_word_of_the_settings(form: ToolFormat) -> None:
    """In every format of calls, which each make other constraints of a schema."""
    for says, config, means in (
        (None, STRICT, UnknownKeywords.REFUSE),
        (None, PLAIN, None),
        (UnknownKeywords.NOTE, STRICT, UnknownKeywords.NOTE),
        (UnknownKeywords.REFUSE, PLAIN, UnknownKeywords.REFUSE),
    ):
        tool = Tool("f", "", PARAMETERS, unknown_keywords=says)
        turns = (Message("user", "x"),)
        use = filled(GenerationRequest(turns, tools=ToolUse((tool,))), config).tools
        assert use is not None
        assert {*words(with_calls(use, None, form))} == {means}


@pytest.mark.parametrize("form", [HERMES, FORMATS["qwen_xml"]])
@pytest.mark.parametrize("name", ["city", "days"])
def test_a_misspelt_keyword_of_a_tool_is_refused(form: ToolFormat, name: str) -> None:
    misspelt = {"type": "object", "properties": {name: {"type": "string", "maxlength": 3}}}
    tool = Tool("f", "", misspelt)
    assert guided.check(with_calls(ToolUse((tool,)), None, form))
    strict = replace(tool, unknown_keywords=UnknownKeywords.REFUSE)
    with pytest.raises(InvalidConstraintError, match="did you mean 'maxLength'"):
        guided.check(with_calls(ToolUse((strict,)), None, form))


@pytest.mark.parametrize(
    ("says", "config", "means"),
    [
        (None, STRICT, OnIncomplete.ERROR),
        (None, PLAIN, None),
        (OnIncomplete.CLOSE, STRICT, OnIncomplete.CLOSE),
        (OnIncomplete.ERROR, PLAIN, OnIncomplete.ERROR),
    ],
)
def test_a_request_that_does_not_say_what_an_incomplete_answer_is_has_the_word_of_the_settings(
    says: OnIncomplete | None, config: ServerConfig, means: OnIncomplete | None
) -> None:
    assert filled(GenerationRequest("x", on_incomplete=says), config).on_incomplete is means


BODIES: dict[str, dict[str, Any]] = {
    "chat": {"response_format": {"type": "json_object", "schema": SCHEMA}},
    "completions": {"guided_json": SCHEMA},
    "responses": {"text": {"format": {"type": "json_object"}}},
}


@pytest.mark.parametrize("face", FACES)
def test_calls_over_http_have_the_same_defaults(face: str) -> None:
    _, read, base, _ = FACES[face]
    body = {**base, **BODIES[face]}
    request = read(body, STRICT).request
    assert words(request.constraint) == [UnknownKeywords.REFUSE]
    assert request.on_incomplete is OnIncomplete.ERROR
    said = {"json_options": {"unknown_keywords": "note"}, "on_incomplete": "close"}
    request = read({**body, **said}, STRICT).request
    assert words(request.constraint) == [UnknownKeywords.NOTE]
    assert request.on_incomplete is OnIncomplete.CLOSE


# A server


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    settings = {"unknown_keywords": "refuse", "on_incomplete": "error"}
    with serving_http(ECHO_SERVER, tmp_path_factory.mktemp("strict") / "log", settings) as server:
        yield server


@pytest.fixture
def client(strict: HttpServer) -> Iterator[Client]:
    with Client(strict.process.address) as connected:
        yield connected


MISSPELT = {"type": "string", "maxlength": 3}


def test_a_misspelt_keyword_is_refused_by_default(client: Client, strict: HttpServer) -> None:
    """The echo engine reads the constraint of an answer only for its report."""
    asked: dict[str, Any] = {"schema": MISSPELT, "max_tokens": 1, "report": True}
    grammars, prompt = client.grammars, RawPrompt('""')
    for refused in (
        lambda: client.generate(prompt, **asked),
        lambda: grammars.check(schema=MISSPELT),
        lambda: grammars.compile(schema=MISSPELT),
        lambda: grammars.validate('""', schema=MISSPELT),
        lambda: grammars.check(grammar=Sequence(["x", JsonSchema(json.dumps(MISSPELT))])),
    ):
        with pytest.raises(InvalidConstraintError, match="did you mean 'maxLength'"):
            refused()
    body = chat(guided_json=MISSPELT, max_tokens=1, report=True)
    assert "maxLength" in strict.post("/v1/chat/completions", body).json()["error"]["message"]
    said = JsonOptions(unknown_keywords="note")
    assert client.generate(prompt, **asked, json_options=said).report is not None
    assert grammars.check(schema=MISSPELT, json_options=said)
    body["json_options"] = {"unknown_keywords": "note"}
    assert strict.post("/v1/chat/completions", body).status_code == 200
    assert guided.check(MISSPELT)


def test_a_stored_constraint_has_the_defaults_of_its_server(client: Client) -> None:
    kept = client.grammars.compile(schema=SCHEMA)
    strict = JsonSchema(json.dumps(SCHEMA), JsonOptions(unknown_keywords="refuse"))
    assert kept.constraint_id == strict.digest()
    prompt = RawPrompt("constraint")
    for named in (kept.constraint, JsonSchema(json.dumps(SCHEMA))):
        answer = client.generate(prompt, grammar=named, max_tokens=1)
        assert answer.text == kept.constraint_id


def test_an_incomplete_answer_is_an_error_by_default(client: Client, strict: HttpServer) -> None:
    prompt = RawPrompt("cut short")
    with pytest.raises(IncompleteAnswerError):
        client.generate(prompt, max_tokens=9)
    (batched,) = client.batch([guided.Request(prompt, max_tokens=9)])
    assert isinstance(batched, IncompleteAnswerError)
    with (
        pytest.raises(IncompleteAnswerError),
        client.stream(prompt, max_tokens=9) as stream,
    ):
        list(stream)
    assert client.generate(prompt, max_tokens=9, on_incomplete="close").text == "cut short"
    refused = strict.chat(content="cut", max_tokens=9).json()["error"]
    assert refused["code"] == "incomplete_answer"
    assert strict.chat(content="cut", max_tokens=9, on_incomplete="close").status_code == 200


def test_json_objects_have_options_like_any_schema() -> None:
    assert filled(GenerationRequest("x", JsonObject()), STRICT).constraint == JsonSchema(
        JsonObject().text, JsonOptions(unknown_keywords="refuse")
    )
