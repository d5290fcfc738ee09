"""A request reads its own answer: the value of its type, or the errors of the type."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NewType

import pytest
from annotated_types import Gt
from pydantic import BaseModel, TypeAdapter, field_validator

from guided.client import Answer, Candidate, Request
from guided.constraint import ConstraintCompiler
from guided.errors import (
    AnswerValidationError,
    RequestError,
)
from guided.spec import (
    Choice,
    FinishReason,
    JsonOptions,
    Lark,
    Regex,
    Usage,
)
from tests.kit.walks import BYTES, accepts


class Person(BaseModel):
    name: str
    age: int

    @field_validator("age")
    @classmethod
    def is_odd(cls, age: int) -> int:
        if age % 2 == 0:
            raise ValueError("age is even")
        return age


class Colour(Enum):
    RED = "red"
    BLUE = 2


LARK = """
start: "a" rest
rest: "b"+
"""


def plain(text: str) -> Answer[str]:
    return Answer(text, text, FinishReason.LENGTH_CLOSED, Usage(1, 2, 3, 4), 0.5)


@pytest.mark.parametrize(
    ("response_model", "constraint"),
    [
        (re.compile("[a-z]+", re.I), Regex("(?i)[a-z]+")),
        (LARK, Lark(LARK)),
        ("?start: /x/", Lark("?start: /x/")),
        (Lark("start: /y/"), Lark("start: /y/")),
        (Choice(["a", "b"]), Choice(["a", "b"])),
    ],
)
def test_a_constraint_may_stand_for_a_type_and_its_text_is_the_value(
    response_model: Any, constraint: Any
) -> None:
    request = Request[str]("x", response_model)
    assert request.specification.constraint == constraint
    assert request.read(plain("abb")).value == "abb"
    with pytest.raises(RequestError, match="a grammar is given beside a response_model"):
        Request("x", response_model, grammar=constraint)
    with pytest.raises(RequestError, match="json_options needs a response_model or a schema"):
        Request("x", response_model, json_options=JsonOptions(whitespace=1))


@pytest.mark.parametrize(
    ("response_model", "texts"),
    [
        (list[Person], {'[{"name":"a","age":1}]': [Person(name="a", age=1)], "[]": []}),
        (Literal["yes", 3, None], {'"yes"': "yes", "3": 3, "null": None}),
        (Colour, {'"red"': Colour.RED, "2": Colour.BLUE}),
        (int | list[str], {"7": 7, '["a"]': ["a"]}),
        (tuple[int, Colour], {'[1,"red"]': (1, Colour.RED)}),
        (Person | None, {"null": None, '{"name":"a","age":1}': Person(name="a", age=1)}),
    ],
)
def test_lists_literals_enumerations_and_unions_are_types(
    response_model: Any, texts: dict[str, Any]
) -> None:
    request = Request[Any]("x", response_model)
    start = ConstraintCompiler(BYTES).start(request.specification.constraint)
    for text, value in texts.items():
        assert accepts(start, text.encode())
        assert request.read(plain(text)).value == value
    assert not accepts(start, b'"no"')


def test_whatever_a_validator_raises_is_the_error_of_its_answer() -> None:
    request = Request("x", Annotated[str, Gt(3)])
    with pytest.raises(AnswerValidationError, match="TypeError: Unable to apply") as caught:
        request.read(plain('"a"'))
    assert isinstance(caught.value.__cause__, TypeError)
    assert caught.value.text == '"a"'


def test_a_grammar_is_the_constraint_and_its_text_the_value() -> None:
    grammar = Lark('start: "a"')
    request = Request("x", grammar=grammar)
    assert request.specification.constraint == grammar
    assert request.read(plain("a")).value == "a"
    with pytest.raises(RequestError, match="leave one out"):
        Request("x", schema="{}", grammar=grammar)
    with pytest.raises(RequestError, match="show_schema needs a JSON Schema"):
        Request("x", grammar=Regex("a"), show_schema=True)


def test_a_response_model_gives_an_instance() -> None:
    answer = Request("x", Person).read(plain('{"name": "Ada", "age": 37}'))
    assert answer.value == Person(name="Ada", age=37)
    assert answer.text == '{"name": "Ada", "age": 37}'
    assert (answer.finish_reason, answer.usage, answer.seconds) == (
        FinishReason.LENGTH_CLOSED,
        Usage(1, 2, 3, 4),
        0.5,
    )


@pytest.mark.parametrize(
    ("model", "text", "value"),
    [
        (list[int], "[1,2]", [1, 2]),
        (int | None, "3", 3),
        (Annotated[int, "any"], "3", 3),
        (Literal["a"], '"a"', "a"),
        (NewType("Age", int), "3", 3),
        (Any, "[true]", [True]),
        (TypeAdapter(int | None), "null", None),
        (Decimal, '"1.50"', Decimal("1.50")),
    ],
)
def test_whatever_pydantic_describes_is_a_response_model(
    model: Any, text: str, value: object
) -> None:
    assert Request("x", model).read(plain(text)).value == value


def test_a_schema_gives_parsed_json() -> None:
    assert Request("x", schema={"type": "array"}).read(plain("[1, null]")).value == [1, None]


def test_no_constraint_gives_the_text() -> None:
    assert Request("x").read(plain("free text")).value == "free text"


def test_an_answer_that_its_type_refuses_carries_text_usage_and_reason() -> None:
    with pytest.raises(AnswerValidationError) as caught:
        Request("x", Person).read(plain('{"name": "Ada", "age": 36}'))
    assert str(caught.value) == (
        """the answer '{"name": "Ada", "age": 36}' is refused by its type: """
        "age: Value error, age is even"
    )
    assert caught.value.text == '{"name": "Ada", "age": 36}'
    assert caught.value.usage == Usage(1, 2, 3, 4)
    assert caught.value.finish_reason is FinishReason.LENGTH_CLOSED


def drawn(*texts: str) -> Answer[str]:
    candidates = tuple(
        Candidate(index, text, text, FinishReason.COMPLETE, len(text), -float(index))
        for index, text in enumerate(texts)
    )
    return replace(plain(texts[0]), candidates=candidates)


def test_each_candidate_is_an_instance_of_the_response_model() -> None:
    answer = Request("x", list[int], n=2, temperature=1.0).read(drawn("[1]", "[2,3]"))
    assert [candidate.value for candidate in answer.candidates] == [[1], [2, 3]]
    assert [candidate.score for candidate in answer.candidates] == [0.0, -1.0]
    assert (answer.value, answer.text) == ([1], "[1]")


def test_the_answer_is_the_first_candidate_that_its_type_takes() -> None:
    even, odd = '{"name": "Ada", "age": 36}', '{"name": "Ada", "age": 37}'
    answer = Request("x", Person, n=2, temperature=1.0).read(drawn(even, odd))
    assert (answer.value, answer.text) == (Person(name="Ada", age=37), odd)
    assert answer.finish_reason is FinishReason.COMPLETE
    refused, taken = answer.candidates
    assert refused.value is None
    assert refused.error is not None
    assert "age is even" in str(refused.error)
    assert taken.error is None


def test_only_where_all_candidates_are_refused_is_there_no_answer() -> None:
    even = '{"name": "Ada", "age": 36}'
    with pytest.raises(AnswerValidationError, match="age is even"):
        Request("x", Person, n=2, temperature=1.0).read(drawn(even, even))


def test_a_single_answer_is_its_own_only_candidate() -> None:
    answer = Request("x", list[int]).read(plain("[1]"))
    (only,) = answer.candidates
    assert (only.index, only.value, only.text, only.score) == (0, [1], "[1]", None)
    assert only.num_tokens == answer.usage.output_tokens


def test_a_schema_answer_that_python_cannot_read_is_refused_the_same_way() -> None:
    with pytest.raises(AnswerValidationError, match="digits"):
        Request("x", schema={"type": "integer"}).read(plain("9" * 5000))
