"""A request that cannot be made or sent is refused, by the name of its field."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, cast

import pytest
from pydantic import TypeAdapter

from guided.client import RawPrompt, Request
from guided.errors import (
    GuidedError,
    InvalidConstraintError,
    LimitExceededError,
    RequestError,
)
from guided.spec import (
    Beams,
    JsonOptions,
    Lark,
    Message,
    Stored,
)
from guided.wire_request import encode_request

NO_PROMPT = (
    "pass a string, a list of guided.Message, a guided.RawPrompt of a string, or a "
    "guided.TokenPrompt of tokens"
)
NO_MESSAGE = "write guided.Message(role, content), or a mapping of just these two"
PART: dict[str, Any] = {"type": "text", "text": "hel"}
NO_PART = 'write {"type": "text", "text": ...} and nothing else'
NO_TYPE = "pass a type, e.g. a pydantic model, or schema="


@pytest.mark.parametrize(
    ("arguments", "field", "text"),
    [
        ({"prompt": None}, "prompt", f"None is not a prompt; {NO_PROMPT}"),
        ({"prompt": 5}, "prompt", f"5 is not a prompt; {NO_PROMPT}"),
        ({"prompt": b"hi"}, "prompt", f"b'hi' is not a prompt; {NO_PROMPT}"),
        (
            {"prompt": {"role": "user"}},
            "prompt",
            f"{{'role': 'user'}} is not a prompt; {NO_PROMPT}",
        ),
        (
            {"prompt": RawPrompt(cast("Any", 5))},
            "prompt",
            f"RawPrompt(text=5) is not a prompt; {NO_PROMPT}",
        ),
        (
            {"prompt": [{"role": "user", "content": "hi", "name": "me"}]},
            "messages",
            "message 0 is {'role': 'user', 'content': 'hi', 'name': 'me'}, which is not a "
            f"guided.Message; {NO_MESSAGE}",
        ),
        (
            {"prompt": [Message("user", "hi"), "hi"]},
            "messages",
            f"message 1 is 'hi', which is not a guided.Message; {NO_MESSAGE}",
        ),
        (
            {"prompt": [{"role": "user", "content": 5}]},
            "messages.content",
            "the content of message 0 is 5, which is neither a string nor a list of parts; pass it "
            "as text",
        ),
        (
            {"prompt": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages.content",
            "part 0 of message 0 is of type 'image_url', but models take only text; leave it out",
        ),
        (
            {"prompt": [Message("user", cast("Any", [PART, {"type": "input_audio"}]))]},
            "messages.content",
            "part 1 of message 0 is of type 'input_audio', but models take only text; leave it out",
        ),
        *(
            (
                {"prompt": [{"role": "user", "content": [part]}]},
                "messages.content",
                f"part 0 of message 0 is {part!r}, which is not a part of type text; {NO_PART}",
            )
            for part in (5, "hi", {"text": "hi"}, {"type": "text"}, {**PART, "mood": 1})
        ),
        (
            {"prompt": [{"role": "me", "content": "hi"}]},
            "messages.role",
            "role 'me' is none of 'system', 'developer', 'user', 'assistant', 'tool'",
        ),
        (
            {"max_tokens": "10"},
            "max_tokens",
            "max_tokens '10' is not an integer; pass an integer or None",
        ),
        (
            {"default_max_tokens": None},
            "default_max_tokens",
            "default_max_tokens None is not an integer; pass an integer",
        ),
        (
            {"max_tokens": 1.5},
            "max_tokens",
            "max_tokens 1.5 is not an integer; pass an integer or None",
        ),
        (
            {"max_tokens": True},
            "max_tokens",
            "max_tokens True is not an integer; pass an integer or None",
        ),
        (
            {"temperature": "hot"},
            "sampling.temperature",
            "temperature 'hot' is not a number; pass a number",
        ),
        ({"top_k": 2.0}, "sampling.top_k", "top_k 2.0 is not an integer; pass an integer or None"),
        ({"top_p": "x"}, "sampling.top_p", "top_p 'x' is not a number; pass a number or None"),
        ({"seed": "x"}, "sampling.seed", "seed 'x' is not an integer; pass an integer or None"),
        ({"min_p": "x"}, "sampling.min_p", "min_p 'x' is not a number; pass a number or None"),
        (
            {"repetition_penalty": None},
            "sampling.repetition_penalty",
            "repetition_penalty None is not a number; pass a number",
        ),
        (
            {"no_repeat_ngram_size": 2.5},
            "sampling.no_repeat_ngram_size",
            "no_repeat_ngram_size 2.5 is not an integer; pass an integer or None",
        ),
        (
            {"logit_bias": [(1, 2)]},
            "sampling.logit_bias",
            "logit_bias [(1, 2)] is not a mapping of token ids to numbers; "
            "pass a mapping of token ids to numbers",
        ),
        (
            {"draft_widths": 4},
            "draft_widths",
            "draft_widths 4 is not a collection of integers; pass a collection of integers",
        ),
        (
            {"logit_bias": {"1": 2.0}},
            "sampling.logit_bias",
            "logit_bias holds '1', which is not a token id; pass integers",
        ),
        (
            {"logit_bias": {1: "2"}},
            "sampling.logit_bias",
            "logit_bias holds '2', which is not a number; pass numbers",
        ),
        (
            {"logit_bias": {1: 1000}},
            "sampling.logit_bias",
            "logit_bias 1000.0 of token 1 is not between -100 and 100",
        ),
        ({"stop": 5}, "stop", "stop 5 is not a string, or several; pass a string, or several"),
        ({"stop": ["a", 5]}, "stop", "stop holds 5, which is not a string; pass strings"),
        (
            {"stop_tokens": ["a"]},
            "stop_tokens",
            "stop_tokens holds 'a', which is not a token id; pass integers",
        ),
        (
            {"stop_tokens": [True]},
            "stop_tokens",
            "stop_tokens holds True, which is not a token id; pass integers",
        ),
        (
            {"include_stop": 1, "stop": "a"},
            "include_stop",
            "include_stop 1 is not True or False; pass True or False",
        ),
        (
            {"top_logprobs": "all"},
            "top_logprobs",
            "top_logprobs 'all' is not an integer; pass an integer or None",
        ),
        (
            {"show_schema": "yes"},
            "show_schema",
            "show_schema 'yes' is not True or False; pass True or False",
        ),
        (
            {"response_model": {"type": "integer"}},
            "response_model",
            "response_model {'type': 'integer'} is not a type; pass it as schema=",
        ),
        ({"response_model": 5}, "response_model", f"response_model 5 is not a type; {NO_TYPE}"),
        (
            {"response_model": "int"},
            "response_model",
            "response_model 'int' is not a type; pass a type; a grammar in Lark's format has a "
            "rule named start",
        ),
        (
            {"grammar": re.compile(b"a")},
            "constraint",
            "the pattern b'a' is no string; compile a string",
        ),
        (
            {"response_model": len},
            "response_model",
            f"response_model <built-in function len> is not a type; {NO_TYPE}",
        ),
        (
            {"schema": int},
            "schema",
            "schema is <class 'int'>, which is not a JSON Schema; pass a type as response_model",
        ),
        (
            {"schema": {"name": "person", "schema": {"type": "object"}, "strict": True}},
            "schema",
            "schema is a wrapper around a schema, as in OpenAI's API; pass the schema in it: "
            'schema["schema"]',
        ),
        (
            {"json_options": {"whitespace": 1}, "schema": "{}"},
            "json_options",
            "json_options {'whitespace': 1} is not a guided.JsonOptions; pass a guided.JsonOptions",
        ),
        (
            {"json_options": JsonOptions(whitespace=1)},
            "json_options",
            "json_options needs a response_model or a schema",
        ),
        (
            {"documents": {"urn:a": {}}},
            "documents",
            "documents needs a response_model or a schema",
        ),
        (
            {"documents": ["urn:a"], "schema": "{}"},
            "documents",
            "documents ['urn:a'] is not a mapping of URIs to schemas; "
            "pass a mapping of URIs to schemas",
        ),
        (
            {"documents": {1: "{}"}, "schema": "{}"},
            "documents",
            "the document key 1 is not a URI; pass a string",
        ),
        (
            {"documents": {"urn:a": int}, "schema": "{}"},
            "documents",
            "documents is <class 'int'>, which is not a JSON Schema; pass text or a dict",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_the_name_of_its_field(
    arguments: dict[str, Any], field: str, text: str
) -> None:
    with pytest.raises(RequestError) as caught:
        Request(**{"prompt": "x", **arguments})
    assert (str(caught.value), caught.value.field) == (text, field)


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"prompt": ""}, RequestError, "the prompt is empty"),
        ({"prompt": []}, RequestError, "the prompt is empty"),
        (
            {"prompt": "x", "response_model": int, "schema": "{}"},
            RequestError,
            "both response_model and schema are given; "
            "leave one out; the schema of a response model is its own",
        ),
        ({"prompt": "x", "max_tokens": 0}, RequestError, "max_tokens 0 is below 1"),
        (
            {"prompt": "x", "forcing": "some"},
            RequestError,
            "forcing 'some' is none of 'off', 'strict', 'canonical'",
        ),
        (
            {"prompt": "x", "schema": {"maximum": float("nan")}},
            InvalidConstraintError,
            "the schema is not JSON: Out of range float values are not JSON compliant",
        ),
        (
            {"prompt": "x", "schema": {"enum": [Decimal(1)]}},
            InvalidConstraintError,
            "the schema is not JSON: Object of type Decimal is not JSON serializable",
        ),
        (
            {"prompt": "x", "response_model": Lark('start: "a"'), "grammar": Stored("lark:0")},
            RequestError,
            "a grammar is given beside a response_model or a schema; leave one out",
        ),
        (
            {"prompt": RawPrompt("x"), "response_model": int, "show_schema": True},
            RequestError,
            "show_schema needs messages; pass the prompt as messages, or write the schema into it",
        ),
    ],
)
def test_a_request_that_cannot_be_made_says_why(
    arguments: dict[str, Any], kind: type[GuidedError], text: str
) -> None:
    with pytest.raises(kind) as caught:
        Request(**arguments)
    assert type(caught.value) is kind
    assert str(caught.value) == text


@pytest.mark.parametrize("model", [type("Plain", (), {}), TypeAdapter(type)])
def test_a_type_without_a_schema_is_refused(model: Any) -> None:
    with pytest.raises(
        RequestError, match=r"has no JSON Schema: .*; use a type that pydantic"
    ) as e:
        Request("x", model)
    assert e.value.field == "response_model"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"n": 1.5}, "n 1.5 is not an integer; pass an integer"),
        ({"best_of": "2"}, "best_of '2' is not an integer; pass an integer or None"),
        ({"beams": 3}, "beams 3 is not a guided.Beams; pass a guided.Beams or None"),
    ],
)
def test_counts_and_beams_of_another_kind_are_refused(
    options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(RequestError) as caught:
        Request("x", temperature=1.0, **options)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("request_", "kind", "field"),
    [
        (Request("x", max_tokens=2**31), LimitExceededError, "max_tokens"),
        (Request("x", top_k=2**40), LimitExceededError, "sampling.top_k"),
        (Request("x", stop_tokens=[2**31]), LimitExceededError, "stop_tokens"),
        (Request("x", logit_bias={2**31: 1}), LimitExceededError, "sampling.logit_bias"),
        (Request("x", n=2**31, temperature=1), LimitExceededError, "n"),
        (Request("x", beams=Beams(2**31)), LimitExceededError, "beams.width"),
        (Request("x", cache_salt="a\ud800"), RequestError, "cache_salt"),
        (Request("a\ud800"), RequestError, "messages.content"),
        (Request(RawPrompt("a\ud800")), RequestError, "prompt"),
        (Request("x", schema='"\ud800"'), RequestError, "constraint"),
    ],
)
def test_what_no_message_can_carry_is_refused_before_sending(
    request_: Request[Any], kind: type[RequestError], field: str
) -> None:
    with pytest.raises(kind) as caught:
        encode_request(request_.specification)
    assert caught.value.field == field
