"""Errors of bodies that do not fit: the one fact that the sender needs, and its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from guided_service.http.findings import MaskRequest
from tests.service.test_http_fields import FACES, FLAT_TOOL, TOOL, refusal

OTHER = "is not honoured by this server"
LISTED = "leave it out; docs/openai.md lists what is honoured"
UNKNOWN = f" {OTHER}; {LISTED}"
ROLES = "it is one of 'system', 'developer', 'user', 'assistant', 'tool'"
FORMATS = "it is one of 'text', 'json_object', 'json_schema'"
CHAT_FORMATS = f"{FORMATS}, 'structural_tag'"
ITEMS = (
    "it is one of 'message', 'function_call', 'function_call_output', 'custom_tool_call', "
    "'custom_tool_call_output', 'reasoning'"
)
WORDS = "should be 'none', 'auto' or 'required'"
PROMPTS = "send a text, token ids, or several of them"
CALL = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}


def user(content: object) -> list[object]:
    return [{"role": "user", "content": content}]


def part(**fields: object) -> list[object]:
    return user([{"type": "text", "text": "Hi"}, fields])


@pytest.mark.parametrize(
    ("messages", "place", "told"),
    [
        ("Hi", "", ": should be a list"),
        ([], "", " has fewer than 1 part"),
        (["Hi"], "[0]", ": should be an object"),
        ([{"content": "x"}], "[0].role", f" is missing; {ROLES}"),
        ([{"role": "critic", "content": "x"}], "[0].role", f" is 'critic', which {OTHER}; {ROLES}"),
        ([{"role": [1], "content": "x"}], "[0].role", f" is no text; {ROLES}"),
        (user(5), "[0].content", ": should be a text or a list"),
        (user(["Hi"]), "[0].content[0]", ": should be an object"),
        (user({"type": "text"}), "[0].content", ": should be a text or a list"),
        (part(type="text"), "[0].content[1].text", " is missing"),
        (part(text="x"), "[0].content[1].type", " is missing"),
        (part(type="text", text=5), "[0].content[1].text", ": should be a valid string"),
        (part(type="image_url", image_url={}), "[0].content[1].type", ": should be 'text'"),
        (part(type="text", text="x", mood=1), "[0].content[1].mood", UNKNOWN),
        ([{"role": "assistant", "audio": {"id": "x"}}], "[0].audio", UNKNOWN),
    ],
)  # fmt: skip
def test_a_message_is_told_what_its_role_and_its_parts_lack(
    messages: object, place: str, told: str
) -> None:
    error = refusal("chat", messages=messages)
    assert (error.field, str(error)) == (f"messages{place}", f"messages{place}{told}")


@pytest.mark.parametrize(
    ("item", "place", "told"),
    [
        ("Hi", "", ": should be an object"),
        ({}, ".role", " is missing"),
        ({"role": "user"}, ".content", " is missing"),
        ({"role": "user", "content": 5}, ".content", ": should be a text or a list"),
        (
            {"role": "tool", "content": "x", "tool_call_id": "1"},
            ".role",
            ": should be 'system', 'developer', 'user' or 'assistant'",
        ),
        ({"role": "assistant", "content": "x", "tool_calls": []}, ".tool_calls", UNKNOWN),
        ({"type": "image", "id": "x"}, ".type", f" is 'image', which {OTHER}; {ITEMS}"),
        ({**CALL, "type": "tool_call"}, ".type", f" is 'tool_call', which {OTHER}; {ITEMS}"),
        ({"type": None, "role": "user", "content": "x"}, ".type", f" is missing; {ITEMS}"),
        ({"type": 5}, ".type", f" is no text; {ITEMS}"),
        ({"type": "function_call", "call_id": "1"}, ".name", " is missing"),
        ({**CALL, "arguments": {}}, ".arguments", ": should be a valid string"),
        ({**CALL, "content": "x"}, ".content", UNKNOWN),
        (
            {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_image"}]},
            ".output[0].type",
            f" is 'input_image', which {OTHER}; it is one of 'input_text', 'output_text', 'text', "
            "'refusal'",
        ),
        ({"type": "function_call_output", "output": "x"}, ".call_id", " is missing"),
        ({"type": "reasoning", "summary": "so"}, ".summary", ": should be a list"),
        ({"type": "reasoning", "encrypted_content": "x"}, ".encrypted_content", UNKNOWN),
    ],
)  # fmt: skip
def test_an_item_of_input_is_told_what_its_own_type_lacks(
    item: object, place: str, told: str
) -> None:
    error = refusal("responses", input=[{"role": "user", "content": "Hi"}, item])
    assert (error.field, str(error)) == (f"input[1]{place}", f"input[1]{place}{told}")


@pytest.mark.parametrize(
    ("face", "fields", "told"),
    [
        ("chat", {"tool_choice": "perhaps"}, f"tool_choice: {WORDS}"),
        ("chat", {"tool_choice": 5}, "tool_choice: should be a text or an object"),
        ("chat", {"tool_choice": {"type": "function"}}, "tool_choice.function is missing"),
        (
            "chat",
            {"tool_choice": {"type": "function", "name": "f"}},
            f"tool_choice.name {OTHER}; tool_choice.function is missing",
        ),
        ("responses", {"tool_choice": "perhaps"}, f"tool_choice: {WORDS}"),
        (
            "responses",
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            f"tool_choice.function {OTHER}; tool_choice.name is missing",
        ),
        ("responses", {"tools": [TOOL]}, f"tools[0].function {OTHER}; tools[0].name is missing"),
        ("chat", {"tools": [FLAT_TOOL]}, f"tools[0].name {OTHER}; tools[0].function is missing"),
        (
            "chat",
            {"response_format": {"type": "xml"}},
            f"response_format.type is 'xml', which {OTHER}; {CHAT_FORMATS}",
        ),
        ("chat", {"response_format": {}}, f"response_format.type is missing; {CHAT_FORMATS}"),
        ("chat", {"response_format": "json"}, "response_format: should be an object"),
        (
            "chat",
            {"response_format": {"type": "json_schema", "json_shema": {}}},
            "response_format: should have one of json_schema and schema",
        ),
        (
            "responses",
            {"text": {"format": {"type": "xml"}}},
            f"text.format.type is 'xml', which {OTHER}; {FORMATS}",
        ),
        ("responses", {"reasoning": "low"}, "reasoning: should be an object"),
        ("chat", {"stop": 5}, "stop: should be a text or a list"),
        ("chat", {"stop": [5]}, "stop[0]: should be a valid string"),
        ("chat", {"stop": ["a"] * 65}, "stop has more than 64 parts"),
        ("chat", {"guided_json": [1]}, "guided_json: should be an object or a text"),
        ("completions", {"prompt": [{}]}, f"prompt[0]: should be a valid string; {PROMPTS}"),
        ("completions", {"prompt": []}, f"prompt has fewer than 1 part; {PROMPTS}"),
        ("responses", {"input": []}, "input has fewer than 1 part"),
        ("responses", {"input": {}}, "input: should be a text or a list"),
    ],
)
def test_of_a_union_the_member_is_told_that_was_meant(
    face: str, fields: dict[str, Any], told: str
) -> None:
    assert str(refusal(face, **fields)) == told


@pytest.mark.parametrize(
    ("face", "name", "told"),
    [
        ("chat", "regex", "use structured_outputs.regex"),
        ("chat", "ebnf", "use structured_outputs.grammar"),
        ("completions", "grammar", "use structured_outputs.grammar"),
        ("completions", "json_schema", "use structured_outputs.json"),
        ("responses", "json_schema", "use text.format"),
        ("responses", "guided_json", "use text.format"),
        ("responses", "regex", "use structured_outputs.regex of /v1/chat/completions"),
        ("chat", "guided_decoding_backend", "leave it out; there is one compiler for all"),
        ("chat", "max_new_tokens", "use max_tokens"),
        ("responses", "max_new_tokens", "use max_output_tokens"),
        ("chat", "max_output_tokens", "use max_tokens"),
        ("chat", "n_probs", "use top_logprobs"),
        ("completions", "n_probs", "use logprobs"),
        ("completions", "n_predict", "use max_tokens"),
        ("responses", "n_predict", "use max_output_tokens"),
        ("chat", "length_penalty", "use n, which draws several answers; beams are for gRPC"),
        ("responses", "length_penalty", "leave it out; beams are for gRPC"),
        ("completions", "chat_template_kwargs", "send messages to /v1/chat/completions"),
        ("chat", "response_fromat", "did you mean 'response_format'?"),
        ("responses", "temprature", "did you mean 'temperature'?"),
        ("chat", "something", LISTED),
    ],
)
def test_a_field_of_another_server_is_told_what_does_the_same(
    face: str, name: str, told: str
) -> None:
    assert str(refusal(face, **{name: "x"})).startswith(f"{name} {OTHER}; {told}")


@pytest.mark.parametrize(
    ("face", "fields", "told"),
    [
        ("chat", {"use_beam_search": True}, "should be False; use n, which draws several"),
        ("chat", {"store": True}, "should be False"),
        (
            "chat",
            {"chat_template_kwargs": {"thinking_budget": 9}},
            f"{OTHER}; use thinking_token_budget",
        ),
    ],
)
def test_a_value_that_is_not_ours_is_told_what_does_the_same(
    face: str, fields: dict[str, Any], told: str
) -> None:
    assert told in str(refusal(face, **fields))


_NAMED = re.compile(r"""use "?([a-z_.]+)"?(?! of /|[\w.])""")
"""The field that a hint names on its own face; 'use x of /v1/...' names one of another."""


def _has_field(kind: Any, path: str) -> bool:
    """Whether a body has a field; inside of a mapping any name is one."""
    name, _, inner = path.partition(".")
    for field, info in getattr(kind, "model_fields", {}).items():
        if name == (info.alias or field):
            parts = (info.annotation, *get_args(info.annotation))
            models = [each for each in parts if hasattr(each, "model_fields")]
            return not inner or not models or any(_has_field(each, inner) for each in models)
    return False


@pytest.mark.parametrize("face", [*FACES, "mask"])
def test_a_hint_names_only_fields_of_its_own_face(face: str) -> None:
    kind: Any = MaskRequest if face == "mask" else FACES[face][0]
    named = {
        name: path
        for path, hint in kind.hints.items()
        for name in _NAMED.findall(hint)
        if name not in ("a", "the")
    }
    assert named
    assert [name for name in named if not _has_field(kind, name)] == []


@pytest.mark.parametrize(
    ("face", "path"),
    [(face, path) for face, (kind, *_) in FACES.items() for path in sorted(kind.hints)],
)
def test_no_hint_is_for_a_field_that_is_taken_as_it_is(face: str, path: str) -> None:
    name, _, inner = path.partition(".")
    error = refusal(face, **{name: {inner: "x"} if inner else {"x": "x"}})
    kind = FACES[face][0]
    assert error.field == path
    assert str(error).endswith(f"; {kind.hints[path]}")


@pytest.mark.parametrize("kind", [*(kind for kind, *_ in FACES.values()), MaskRequest])
def test_no_union_tries_all_of_its_members(kind: Any) -> None:
    kinds = {*_kinds(kind.__pydantic_core_schema__)}
    assert "tagged-union" in kinds
    assert "union" not in kinds


@pytest.mark.parametrize("kind", [*(kind for kind, *_ in FACES.values()), MaskRequest])
def test_no_list_of_any_length_has_all_of_its_faults_written_down(kind: Any) -> None:
    """Other callers would wait while pydantic makes 50,000 objects of them."""
    lists = [each for each in _schemas(kind.__pydantic_core_schema__) if each["type"] == "list"]
    assert lists
    for each in lists:
        is_any = each.get("items_schema", {}).get("type", "any") == "any"
        assert each.get("fail_fast") or "max_length" in each or is_any, each


def test_many_biases_are_counted_before_they_are_looked_at() -> None:
    biases = {str(token): "a lot" for token in range(1025)}
    assert str(refusal("chat", logit_bias=biases)) == "logit_bias has more than 1024 parts"


UNKNOWN_50000 = {f"f{number}": number for number in range(50_000)}


@pytest.mark.parametrize(
    ("face", "fields", "before"),
    [
        ("chat", UNKNOWN_50000, ""),
        ("completions", UNKNOWN_50000, ""),
        ("responses", UNKNOWN_50000, ""),
        ("chat", {"stream_options": UNKNOWN_50000}, "stream_options."),
        ("chat", {"messages": user([{"type": "text"} | UNKNOWN_50000])}, "messages[0].content[0]."),
        ("chat", {"tools": [TOOL | UNKNOWN_50000]}, "tools[0]."),
        ("responses", {"input": [CALL | UNKNOWN_50000]}, "input[0]."),
    ],
)
def test_of_many_unknown_fields_a_few_are_named_and_the_others_counted(
    face: str, fields: dict[str, Any], before: str
) -> None:
    error = refusal(face, **fields)
    assert error.field == f"{before}f0"
    assert str(error) == (
        f"{before}f0, {before}f1, {before}f2 and 49997 other fields are not honoured by this "
        "server; leave them out; docs/openai.md lists what is honoured"
    )
    # Other callers would wait while pydantic writes faults down.
    assert isinstance(error.__cause__, ValidationError)
    assert error.__cause__.error_count() == 1


def test_a_few_unknown_fields_are_told_with_what_is_missing_beside_them() -> None:
    unknown = {f"f{number}": number for number in range(8)}
    error = refusal("chat", tools=[{"type": "function"} | unknown])
    assert str(error) == f"tools[0].f0 {OTHER}; tools[0].function is missing"
    assert isinstance(error.__cause__, ValidationError)
    assert error.__cause__.error_count() == 9


def test_a_long_name_is_told_in_short() -> None:
    error = refusal("chat", **{"f" * 1_000_000: 1})
    assert error.field == "f" * 100


def _kinds(schema: object) -> Iterator[str]:
    return (each["type"] for each in _schemas(schema))


def _schemas(schema: object) -> Iterator[dict[str, Any]]:
    """All parts of a schema of pydantic's core that have a type."""
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str):
            yield schema
        for inner in schema.values():
            yield from _schemas(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _schemas(inner)
