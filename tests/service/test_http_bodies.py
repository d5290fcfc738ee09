"""Bodies of calls over HTTP: invalid JSON, endless nesting or repetition, and odd values."""

from __future__ import annotations

import copy
import random
from collections import Counter
from typing import Any

import pytest

from guided.errors import InvalidConstraintError, LimitExceededError, RequestError
from guided.spec import JsonSchema
from guided_service.config import ServerConfig
from guided_service.http.body import check_values, read_json
from guided_service.http.chat_request import read_chat
from guided_service.http.errors import refusal_of
from guided_service.http.watched import read_watched
from tests.kit.effort import times
from tests.service.test_http_fields import CHAT, FACES, REFUSED, asked, refusal
from tests.service.test_http_honoured import EXAMPLES


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'"x"',
        b'{"a": NaN}',
        b"\xff",
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b"[" * 10**5,
    ],
)
def test_a_body_that_is_no_object_of_json_is_an_error(body: bytes) -> None:
    with pytest.raises(RequestError, match="the body of the call"):
        read_json(body, 10**6)


@pytest.mark.parametrize(
    ("body", "values"),
    [(b"{}", 1), (b'{"a": 1}', 2), (b"[1, [2], {}]", 5), (b'["a,b:c[{", "\\",\\""]', 2)],
)
def test_values_are_counted_and_texts_not_looked_into(body: bytes, values: int) -> None:
    padded = body + b" " * 100  # a short body cannot hold too many
    check_values(padded, values)
    with pytest.raises(LimitExceededError, match=f"has more than {values - 1} values"):
        check_values(padded, values - 1)


def test_a_schema_that_nests_without_end_is_an_error() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"properties": {"a": schema}}
    with pytest.raises(InvalidConstraintError, match="nests too deeply"):
        asked("chat", guided_json=schema)


@pytest.mark.parametrize("number", ["9007199254740993.25", "1E+400", "12345678901234567890.5"])
def test_a_schema_that_is_given_as_text_keeps_its_numbers(number: str) -> None:
    text = f'{{"type":"number","const":{number}}}'
    constraint = asked("chat", guided_json=text).request.constraint
    assert isinstance(constraint, JsonSchema)
    assert constraint.text == text
    assert str(refusal("chat", guided_json=f'{{"const":1e{"9" * 30}}}')).startswith("guided_json")


# Arbitrary bodies

ODD: list[Any] = [
    *(None, True, 0, -1, 10**30, 1.5, -1e308, "", "x", "语", [], {}, [[]], [None]),
    *([1, "a"], {"": ""}, {"type": "x"}, {"type": ["object"]}, {"$ref": "#"}, {"$ref": 1}),
    *({"properties": []}, {"properties": {"a": 1}}, {"oneOf": [1]}, {"required": [1]}),
]


def test_a_response_is_told_where_an_effort_goes() -> None:
    said = str(refusal("responses", reasoning_effort="low"))
    assert said == "reasoning_effort is not honoured by this server; use reasoning.effort"


@pytest.mark.parametrize("ours", ["reasoning", "reasoning.max_tokens"])
@pytest.mark.parametrize(
    "fields",
    [{"reasoning_effort": "low"}, {"reasoning_effort": "none"}, {"max_reasoning_tokens": 2}],
)
def test_errors_about_thoughts_name_the_field_that_was_sent(
    fields: dict[str, Any], ours: str
) -> None:
    (sent,) = fields
    for read in (read_chat, read_watched):
        call = read({**CHAT, **fields}, ServerConfig())
        told: Any = refusal_of(RequestError("no", field=ours), 0.5, call.came_from).body
        assert told["error"]["param"] == sent


@pytest.mark.parametrize(
    ("face", "fields", "sent", "off"),
    [
        ("chat", {"reasoning_effort": "low"}, "reasoning_effort", "none or 0"),
        ("chat", {"max_reasoning_tokens": 2}, "max_reasoning_tokens", "none or 0"),
        ("chat", {"thinking_token_budget": 2}, "thinking_token_budget", "none or 0"),
        ("responses", {"reasoning": {"effort": "low"}}, "reasoning.effort", "none or 0"),
        (
            "responses",
            {"chat_template_kwargs": {"thinking": True}},
            "chat_template_kwargs.thinking",
            "false",
        ),
    ],
)
def test_a_way_out_names_the_field_that_was_sent(
    face: str, fields: dict[str, Any], sent: str, off: str
) -> None:
    error = RequestError("no signs", field="reasoning", hint="say with begin and end")
    told: Any = refusal_of(error, 0.5, asked(face, **fields).came_from).body
    assert told["error"]["param"] == sent
    assert told["error"]["message"] == f"no signs; leave {sent} out, or set it to {off}"


@pytest.mark.parametrize("face", FACES)
def test_odd_values_are_taken_or_refused_and_never_a_fault(face: str) -> None:
    _, _, base, _ = FACES[face]
    bodies = [{**base, **fields} for fields in EXAMPLES[face].values()]
    bodies += [{**base, **fields} for name, fields, _ in REFUSED if name == face]
    rng, tries = random.Random(8), times(6)
    outcomes = Counter[bool]()
    for body in bodies:
        for _ in range(tries):
            changed = copy.deepcopy(body)
            _change(changed, rng)
            try:
                asked(face, **changed)
                outcomes[True] += 1
            except RequestError as error:
                refusal_of(error, 0.5)
                outcomes[False] += 1
    assert min(outcomes[True], outcomes[False]) > 2 * tries


def _change(body: Any, rng: random.Random) -> None:
    """Put an odd value somewhere into a body."""
    places: list[tuple[Any, Any]] = []
    waiting = [body]
    while waiting:
        at = waiting.pop()
        inner = at.items() if isinstance(at, dict) else enumerate(at)
        for key, value in [*inner]:
            places.append((at, key))
            if isinstance(value, dict | list):
                waiting.append(value)
    at, key = rng.choice(places)
    at[key] = copy.deepcopy(rng.choice(ODD))
