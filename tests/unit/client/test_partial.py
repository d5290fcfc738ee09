"""Answers of a Python type while they grow."""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from enum import Enum
from types import FrameType
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    EmailStr,
    Field,
    PrivateAttr,
    RootModel,
    TypeAdapter,
    ValidationInfo,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from guided.client import Request, partial
from guided.client.partial import Partials
from guided.errors import LimitExceededError, RequestError


class Step(BaseModel):
    title: str
    minutes: int = 5

    @field_validator("minutes")
    @classmethod
    def doubled(cls, minutes: int) -> int:
        if minutes < 0:
            raise ValueError("negative")
        return 2 * minutes


class Recipe(BaseModel):
    name: str = Field(alias="Name", min_length=3)
    when: date | None = None
    steps: list[Step]

    @model_validator(mode="after")
    def has_steps(self) -> Recipe:
        RAN.append("has_steps")
        if not self.steps:
            raise ValueError("no steps")
        return self

    def model_post_init(self, context: object) -> None:
        del context
        RAN.append("post_init")


RAN: list[str] = []


def seen(kind: Any, *pieces: str) -> list[Any]:
    """The partial values of an answer of a type after each piece, and the value at its end."""
    partials = Partials[Any](TypeAdapter(kind))
    return [one for piece in pieces for one in partials.feed(piece)] + partials.end()


def test_a_model_grows_field_by_field_and_code_runs_on_what_is_complete() -> None:
    RAN.clear()
    partials = Partials(TypeAdapter(Recipe))
    assert partials.feed("") == []
    (empty,) = partials.feed("{")
    assert type(empty) is Recipe
    assert vars(empty) == {"name": None, "when": None, "steps": None}
    assert empty.model_fields_set == set()
    (named,) = partials.feed('"Name":"S')
    assert named.name == "S", "too short as yet, and text all the same"
    assert named.model_fields_set == {"name"}
    (begun,) = partials.feed('oup","when":"2024-0')
    assert (begun.name, begun.when) == ("Soup", None)
    (stepped,) = partials.feed('2-29","steps":[{"title":"Wait","minutes":1')
    assert stepped.when == date(2024, 2, 29)
    assert stepped.steps[0].minutes is None, "another digit may follow"
    assert stepped.steps[0].title == "Wait"
    (grown,) = partials.feed("0},{")
    assert grown.steps[0] == Step.model_construct(title="Wait", minutes=20)
    assert grown.steps[1].model_fields_set == set()
    assert RAN == []
    (whole,) = partials.feed('"title":"Eat"}]}')
    assert RAN == ["post_init", "has_steps"]
    assert whole.steps[1] == Step(title="Eat")
    assert stepped.steps[0].minutes is None, "what was handed out stays as it was"
    assert partials.end() == []


class Counted(Partials[Any]):
    """Counts the values that are looked at."""

    looks = 0

    def _of(self, *arguments: Any) -> Any:
        self.looks += 1
        return super()._of(*arguments)

    def _raw(self, *arguments: Any) -> Any:
        self.looks += 1
        return super()._raw(*arguments)


@pytest.mark.parametrize(
    ("kind", "first", "part", "end"),
    [
        (list[Step], "[", '{"title":"a","minutes":1},', "null]"),
        (list[list[int]], "[", "[1,2],", "[]]"),
        (dict[str, int], "{", '"%d":1,', '"":1}'),
        (Any, "[", '{"a":"b"},', "1]"),
        (Any, '{"a":{', '"%d":[1],', '"":1}}'),
    ],
    ids=str,
)
def test_of_a_long_answer_only_what_is_new_is_looked_at(
    kind: Any, first: str, part: str, end: str
) -> None:
    partials, num_parts = Counted(TypeAdapter(kind)), 200
    partials.feed(first)
    for number in range(num_parts):
        text = part.replace("%d", str(number))
        shown = [one for piece in (text[:3], text[3:]) for one in partials.feed(piece)]
        values = shown[-1]["a"] if first == '{"a":{' else shown[-1]
        assert len(values) == number + 1
    assert partials.looks < 20 * num_parts
    partials.feed(end)


class Extras(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str = ""


@contextmanager
def counted_instructions() -> Iterator[Counter[str]]:
    """Counts the instructions of Python that run in the code of partial answers."""
    counts = Counter[str]()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        del argument
        if frame.f_code.co_filename != partial.__file__:
            return None
        frame.f_trace_opcodes = True
        counts[event] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield counts
    finally:
        sys.settrace(before)


def test_a_member_costs_the_same_behind_any_number_of_extra_ones() -> None:
    partials, costs = Partials[Extras](TypeAdapter(Extras)), []
    partials.feed('{"name":"a"')
    for number in range(200):
        with counted_instructions() as counts:
            (shown,) = partials.feed(f',"m{number:03}":[{number}]')
        costs.append(counts["opcode"])
        assert shown.model_extra is not None
        assert len(shown.model_extra) == number + 1
    assert costs[1] > 0
    assert {*costs[1:]} == {costs[1]}
    assert partials.feed("}")[0].model_extra == {f"m{n:03}": [n] for n in range(200)}


def test_what_its_type_refuses_is_left_to_the_answer() -> None:
    (partial,) = seen(Recipe, '{"Name":"Soup","steps":[{"title":"a","minutes":-1},{"title":"b"')
    assert [step.title for step in partial.steps] == ["b"]
    assert seen(Recipe, '{"Name":"Soup","steps":[]}') == [], "the model refuses the whole"


def _made_cache() -> list[int]:
    RAN.append("factory")
    return []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    _secret: int = PrivateAttr(default=3)
    _seen: list[int] = PrivateAttr(default=[])
    _cache: list[int] = PrivateAttr(default_factory=_made_cache)

    def __str__(self) -> str:
        return f"{self.name} ({self._secret})"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    label: str = "here"
    seen: bool = dataclasses.field(default=True, init=False)

    def __post_init__(self) -> None:
        RAN.append("__post_init__")


@dataclasses.dataclass(slots=True)
class Slotted:
    x: int
    inner: Point


class Named(TypedDict, total=False):
    name: str
    age: int


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: list[int]


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Colour(Enum):
    RED = "red"


class Tree(BaseModel):
    label: str
    children: list[Tree] = []


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        (str, '"so fa', "so fa"),
        (Annotated[str, Field(max_length=2)], '"so fa', "so fa"),
        (str | None, '"so', "so"),
        (list[str], '["a","b', ["a", "b"]),
        (list[int], "[1,2", [1]),
        (list[int] | None, "[1,2", [1]),
        (Annotated[list[int], AfterValidator(sorted)], "[2,1", [2]),
        (list[Colour], '["red","re', [Colour.RED]),
        (dict[str, list[int]], '{"a":[1],"b":[2,3', {"a": [1], "b": [2]}),
        (Named, '{"name":"A","age":3', {"name": "A"}),
        (RootModel[list[int]], "[1,2", RootModel[list[int]].model_construct([1])),
        (Any, '{"a":[1,{"b":"x', {"a": [1, {"b": "x"}]}),
        (list[Tree], '[{"label":"a","children":[{"label":"b', "Tree"),
    ],
)
def test_what_is_shown_of_types(kind: Any, text: str, shown: Any) -> None:
    found = seen(kind, text)
    if shown == "Tree":
        inner = found[0][0].children[0]
        assert type(inner) is Tree
        assert vars(inner) == {"label": "b", "children": None}
        return
    assert found == [shown]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int, "12"),
        (date, '"2024-01-0'),
        (EmailStr, '"a@b'),
        (Colour, '"re'),
        (Literal["yes", "no"], '"ye'),
        (set[int], "[1,2"),
        (tuple[int, str], '[1,"a'),
        (Annotated[list[int], BeforeValidator(lambda value: value)], "[1,2"),
        (dict[int, str], '{"1":"a"'),
        (Pet, '{"kind":"ca'),
        (Cat | Dog, '{"kind":"cat","lives":[1'),
        (Annotated[str, AfterValidator(len)], '"abc'),
    ],
)
def test_what_waits_for_its_end(kind: Any, text: str) -> None:
    partials = Partials[Any](TypeAdapter(kind))
    assert [one for character in text for one in partials.feed(character)] == []


def test_extras_private_attributes_and_frozen_models() -> None:
    (partial,) = seen(Open, '{"name":"a","more":[1],"last":2')
    assert (partial.name, partial.model_extra) == ("a", {"more": [1]})
    assert repr(partial) == "Open(name='a', more=[1])"


def test_private_attributes_have_their_plain_defaults() -> None:
    RAN.clear()
    partials = Partials(TypeAdapter(Open))
    (first,) = partials.feed('{"name":"a"')
    first._seen.append(1)
    (second,) = partials.feed(',"more":2')
    assert str(second) == "a (3)"
    assert second._seen == [], "each instance has its own"
    assert RAN == []
    with pytest.raises(AttributeError):
        _ = second._cache
    assert seen(Cat, '{"kind":"cat","lives":[1')[0].__pydantic_private__ is None


def test_too_deep_an_answer_is_an_error_of_ours() -> None:
    for kind in (Partials[Any](None), Partials[Any](TypeAdapter(list[Any]))):
        assert kind.feed("[" * 50) != []
        with pytest.raises(LimitExceededError, match=r"nested more deeply .* read its values\(\)"):
            kind.feed("[" * 2000)


def test_dataclasses_are_not_initialised() -> None:
    RAN.clear()
    (point,) = seen(Point, '{"x":1,"label":"th')
    assert (type(point), point.x, point.label) == (Point, 1, "th")
    (slotted,) = seen(Slotted, '{"x":1,"inner":{"x":2')
    assert (slotted.x, type(slotted.inner), slotted.inner.x) == (1, Point, None)
    assert RAN == []
    assert seen(Point, '{"x":1}') == [Point(1)]


def test_a_branch_is_known_by_its_discriminator() -> None:
    (pet,) = seen(list[Pet], '[{"kind":"dog","tricks":["sit","ro')
    assert type(pet[0]) is Dog
    assert pet[0].tricks == ["sit", "ro"]


class Dated(BaseModel):
    first: int
    last: int

    @field_validator("last")
    @classmethod
    def since_first(cls, last: int, info: ValidationInfo) -> int:
        return last - int((info.data or {}).get("first", 0))


def test_a_validator_that_asks_for_other_fields_waits_for_the_model() -> None:
    partials = Partials(TypeAdapter(list[Dated]))
    (growing,) = partials.feed('[{"first":1,"last":2,')
    assert growing[0].first == 1
    assert growing[0].last is None
    (grown,) = seen(list[Dated], '[{"first":1,"last":2},')
    assert grown == [Dated(first=1, last=2)]
    assert grown[0].last == 1


class Aliased(BaseModel):
    model_config = ConfigDict(validate_by_name=True)
    one: int = Field(validation_alias="uno")


def test_fields_are_found_by_alias_and_where_that_is_allowed_by_name() -> None:
    assert [each.one for each in seen(Aliased, '{"uno":1,')] == [1]
    assert [each.one for each in seen(Aliased, '{"one":1,')] == [1]


KINDS: list[tuple[Any, Callable[[random.Random], object]]] = [
    (Tree, lambda draw: _tree(draw, 3)),
    (list[Pet], lambda draw: [_pet(draw) for _ in range(draw.randrange(4))]),
    (dict[str, Point], lambda draw: {str(i): {"x": draw.randrange(99)} for i in range(3)}),
    (Any, lambda draw: _tree(draw, 3)),
]


def _tree(draw: random.Random, depth: int) -> dict[str, object]:
    label = "".join(draw.choice('é"\\😀a ') for _ in range(draw.randrange(4)))
    children = [_tree(draw, depth - 1) for _ in range(draw.randrange(3) if depth else 0)]
    return {"label": label, "children": children}


def _pet(draw: random.Random) -> dict[str, object]:
    if draw.random() < 0.5:
        return {"kind": "cat", "lives": [draw.randrange(100) for _ in range(3)]}
    return {"kind": "dog", "tricks": ["sit", "😀 roll"]}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_the_last_partial_is_the_answer_wherever_the_text_was_cut(kind: int, seed: int) -> None:
    subject, make = KINDS[kind]
    draw = random.Random(seed)
    text = json.dumps(make(draw), ensure_ascii=draw.random() < 0.5)
    adapter = TypeAdapter[Any](subject)
    partials = Partials[Any](adapter)
    at, found = 0, []
    while at < len(text):
        step = draw.randint(1, 7)
        found += partials.feed(text[at : at + step])
        at += step
    found += partials.end()
    assert found[-1] == adapter.validate_json(text)
    assert [type(one) for one in found] == [type(found[-1])] * len(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "partial answers need a response_model or a schema; read the text of the stream"),
        (
            {"schema": {}, "n": 2, "temperature": 1.0},
            "several answers cannot be read in parts: they",
        ),
    ],
)
def test_answers_without_parts_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        Request("?", **options).partials()
    assert str(caught.value).startswith(message)
