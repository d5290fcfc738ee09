"""Constraints made of constraints, as values: what is accepted, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from guided.errors import InvalidConstraintError, LimitExceededError, RequestError
from guided.spec import MAX_NESTING, JsonSchema, Lark, Regex, Structure
from guided.spec.composition import (
    AnyOf,
    JsonObject,
    Repeat,
    Sequence,
    Template,
    Text,
)
from guided.spec.tagged import Tag, Tagged


def _any(value: Any) -> Any:
    """A value of a type that cannot be part of a constraint."""
    return value


def _nested(depth: int) -> Structure:
    constraint: Structure = Text("a")
    for _ in range(depth - 1):
        constraint = Sequence([constraint])
    return constraint


def _doubled(times: int) -> Structure:
    constraint: Structure = Text("a")
    for _ in range(times):
        constraint = Sequence([constraint, constraint])
    return constraint


def _tagged(**options: Any) -> Structure:
    return Tagged([Tag("<a>", "b")], **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sequence("ab"), "'ab' is no list of parts; pass a list"),
        (lambda: AnyOf(_any(Regex("a"))), "is no list of alternatives; pass a list"),
        (lambda: AnyOf([]), "there are no alternatives"),
        (
            lambda: Sequence(["a", _any({"type": "object"})]),
            "part 2 is dict, no constraint; pass a constraint such as guided.JsonSchema(text), "
            "or a string",
        ),
        (lambda: Text("a\ud800"), "holds a surrogate, which is half of a character"),
        (lambda: Repeat("a", -1), "least -1 is no number of repeats"),
        (lambda: Repeat("a", 0, True), "most True is no number of repeats"),
        (lambda: Repeat("a", 3, 2), "most 2 is below least 3"),
        (lambda: Repeat("a", 10**7), "least 10000000 is above 1000000; leave most out"),
        (
            lambda: Template("{name}, {age}", name="a"),
            "nothing is given for the hole 'age'; pass age=..., or double the braces where they "
            "are part of the text",
        ),
        (lambda: Template("a", name="a"), "the text has no hole 'name'; write {name} where"),
        (lambda: Template("{a", a="a"), "write {{ and }} for braces"),
        (lambda: Template('{"a": {a}}', a="a"), "'\"a\"' is not the name of a hole"),
        (lambda: Template("{}", {"": "a"}), "'' is not the name of a hole; holes are written"),
        (lambda: Template("{a!r}", a="a"), "'a' is not the name of a hole"),
        (lambda: Template("{a}", {"a": "a"}, a="b"), "the hole 'a' is given twice"),
        (lambda: Template("{a}", a=_any(3)), "hole 'a' is int, no constraint"),
        (lambda: Template("{a}", _any(3)), "the holes are 3, which names nothing; pass a dictio"),
        (lambda: Template("{a}", _any(["ab"])), "number 1 of the holes is 'ab', no name and what"),
        (lambda: Lark("a", holes=_any("ab")), "the holes are 'ab', which names nothing"),
        (lambda: Lark("a", holes=_any({3: Text("a")})), "number 1 of the holes is (3, Text("),
        (lambda: Lark("a", holes=[("A", Text("a")), _any(None)]), "number 2 of the holes is None"),
        (lambda: Lark("a", imports=_any({"b": 3})), "the grammar 'b' is no text"),
        (lambda: Lark("a", imports=_any(["b"])), "number 1 of the imports is 'b', no name"),
        (lambda: _tagged(parallel="no"), "parallel is 'no'; pass True or False"),
        (lambda: _tagged(parallel=0), "parallel is 0; pass True or False"),
        (lambda: _doubled(20), "the constraint has more than 20000 parts; repeat what is the same"),
        (lambda: _nested(MAX_NESTING + 1), "more than 30 deep inside of one another"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(
    make: Callable[[], Structure], message: str
) -> None:
    with pytest.raises(RequestError) as caught:
        make()
    assert message in str(caught.value)
    assert isinstance(caught.value, InvalidConstraintError | LimitExceededError)


def test_a_string_is_a_text() -> None:
    assert Sequence(["a", Regex("b")]).parts == (Text("a"), Regex("b"))
    assert Repeat("a").part == Text("a")


def test_a_template_is_read_as_python_formats_are() -> None:
    template = Template("{{{a}}}{a}b", a="c")
    assert template.pieces() == [("{", None), ("", "a"), ("}", None), ("", "a"), ("b", None)]
    assert Template("x {a}", [("a", "b")]) == Template("x {a}", {"a": "b"})


def test_equal_constraints_have_equal_digests_and_others_have_not() -> None:
    different: list[Structure] = [
        Text("a"),
        Sequence(["a"]),
        AnyOf(["a"]),
        Repeat("a"),
        Repeat("a", 1),
        Repeat("a", 0, 1),
        Sequence(["a", "b"]),
        Sequence([Sequence(["a", "b"])]),
        Template("{a}", a="a"),
        Template("{b}", b="a"),
    ]
    assert len({constraint.digest() for constraint in different}) == len(different)
    assert Sequence(["a"]).digest() == Sequence((Text("a"),)).digest()
    assert JsonObject().digest() == JsonSchema('{"type": "object"}').digest()
