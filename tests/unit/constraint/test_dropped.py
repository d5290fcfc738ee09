"""What was made for a constraint is freed when it is dropped, without a collection.

Collecting takes tenths of a second where constraints are large, in the middle of a step.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import pytest

from guided.constraint import ConstraintCompiler, ConstraintLimits
from guided.engine.request_isolation import RequestIsolation, as_guided_error
from guided.engine.sliced_work import SlicedWork
from guided.errors import GuidedError, InternalServiceError, RequestError
from guided.machine.parts import RecognizerLimits
from guided.runtime.work_budget import limited_work, spend
from guided.spec import Ebnf, Forcing, JsonSchema, Lark, Regex, Structure
from guided.spec.bare_string import BareString
from guided.spec.composition import AnyOf, Repeat, Sequence, Text
from guided.spec.tagged import Tag, Tagged
from tests.kit.effort import times
from tests.kit.walks import PIECES, random_walk

_NAMED: Final = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}}


def _schema(schema: Any, **documents: Any) -> JsonSchema:
    texts = tuple((uri, json.dumps(document)) for uri, document in documents.items())
    return JsonSchema(json.dumps(schema), documents=texts)


_CONSTRAINTS: Final[dict[str, Structure]] = {
    "anything": _schema(True),
    "a named member": _schema(_NAMED),
    "a tree": _schema({"type": "object", "properties": {"next": {"$ref": "#"}}}),
    "branches of a tree": _schema(
        {
            "$defs": {"n": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/n"}, _NAMED]}}},
            "$ref": "#/$defs/n",
        }
    ),
    "one of objects that overlap": _schema(
        {"oneOf": [_NAMED, {"required": ["b"], "properties": {"b": {"type": "integer"}}}]}
    ),
    "listed": _schema({"enum": [*range(20), *map(str, range(300))]}),
    "listed objects": _schema({"enum": [{"a": n, "b": str(n)} for n in range(20)]}),
    "names with patterns": _schema(
        {"patternProperties": {"^x": {"const": 1}, "y$": {"type": "number"}}, "minProperties": 2}
    ),
    "names that differ": _schema({"propertyNames": {"maxLength": 2}, "minProperties": 2}),
    "items that differ": _schema({"uniqueItems": True, "minItems": 3, "items": {"maxLength": 2}}),
    "contained": _schema({"type": "array", "contains": {"const": 1}, "minContains": 2}),
    "unevaluated": _schema(
        {"anyOf": [_NAMED, {"patternProperties": {"b": True}}], "unevaluatedProperties": False}
    ),
    "unevaluated items": _schema(
        {
            "type": "array",
            "prefixItems": [True],
            "contains": {"type": "null"},
            "unevaluatedItems": {"type": "integer"},
        }
    ),
    "multiples": _schema({"type": "integer", "multipleOf": 7, "not": {"const": 14}}),
    "a string with all": _schema({"pattern": "1.*", "format": "date", "not": {"maxLength": 3}}),
    "an anchor": _schema(
        {
            "$anchor": "a",
            "$defs": {"b": {"$anchor": "b", "type": "null"}},
            "properties": {"next": {"$ref": "#a"}, "b": {"$ref": "#b"}},
        }
    ),
    "a dynamic anchor": _schema(
        {"$dynamicAnchor": "a", "properties": {"next": {"$dynamicRef": "#a"}}}
    ),
    "a recursive anchor": _schema(
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "properties": {"next": {"$recursiveRef": "#"}},
        }
    ),
    "two with one URI": _schema(
        {"$defs": {name: {"$id": "u", "$anchor": name} for name in "ab"}, "type": "null"}
    ),
    "another dialect": _schema(
        {"$schema": "m", **_NAMED}, m={"$schema": "https://json-schema.org/draft/2020-12/schema"}
    ),
    "another document": _schema({"$ref": "d#/$defs/x"}, d={"$defs": {"x": {"$ref": "#"}}}),
    "a regex": Regex("(a|b)+c{2,9}"),
    "a lookahead": Regex("(?=.*a)[a-c]{2,5}"),
    "a grammar": Lark('start: "(" start ("," start)* ")" | /(?!if)[a-z]+/ | "if"i start'),
    "an ambiguous grammar": Lark('start: e\ne: e e | "(" e ")" | /[a-z]/'),
    "templates and ignored blanks": Lark(
        'start: _s{"a"} | _s{"b"}\n_s{x}: x (";" x)*\n%ignore " "'
    ),
    "imports": Lark('%import common.INT\n%import common.SIGNED_INT\nstart: (INT ":" SIGNED_INT)+'),
    "rules": Ebnf('root ::= "a" root? | b\nb ::= "b" (root | "c")'),
    "a sequence": Sequence([Text("x"), Repeat(Regex("[ab]"), 1, 4), AnyOf([_schema(_NAMED), "z"])]),
    "schemas side by side": AnyOf([_schema({"type": "string"}), _schema({"type": "integer"})]),
    "an alternative without a text": AnyOf([_schema(False), _schema(_NAMED)]),
    "a tag without a text": Tagged([Tag("<a>", _schema(False), ">"), Tag("<b>", Text("b"), ">")]),
    "tags": Tagged([Tag("<a>", _schema(_NAMED), "</a>"), Tag("<b>", Regex("b+"), "</b>")]),
    "a string without quotes": BareString("<", _schema({"maxLength": 3, "type": "string"}), ">"),
}
_REFUSED: Final[dict[str, Structure]] = {
    "a reference to nothing": _schema({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {}}),
    "an anchor of nothing": _schema({"$anchor": "a", "properties": {"a": {"$ref": "#b"}}}),
    "no document": _schema({"type": "object", "required": ["a"], "properties": {"a": False}}),
    "no document of a tree": _schema(
        {"required": ["a"], "properties": {"a": {"$ref": "#"}}, "type": "object"}
    ),
    "nested without end": _schema(
        {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#"}]}}}
    ),
    "a pattern that is none": _schema({"properties": {"a": {"pattern": "("}}}),
    "a shape that is none": _schema({"properties": 3}),
    "too large": Regex("(a|b)*a(a|b){20}"),
    "a grammar with a missing rule": Lark("start: a b\na: start?"),
    "a grammar without a text": Lark('start: "a" start'),
    "a composition without a text": Sequence([Text("x"), _schema(False)]),
}


@contextmanager
def _nothing_left() -> Iterator[None]:
    """Fail if the block leaves objects that only a collection would free."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = Counter(type(each).__qualname__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left, left.most_common(20)


def _compiled_and_walked(compiler: ConstraintCompiler, constraint: Structure) -> None:
    start = compiler.compile(constraint).start()
    for seed in range(3):
        walk = random_walk(start, random.Random(seed), 12)
        for matcher in walk.matchers:
            matcher.forced_run(Forcing.CANONICAL)
    random_walk(start, random.Random(3), 60, budget=60)
    assert start.can_complete_within(100)


@pytest.mark.parametrize("constraint", _CONSTRAINTS.values(), ids=_CONSTRAINTS)
def test_a_constraint_that_is_dropped_leaves_nothing(constraint: Structure) -> None:
    _compiled_and_walked(ConstraintCompiler(PIECES), constraint)  # what is kept for all is made
    with _nothing_left():
        _compiled_and_walked(ConstraintCompiler(PIECES), constraint)


def test_positions_that_are_forgotten_leave_nothing() -> None:
    with _nothing_left():
        compiler = ConstraintCompiler(PIECES, ConstraintLimits(max_positions=5))
        _compiled_and_walked(compiler, _CONSTRAINTS["a named member"])


def _fail_in_slices(work: Callable[[], object], told: list[GuidedError]) -> None:
    """Do work as an engine does, which ends with an error."""
    sliced = SlicedWork(work)
    while not sliced.run_slice():
        pass
    with RequestIsolation("it", lambda _, error: told.append(error)):
        sliced.result()


@pytest.mark.parametrize("constraint", _REFUSED.values(), ids=_REFUSED)
def test_a_refusal_leaves_nothing(constraint: Structure) -> None:
    """Even while its error is kept: what was half made goes at once."""
    limits = ConstraintLimits(recognizer=RecognizerLimits(max_cells=100_000))
    kept: list[GuidedError] = []
    for told in ([], kept):
        with _nothing_left():
            _fail_in_slices(partial(ConstraintCompiler(PIECES, limits).start, constraint), told)
    assert len(kept) == 1


def test_work_that_is_cancelled_leaves_nothing() -> None:
    constraint = _schema({"pattern": "(a|b)*a(a|b){14}"})
    with _nothing_left():
        sliced = SlicedWork(partial(ConstraintCompiler(PIECES).start, constraint))
        assert not sliced.run_slice(0.0)
        sliced.cancel()
        del sliced


def test_work_that_is_cancelled_while_it_handles_an_error_leaves_nothing() -> None:
    def work() -> None:
        try:
            raise ValueError
        except ValueError:
            with limited_work(10**9):
                while True:
                    spend(1_000)

    with _nothing_left():
        sliced = SlicedWork(work)
        assert not sliced.run_slice(0.0)
        sliced.cancel()
        del sliced


def test_what_is_dropped_in_one_thread_is_whole_in_the_others() -> None:
    """While an object is freed no other thread runs, which might get the memory of its parts."""
    compiler = ConstraintCompiler(PIECES, ConstraintLimits(max_compiled=2, max_positions=4))
    constraints = [
        _schema({"properties": {"n": {"$ref": "#"}, f"k{number}": {"maxLength": 5}}})
        for number in range(6)
    ]
    faults: list[BaseException] = []
    until = time.monotonic() + times(2)

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            while time.monotonic() < until and not faults:
                random_walk(compiler.start(rng.choice(constraints)), rng, 25)
        except BaseException as fault:
            faults.append(fault)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3)))
    finally:
        sys.setswitchinterval(before)
    assert not faults


def _fail(told: list[GuidedError]) -> None:
    with RequestIsolation("it", lambda _, error: told.append(error)):
        raise RequestError("ours")


def test_an_error_of_the_caller_keeps_its_traceback() -> None:
    """It may be on its way while a request fails, and then stands beside the request's error."""
    theirs, told = RuntimeError(), list[GuidedError]()
    with suppress(RuntimeError):
        try:
            raise theirs
        finally:
            _fail(told)
    (ours,) = told
    assert ours.__context__ is theirs
    assert theirs.__traceback__ is not None
    assert ours.__traceback__ is None


def test_a_fault_keeps_its_traceback_for_who_looks_into_it() -> None:
    with pytest.raises(KeyError) as caught:
        raise KeyError("ours")
    assert isinstance(as_guided_error("it", caught.value), InternalServiceError)
    assert caught.value.__traceback__ is not None
