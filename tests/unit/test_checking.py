"""`guided.check` accepts the constraints that a request accepts, and reports on them."""

from __future__ import annotations

import re
from typing import Any

import pydantic
import pytest
from pydantic import BaseModel, TypeAdapter, field_validator
from typing_extensions import TypedDict

import guided
from guided.errors import RequestError, UnsatisfiableError
from guided.spec import Enforcement
from tests.unit.response_types.test_round_trip import TYPES


class Person(BaseModel):
    name: str = pydantic.Field(max_length=3)
    age: int = pydantic.Field(ge=0, le=99)

    @field_validator("age")
    @classmethod
    def is_odd(cls, age: int) -> int:
        return age


class Movie(TypedDict):
    year: int


@pydantic.dataclasses.dataclass
class Point:
    x: int


def test_a_type_is_checked_by_its_schema_and_its_own_code_is_listed() -> None:
    report = guided.check(Person)
    verdicts = {verdict.pointer: verdict.enforcement for verdict in report.verdicts}
    assert verdicts["/properties/name/maxLength"] is Enforcement.ENFORCED
    assert verdicts["/properties/name/title"] is Enforcement.ANNOTATION
    assert report.unenforced_validators == (
        guided.UnenforcedValidator("age", "Person.is_odd", "after"),
    )
    assert Person.model_validate_json(report.shortest_answer)


@pytest.mark.parametrize("subject", [Movie, Point, TypeAdapter(list[int]), list[Person], int | str])
def test_whatever_may_be_a_response_model_may_be_checked(subject: Any) -> None:
    assert guided.check(subject).shortest_answer


@pytest.mark.parametrize("subject", ['{"const": 7}', {"const": 7}])
def test_schemas_are_text_or_dicts(subject: Any) -> None:
    report = guided.check(subject)
    assert report.shortest_answer == "7"
    assert report.unenforced_validators == ()
    assert [verdict.pointer for verdict in report.verdicts] == ["/const"]


def test_options_and_documents_are_used() -> None:
    schema = {"type": "string", "format": "date"}
    options = guided.JsonOptions(format="annotate")
    assert guided.check(schema, json_options=options).shortest_answer == '""'
    documents = {"urn:a": {"const": 1}}
    assert guided.check({"$ref": "urn:a"}, documents=documents).shortest_answer == "1"


@pytest.mark.parametrize(
    ("subject", "answer"), [(re.compile("A{2}", re.IGNORECASE), "AA"), ('start: "a" "b"', "ab")]
)
def test_patterns_and_texts_of_grammars_are_constraints_as_in_a_request(
    subject: Any, answer: str
) -> None:
    assert guided.check(subject).shortest_answer == answer
    request: Any = guided.Request
    constraint = request("x", subject).specification.constraint
    assert guided.check(constraint).shortest_answer == answer


class Undefined(BaseModel):
    child: "Nowhere"  # type: ignore[name-defined] # noqa: F821, UP037


@pytest.mark.parametrize(
    ("subject", "options", "text"),
    [
        (
            5,
            {},
            "schema is 5, which is not a JSON Schema; pass a schema as text or dict, a type, or a "
            "constraint such as guided.Regex",
        ),
        (
            Person,
            {"json_options": {"whitespace": 1}},
            "json_options {'whitespace': 1} is not a guided.JsonOptions; pass a guided.JsonOptions",
        ),
        (
            re.compile("a"),
            {"documents": {"urn:a": "true"}},
            "JSON options and documents are for a schema or a type, not for a constraint; leave "
            "them out; a guided.JsonSchema in a constraint has its own",
        ),
    ],
)
def test_what_cannot_be_checked_is_refused_with_what_can(
    subject: Any, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(RequestError) as caught:
        guided.check(subject, **options)
    assert str(caught.value) == text


def test_a_type_whose_parts_are_not_defined_is_refused() -> None:
    with pytest.raises(RequestError, match=r"Undefined.* has no JSON Schema: .*not fully defined"):
        guided.check(Undefined)


def test_a_type_of_which_there_is_no_value_is_refused() -> None:
    with pytest.raises(UnsatisfiableError):
        guided.check(pydantic.conint(gt=3, lt=4))


@pytest.mark.parametrize("model", TYPES.values(), ids=TYPES.keys())
def test_the_shortest_answer_of_every_type_is_accepted_by_it(model: Any) -> None:
    answer = guided.check(model).shortest_answer
    TypeAdapter(model).validate_json(answer)


def test_grammars_are_checked_as_they_are_and_the_schemas_in_them() -> None:
    assert guided.check(guided.Regex("a+b")) == guided.SchemaReport((), "ab")
    inner = guided.JsonSchema('{"maxLength": 3, "title": "x"}')
    report = guided.check(guided.Sequence(["<", inner, ">"]))
    assert [(each.part, each.pointer) for each in report.verdicts] == [
        ("part 2", "/maxLength"),
        ("part 2", "/title"),
    ]


def test_what_a_server_stores_cannot_be_checked_without_it() -> None:
    with pytest.raises(RequestError, match="'regex:0' is known to the server that keeps it; ask"):
        guided.check(guided.Stored("regex:0"))
    with pytest.raises(RequestError, match="'regex:0' is known to the server that keeps it; ask"):
        guided.check(guided.Sequence(["a", guided.Stored("regex:0")]))
