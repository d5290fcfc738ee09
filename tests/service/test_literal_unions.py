"""Unions in arguments with bare names: the member that tells alternatives apart is required."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from jsonschema_rs import Draft202012Validator
from pydantic import BaseModel, Field

from guided.client.tools import given_tools, tool_use
from guided.errors import UnsupportedFeatureError
from guided.spec import Tool, ToolUse
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import GEMMA
from tests.kit.literal_calls import FORMS, lets_stand, reader_for, walked
from tests.kit.read_calls import read_calls

MISSING = object()


def branch(*required: str, **members: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": [*required],
        "additionalProperties": False,
    }


INTEGER, LISTS = {"type": "integer"}, {"type": "array", "items": {"type": "integer"}}
CAT = branch(kind={"const": "cat", "default": "cat"}, age=INTEGER)
DOG = branch(kind={"const": "dog", "default": "dog"}, wild={"type": "boolean"})
WOLVES = branch("wild", kind={"enum": ["dog", "wolf"]}, wild={"type": "boolean"})
BLACK = branch(kind={"const": "cat"}, hue={"const": 1, "default": 1})
WHITE = branch(kind={"const": "cat"}, hue={"const": 2, "default": 2}, age=INTEGER)
CATS = {"oneOf": [BLACK, WHITE]}
NAMED = {
    "oneOf": [
        branch("hue", kind={"const": "cat"}, hue={"const": 1}),
        branch("hue", kind={"const": "dog"}, hue={"const": 3}),
    ],
    "discriminator": {"propertyName": "kind"},
}
DEFINED = {"Cat": CAT, "Cats": {"allOf": [CATS]}, "Kind": {"enum": ["dog"]}}
CANDIDATES: dict[str, list[object]] = {
    "age": [MISSING, 3, "x"],
    "hue": [MISSING, 1, 2, 3],
    "kind": [MISSING, "cat", "dog", "wolf", 1],
    "wild": [MISSING, True],
}


def values() -> Iterator[Any]:
    """All values that these unions could mean, and values of other types."""
    for drawn in itertools.product(*CANDIDATES.values()):
        members = zip(CANDIDATES, drawn, strict=True)
        yield {name: value for name, value in members if value is not MISSING}
    yield from ([], [1], "cat", 1, None)


def has(*names: str) -> Any:
    return lambda told: set(names) <= told.keys()


def is_dog(told: dict[str, Any]) -> bool:
    return told.keys() <= {"kind", "wild"} and told.get("kind") != "cat"


def has_kind_and_perhaps_hue(told: dict[str, Any]) -> bool:
    return "kind" in told and (told["kind"] != "cat" or "hue" in told)


@pytest.mark.parametrize(
    ("union", "is_told"),
    [
        ({"oneOf": [CAT, DOG]}, has("kind")),
        ({"oneOf": [CAT, DOG], "discriminator": {"propertyName": "other"}}, has("kind")),
        ({"oneOf": [CAT, WOLVES]}, has("kind")),
        ({"oneOf": [{"$ref": "#/$defs/Cat"}, DOG]}, has("kind")),
        ({"oneOf": [{"allOf": [{"$ref": "#/$defs/Cat"}]}, DOG]}, has("kind")),
        ({"oneOf": [CAT, branch(kind={"$ref": "#/$defs/Kind"})]}, has("kind")),
        ({"oneOf": [CAT, DOG | {"required": ["kind"]}]}, has("kind")),
        ({"oneOf": [{"$ref": "#/$defs/Cat", "required": ["age"]}, DOG]}, has("kind")),
        ({"oneOf": [{"$ref": "#/$defs/Cat", "required": ["kind"]}, DOG]}, has("kind")),
        ({"anyOf": [CAT, DOG, {"enum": [{"age": 3}, {"kind": 1}]}], "required": ["kind"]}, has()),
        ({"allOf": [CATS], "required": ["kind"]}, has("hue")),
        ({"oneOf": [CAT, DOG, {"type": "null"}, LISTS]}, has("kind")),
        ({"oneOf": [CAT, DOG, False]}, has("kind")),
        ({"oneOf": [BLACK, WHITE]}, has("hue")),
        (NAMED, has("kind", "hue")),
        # Only one of them is an object; of an ``anyOf`` several may fit.
        ({"oneOf": [CAT, LISTS]}, has()),
        ({"anyOf": [CAT, DOG]}, has()),
        ({"anyOf": [CATS, DOG]}, lambda told: "hue" in told or is_dog(told)),
        # Unions inside of unions.
        ({"oneOf": [CATS, DOG]}, has_kind_and_perhaps_hue),
        ({"oneOf": [{"$ref": "#/$defs/Cats"}, WOLVES]}, has_kind_and_perhaps_hue),
        ({"oneOf": [{"anyOf": [BLACK, WHITE]}, DOG]}, has("kind")),
    ],
)
def test_of_a_union_stands_what_has_the_member_that_tells_it_apart(
    union: dict[str, Any], is_told: Any
) -> None:
    whole = {"properties": {"a": union}, "required": ["a"], "$defs": DEFINED}
    is_let, is_valid = lets_stand(Tool("f", "", whole), GEMMA), Draft202012Validator(whole).is_valid
    num_objects = 0
    for value in values():
        has_told = not isinstance(value, dict) or is_told(value)
        assert is_let({"a": value}) == (has_told and is_valid({"a": value})), value
        num_objects += isinstance(value, dict) and is_let({"a": value})
    assert num_objects > 1


@pytest.mark.parametrize(
    "union",
    [
        [CAT, CAT],
        [CAT, branch(kind={"enum": ["cat", "dog"]})],
        [CAT, branch(kind={"type": "string"})],
        [CAT, branch(age=INTEGER)],
        [branch(kind={"const": 1.0}), branch(kind={"const": 1.5})],
        [branch(kind={"const": []}), branch(kind={"const": {}})],
        [CAT, DOG, True],
        [CAT, DOG, LISTS, LISTS],
        [{"anyOf": [BLACK, branch(age=INTEGER)]}, DOG],
        [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Cat", "title": "Another"}],
        [{"$ref": "#/$defs/Round"}, DOG],
    ],
)
def test_what_no_member_tells_apart_is_refused(union: list[Any]) -> None:
    round_one = {"oneOf": [CAT, {"$ref": "#/$defs/Round"}]}
    whole = {"properties": {"a": {"oneOf": union}}, "$defs": DEFINED | {"Round": round_one}}
    with pytest.raises(UnsupportedFeatureError, match=r"a/oneOf: nothing tells the alt|stands for"):
        with_calls(ToolUse((Tool("f", "", whole),)), None, GEMMA)


def test_a_const_tells_nothing_where_the_draft_has_none() -> None:
    whole = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"a": {"oneOf": [CAT, DOG]}},
    }
    with pytest.raises(UnsupportedFeatureError, match="nothing tells the alternatives apart"):
        with_calls(ToolUse((Tool("f", "", whole),)), None, GEMMA)


def test_outside_of_its_union_the_member_may_be_left_out() -> None:
    cat = {"$ref": "#/$defs/Cat"}
    whole = {"properties": {"a": {"oneOf": [cat, DOG]}, "b": cat}, "$defs": DEFINED}
    is_let = lets_stand(Tool("f", "", whole), GEMMA)
    assert is_let({"a": {"kind": "cat"}, "b": {"age": 3}})
    assert not is_let({"a": {"age": 3}})


def test_unions_that_share_their_parts_are_not_written_without_end() -> None:
    """Each level adds one of two members, so its end may be in two to the power of 20 unions."""
    names = [f"{way}{n}" for n in range(20) for way in "xy"]
    levels: dict[str, Any] = {"l20": branch(**{name: {"const": 1} for name in names})}
    for n in range(20):
        ways = [
            {"oneOf": [{"$ref": f"#/$defs/l{n + 1}"}, branch(**{f"{way}{n}": {"const": 2}})]}
            for way in "xy"
        ]
        levels[f"l{n}"] = {"anyOf": ways}
    levels |= {f"l{n}": _with_all(levels[f"l{n}"], names) for n in range(20)}
    whole = {"properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": levels}
    with pytest.raises(UnsupportedFeatureError, match="what stands in that many unions"):
        with_calls(ToolUse((Tool("f", "", whole),)), None, GEMMA)


def _with_all(level: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The level, with all members in its branches, so that the unions above are told apart too."""
    for way in level["anyOf"]:
        mine = way["oneOf"][1]["properties"]
        mine |= {name: {"const": 1} for name in names if name not in mine}
    return level


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    age: int = Field(0, ge=0, le=20)


class Dog(BaseModel):
    kind: Literal["dog", "wolf"] = "dog"
    wild: bool


class Box(BaseModel):
    kind: Literal["box"] = "box"
    inside: list[Annotated[Cat | Dog | Box, Field(discriminator="kind")]] = Field(max_length=2)


class Send(BaseModel):
    what: Annotated[Cat | Dog | Box, Field(discriminator="kind")]
    spare: Cat | Dog | None = None


FUNCTION = {"name": "Send", "parameters": Send.model_json_schema()}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("tool", [Send, {"type": "function", "function": FUNCTION}])
def test_answers_are_of_the_pydantic_type_of_the_tool(
    name: str, tool: type | dict[str, object]
) -> None:
    use = tool_use(given_tools([tool]), "required", parallel=True, beside=None)
    assert use is not None
    rng, seen = random.Random(3), set[type]()
    for _ in range(60):
        text = walked(use, FORMS[name], rng, rng.choice([2, 30, 90]))
        for called, arguments in read_calls(reader_for(use, FORMS[name]), text, []):
            assert called == "Send"
            seen.add(type(Send.model_validate_json(arguments).what))
    assert seen == {Cat, Dog, Box}


@pytest.mark.parametrize("tool", [Send, {"type": "function", "function": FUNCTION}])
def test_values_of_the_pydantic_type_are_let_stand(tool: type | dict[str, object]) -> None:
    use = tool_use(given_tools([tool]), "required", parallel=True, beside=None)
    assert use is not None
    is_let = lets_stand(use.tools[0], GEMMA)
    dog = Dog(kind="wolf", wild=True)
    told = json.loads(Send(what=Box(inside=[Cat(age=3), dog]), spare=dog).model_dump_json())
    assert is_let(told)
    assert not is_let(told | {"what": {"age": 3}})
    assert not is_let(told | {"what": {"kind": "cow"}})
