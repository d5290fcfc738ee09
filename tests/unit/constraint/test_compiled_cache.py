"""The cache of a compiler: within bounds no constraint is compiled, or refused, twice."""

from __future__ import annotations

import gc
import json
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler, ConstraintLimits
from guided.constraint.machine import build_machine
from guided.errors import GuidedError, InvalidConstraintError, LimitExceededError
from guided.spec import Choice, JsonSchema, Regex, Structure
from guided.spec.composition import Template
from guided.spec.tagged import Tag, Tagged
from tests.kit.walks import BYTES

_BUILT_BY = "guided.constraint.compiler.build_machine"
REFUSED: dict[str, tuple[Structure, type[GuidedError]]] = {
    "too large": (Regex("(a|b)*a(a|b){20}"), LimitExceededError),
    "not right": (JsonSchema('{"type": "strong"}'), InvalidConstraintError),
    "beyond its work": (JsonSchema('{"enum": [[1], [2], [3]]}'), LimitExceededError),
}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Structure]:
    """The constraints for which machines are built."""
    found: list[Structure] = []

    def noted(constraint: Structure, *rest: Any) -> Any:
        found.append(constraint)
        return build_machine(constraint, *rest)

    monkeypatch.setattr(_BUILT_BY, noted)
    return found


@pytest.mark.parametrize("name", REFUSED)
def test_what_was_refused_is_refused_again_at_once(name: str, made: list[Structure]) -> None:
    constraint, kind = REFUSED[name]
    limits = ConstraintLimits(compile_work=20) if name == "beyond its work" else ConstraintLimits()
    compiler = ConstraintCompiler(BYTES, limits)
    errors = []
    for _ in range(3):
        with pytest.raises(kind) as caught:
            compiler.start(constraint)
        errors.append(caught.value)
    assert made == [constraint]
    first, *again = errors
    for error in again:
        assert error is not first  # one error would gather the tracebacks of all callers
        assert str(error) == str(first)
        assert {**vars(error)} == {**vars(first)}


def test_refusals_are_kept_within_bounds() -> None:
    compiler = ConstraintCompiler(BYTES)
    for number in range(300):
        with pytest.raises(InvalidConstraintError):
            compiler.start(JsonSchema(json.dumps({"type": f"{number}" + "x" * 20_000})))
    refused = compiler._cache._refusals
    assert 0 < refused.currsize <= refused.maxsize


def test_threads_that_ask_for_the_same_constraint_wait_for_one(
    made: list[Structure], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(constraint: Structure, *rest: Any) -> Any:
        made.append(constraint)
        time.sleep(0.2)
        return build_machine(constraint, *rest)

    monkeypatch.setattr(_BUILT_BY, slowly)
    compiler = ConstraintCompiler(BYTES)
    barrier = threading.Barrier(6)

    def ask(number: int) -> object:
        barrier.wait()
        return compiler.compile(Choice(("one", "two")) if number % 3 else Choice(("other",)))

    with ThreadPoolExecutor(6) as pool:
        found = [*pool.map(ask, range(6))]
    assert len(made) == 2
    assert len({id(compiled) for compiled in found}) == 2


def test_compiled_constraints_are_kept_within_a_bound_on_their_bytes(
    made: list[Structure],
) -> None:
    """Few large ones are kept, the ones used last, and a single one in any case."""
    large = [JsonSchema(json.dumps({"pattern": f"^[a-z]{{1,{4_000 + n}}}$"})) for n in range(4)]
    one = ConstraintCompiler(BYTES).compile(large[0]).nbytes
    assert one > 200_000
    compiler = ConstraintCompiler(BYTES, ConstraintLimits(max_compiled_bytes=int(2.5 * one)))
    made.clear()
    for constraint in (large[0], large[1], large[0], large[2], large[0], large[1]):
        compiler.compile(constraint)
        held = compiler._cache._compiled.values()
        assert sum(compiled.nbytes for compiled in held) <= 2.5 * one
    assert made == [large[0], large[1], large[2], large[1]]
    alone = ConstraintCompiler(BYTES, ConstraintLimits(max_compiled_bytes=1))
    made.clear()
    for constraint in (large[3], large[3]):
        alone.compile(constraint)
    assert made == [large[3]]


_MEASURED: dict[str, Structure] = {
    "required names": JsonSchema(
        json.dumps({"type": "object", "required": [f"n{n}" for n in range(1_000)]})
    ),
    "notes": JsonSchema(
        json.dumps(
            {
                "description": "What is to be told of it. " * 4_000,
                "examples": [{"n": n, "told": f"an example, number {n}"} for n in range(1_000)],
                "properties": {f"p{n}": {"title": "A number " * 40} for n in range(100)},
            }
        )
    ),
    "schemas that nothing leads to": JsonSchema(
        json.dumps({"type": "integer", "$defs": {f"d{n}": {"maxLength": n} for n in range(1_000)}})
    ),
    "many in a long name": JsonSchema(
        json.dumps(
            {
                "properties": {
                    "x" * 5_000: {"properties": {f"p{n}": {"minimum": n} for n in range(800)}}
                }
            }
        )
    ),
    "scopes": JsonSchema(
        json.dumps(
            {
                "$defs": {f"d{n}": {"$dynamicAnchor": f"d{n}"} for n in range(300)},
                "properties": {
                    f"p{n}": {"$id": f"p{n}", "$dynamicAnchor": f"p{n}"} for n in range(300)
                },
            }
        )
    ),
    "patterns": JsonSchema(
        json.dumps({"patternProperties": {f"^x{n}.*{n}$": {"const": n} for n in range(500)}})
    ),
    "tools": Tagged(
        [
            Tag(
                f"<{tool}>",
                JsonSchema(
                    json.dumps(
                        {"properties": {f"a{tool}_{n}": {"type": "string"} for n in range(20)}}
                    )
                ),
                "</>",
            )
            for tool in range(20)
        ]
    ),
    "template": Template(
        "".join(f"{{a{n}}}, " for n in range(1_000)),
        {f"a{n}": Regex(r"\w{1,30}") for n in range(1_000)},
    ),
    "choice": Choice(tuple(f"{n * 7919:x}" for n in range(5_000))),
}


@pytest.mark.parametrize("name", _MEASURED)
def test_what_a_constraint_is_said_to_hold_is_half_of_what_it_takes_at_least(name: str) -> None:
    constraint = _MEASURED[name]
    # Once before, because shared objects are made then.
    ConstraintCompiler(BYTES).compile(constraint).start().can_complete_within(10**9)
    compiler = ConstraintCompiler(BYTES)
    compiler.compile(Regex("a"))
    gc.collect()
    tracemalloc.start()
    try:
        compiled = compiler.compile(constraint)
        compiled.start().can_complete_within(10**9)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / 2 < compiled.nbytes < 2 * taken


def test_a_document_that_nothing_reads_counts_as_its_text() -> None:
    text = json.dumps({"$defs": {f"d{n}": {"type": "string"} for n in range(3_000)}})
    compiler = ConstraintCompiler(BYTES)
    alone = compiler.compile(JsonSchema('{"type":"integer"}')).nbytes
    beside = compiler.compile(JsonSchema('{"type":"integer"}', documents=(("a:b", text),))).nbytes
    assert len(text) < beside - alone < 1.1 * len(text)


def test_the_tokens_of_an_end_count() -> None:
    text = "ab" * 5_000
    compiled = ConstraintCompiler(BYTES).compile(JsonSchema(json.dumps({"const": text})))
    before = compiled.nbytes
    assert not compiled.start().can_complete_within(10)
    # The text, and the knowledge of each of its places.
    assert compiled.nbytes - before > 9 * len(text)
