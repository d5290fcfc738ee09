"""Terms of the reward: a table of texts, and properties of any text."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.constraint import ConstraintCompiler
from guided.errors import RequestError
from guided.spec import JsonSchema, Lark, Message, Structure
from guided.train.reward_tune.extraction import extraction_tasks
from guided.train.reward_tune.rewards import TERMS, Judge, Scores, Weights
from guided.train.reward_tune.tasks import Task, compact
from tests.kit.walks import BYTES, random_walk

_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 3},
        "paid": {"type": "boolean"},
    },
    "required": ["name", "tags", "paid"],
    "additionalProperties": False,
}
_ANSWER = {"name": "Ann", "tags": ["a", "b"], "paid": True}
_TEXT = '{"name":"Ann","tags":["a","b"],"paid":true}'
_SUM = Lark('start: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]+/')
_JUDGE = Judge()


def _task(constraint: Structure, expected: str | None = None) -> Task:
    return Task("one", (Message("user", "Hi"),), constraint, expected)


def _of_schema(schema: Any = _SCHEMA, expected: str | None = None) -> Task:
    return _task(JsonSchema(json.dumps(schema)), expected)


_KNOWN = _of_schema(expected=_TEXT)
_FIELDS = 4


@pytest.mark.parametrize(
    ("text", "parses", "closeness", "right", "layout"),
    [
        pytest.param(_TEXT, 1, 1, 1, 0, id="the expected answer"),
        pytest.param(f" {_TEXT}\n", 1, 1, 1, 2 / 45, id="white space around it"),
        pytest.param('{"paid":true,"name":"Ann","tags":["a","b"]}', 1, 1, 1, 0, id="another order"),
        pytest.param(
            '{"name":"\\u0041nn","tags":["a","b"],"paid":true}', 1, 1, 1, 5 / 48, id="escapes"
        ),
        pytest.param(
            '{"name":"Bob","tags":["a","b"],"paid":true}', 1, 1, 3 / _FIELDS, 0, id="a wrong name"
        ),
        pytest.param(
            '{"name":"Ann","tags":["a","b","c"],"paid":true}', 1, 1, 4 / 5, 0, id="an item more"
        ),
        # In the union of both: name, paid, two tags, and the empty list in their place.
        pytest.param('{"name":"Ann","tags":[],"paid":true}', 1, 1, 2 / 5, 0, id="no items"),
        pytest.param(
            '{"name":"Ann","tags":["a","b"],"paid":1}', 0, 38 / 43, 3 / 4, 0, id="1 is not true"
        ),
        pytest.param('{"name":"Ann","tags":["a","b"]}', 0, 30 / 43, 3 / 4, 0, id="a field less"),
        pytest.param(_TEXT[:-1], 0, 42 / 43, 0, 0, id="unfinished"),
        pytest.param(f"{_TEXT} Done.", 0, 43 / 49, 0, 0, id="talk behind it"),
        pytest.param(f"Sure: {_TEXT}", 0, 0, 0, 0, id="talk before it"),
        pytest.param(f"```json\n{_TEXT}\n```", 0, 0, 0, 0, id="fenced"),
        pytest.param("", 0, 0, 0, 0, id="nothing"),
        pytest.param("NaN", 0, 0, 0, 0, id="no JSON"),
        pytest.param("[" * 90_000, 0, 0, 0, 0, id="nested too deeply to be read"),
    ],
)
def test_terms_of_json(
    text: str, parses: float, closeness: float, right: float, layout: float
) -> None:
    found = _JUDGE.scores(_KNOWN, text)
    assert found.parses == parses
    assert found.right == pytest.approx(right)
    assert found.closeness == pytest.approx(closeness)
    assert found.layout == pytest.approx(layout)


@pytest.mark.parametrize(
    ("text", "expected", "scores"),
    [
        ("1+22", "1+22", Scores(1, 1, 1, 0, 0)),
        ("1+22", "23", Scores(1, 1, 0, 0, 0)),
        ("1+22", None, Scores(1, 1, None, 0, 0)),
        ("1+", "1+22", Scores(0, 2 / 3, 0, 0, 0)),
        ("1-2", "1+22", Scores(0, 1 / 3, 0, 0, 0)),
        # Four characters more than twice the expected ones.
        ("1+2+3+4+5+67", "1+22", Scores(1, 1, 0, 4 / 12, 0)),
    ],
)
def test_terms_of_a_grammar(text: str, expected: str | None, scores: Scores) -> None:
    assert _JUDGE.scores(_task(_SUM, expected), text) == scores


@pytest.mark.parametrize(
    ("scores", "reward"),
    [
        (Scores(1, 1, 1, 0, 0), 2.5),
        (Scores(1, 1, None, 0, 0), 1.5),
        (Scores(0, 0, 0, 1, 1), -0.3),
        (Scores(0, 0.5, 0.5, 0.5, 0), 0.65),
    ],
)
def test_the_reward_is_the_weighted_sum(scores: Scores, reward: float) -> None:
    assert scores.reward(Weights()) == pytest.approx(reward)


def test_weights_below_zero_and_what_is_no_number_are_refused() -> None:
    for value in (-1.0, float("nan"), float("inf")):
        with pytest.raises(RequestError, match="weight right"):
            Weights(right=value)


@given(st.text(max_size=60), st.integers(0, len(_TEXT)), st.booleans())
def test_every_term_and_the_reward_are_bounded(text: str, kept: int, is_behind: bool) -> None:
    said = _TEXT[:kept] + text if is_behind else text + _TEXT[kept:]
    found = _JUDGE.scores(_KNOWN, said)
    assert all(0 <= getattr(found, term) <= 1 for term in TERMS)
    assert (found.closeness == 1) == (found.parses == 1)
    weights = Weights(1.5, 0.25, 2.0, 0.5, 0.75)
    assert weights.lowest <= found.reward(weights) <= weights.highest


_MADE, _ = extraction_tasks(8, 0, seed=5)
_COMPILER = ConstraintCompiler(BYTES)


@given(st.sampled_from([*_MADE, _KNOWN, _task(_SUM), _of_schema({})]), st.integers(0, 10**6))
def test_what_is_made_under_the_constraint_parses(task: Task, seed: int) -> None:
    walk = random_walk(_COMPILER.start(task.constraint), random.Random(seed), steps=30)
    said = b"".join(BYTES.token_bytes[token] or b"" for token in walk.tokens).decode()
    found = _JUDGE.scores(task, said)
    assert (found.parses, found.closeness) == (1, 1)


_VALUES: Any = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from(["a", "b", "ü", "longer text"])
)
_RECORDS = st.dictionaries(
    st.sampled_from(["name", "tags", "paid", "more"]),
    st.one_of(_VALUES, st.lists(st.sampled_from(["a", "b", "d"]), max_size=4)),
)


@given(_RECORDS, st.sampled_from([None, 1, 4]), st.booleans())
def test_json_parses_where_a_validator_takes_it(
    record: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(_ANSWER | record, indent=indent, ensure_ascii=ascii_only)
    valid = jsonschema.Draft202012Validator(_SCHEMA).is_valid(json.loads(text))
    assert _JUDGE.scores(_KNOWN, text).parses == valid


@given(_RECORDS, _RECORDS)
def test_only_equal_values_are_all_right(one: dict[str, Any], other: dict[str, Any]) -> None:
    task = _of_schema({}, compact(one))
    # Compared as JSON, in which true is not 1.
    equal = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (_JUDGE.scores(task, json.dumps(other)).right == 1) == equal


def test_an_expected_answer_that_the_constraint_refuses_is_told_by_its_place() -> None:
    with pytest.raises(RequestError, match=r"task 'one' leaves its constraint at character 3"):
        _JUDGE.check(_task(_SUM, "1++2"))
    with pytest.raises(RequestError, match="at character 3"):
        _JUDGE.check(_task(_SUM, "1+"))
    _JUDGE.check(_KNOWN)
