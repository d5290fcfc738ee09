"""A short form of ``tests.kit.fuzz_service``: no call and no constraint gets INTERNAL."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from itertools import islice

import grpc
import pytest

import guided_service.http.app
import guided_service.http.findings
import guided_service.http.playground
import guided_service.http.token_calls
import guided_service.model_servicer
from guided import testing
from guided.v1 import generation_pb2, grammar_pb2, model_pb2
from guided_service.constraint_store import ConstraintStore
from guided_service.grammar_servicer import GrammarServicer
from guided_service.request_reader import RequestReader
from guided_service.servicers import GenerationServicer
from tests.kit.effort import first_seed, is_long, times
from tests.kit.fuzz_service import Look, Tried, try_calls
from tests.kit.service_calls import BODIES, METHODS, Call, hostile_calls, mutated_calls
from tests.kit.told_calls import Outcome, make_calls
from tests.kit.web_callers import model_of
from tests.service.http_server import HttpServer

Draw = Callable[[random.Random, str], Iterator[Call]]


@pytest.mark.parametrize(
    ("draw", "count"),
    [
        pytest.param(mutated_calls, times(250), id="messages"),
        pytest.param(lambda rng, _: hostile_calls(rng), times(12), id="constraints"),
    ],
)
def test_every_call_gets_a_status_that_says_why(
    tiny_web: HttpServer, draw: Draw, count: int
) -> None:
    calls = draw(random.Random(first_seed()), model_of(tiny_web.url))
    tried = try_calls(tiny_web, calls, count, 10.0)
    assert not tried.faults, str(tried)
    told = tried.outcome.told
    assert sum(n for (place, _), n in told.items() if not place.endswith(" item")) == count
    said = {said for _, said in told}
    assert {grpc.StatusCode.OK.name, grpc.StatusCode.INVALID_ARGUMENT.name} <= said
    # After few calls caches are half empty, and still fill up.
    assert not (is_long() and tried.grown()), str(tried)


def test_a_seed_draws_the_same_calls_again() -> None:
    first, again = ([*islice(mutated_calls(random.Random(0), "x"), 3000)] for _ in range(2))
    assert first == again


def test_all_that_a_server_takes_is_tried() -> None:
    files = (generation_pb2, grammar_pb2, model_pb2)
    services = [each for file in files for each in file.DESCRIPTOR.services_by_name.values()]
    there = {f"{each.full_name}/{method.name}" for each in services for method in each.methods}
    assert there == set(METHODS)
    drawn = mutated_calls(random.Random(0), "x")
    assert {next(drawn).place for _ in range(1000)} == there | set(BODIES)


# Bugs that it finds


@pytest.fixture(scope="module")
def in_process() -> Iterator[testing.Server]:
    """A server into whose parts a bug can be put."""
    with testing.Server(http=True) as server:
        yield server


def found(server: testing.Server, place: str) -> Outcome:
    """The faults found by calls of one place, drawn like the others."""
    url = server.http_url.removesuffix("/v1")
    drawn = mutated_calls(random.Random(3), model_of(url))
    calls = (call for call in drawn if call.place == place)
    outcome = Outcome()
    asyncio.run(make_calls(server.address, url, calls, 32, 10.0, outcome))
    return outcome


@pytest.mark.parametrize(
    ("engine", "is_grown"),
    [
        ((400, 500, 700, 650, 734), False),  # within a twentieth of the first half
        ((400, 500, 700, 900, 734), False),  # a large constraint was kept for a while
        ((400, 500, 700, 710, 736), True),
    ],
)
def test_memory_that_goes_on_to_grow_is_told(engine: tuple[float, ...], is_grown: bool) -> None:
    looks = [Look(10 * number, 70.0, each) for number, each in enumerate(engine)]
    assert Tried(looks=looks).grown() == (["the engine grew from 700.0 to 736.0 MiB"] * is_grown)


BUGS = {
    "guided.v1.GenerationService/Generate": (GenerationServicer, "_make"),
    "guided.v1.GenerationService/GenerateStream": (GenerationServicer, "_write"),
    "guided.v1.GenerationService/GenerateBatch": (GenerationServicer, "_make"),
    "guided.v1.GrammarService/Check": (GrammarServicer, "_message"),
    "guided.v1.GrammarService/Compile": (ConstraintStore, "put"),
    "guided.v1.GrammarService/ValidateText": (GrammarServicer, "_message"),
    "guided.v1.GrammarService/List": (ConstraintStore, "listed"),
    "guided.v1.GrammarService/Delete": (ConstraintStore, "delete"),
    "guided.v1.ModelService/GetModel": (guided_service.model_servicer, "encode_model"),
    "guided.v1.ModelService/ListModels": (guided_service.model_servicer, "encode_model"),
    "guided.v1.ModelService/GetStats": (guided_service.model_servicer, "encode_stats"),
    "guided.v1.ModelService/Tokenize": (guided_service.model_servicer, "encode_prompt_tokens"),
    "guided.v1.ModelService/Detokenize": (RequestReader, "read_tokens"),
    **{
        path: (guided_service.http.call, "find_model")
        for path in BODIES
        if path.startswith("/v1/") or path == "/playground/answer"
    },
    "/v1/messages/count_tokens": (guided_service.http.token_calls, "find_model"),
    "/tokenize": (guided_service.http.token_calls, "find_model"),
    "/detokenize": (guided_service.http.token_calls, "find_model"),
    "/playground/mask": (guided_service.http.findings, "find_model"),
    "/playground/automaton": (guided_service.http.findings, "find_model"),
}
"""For each place, a function that then raises an unexpected error."""


@pytest.mark.parametrize("place", [*METHODS, *BODIES])
def test_a_bug_is_found(
    in_process: testing.Server, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def buggy(*_: object, **__: object) -> None:
        raise KeyError("planted")

    assert found(in_process, place).faults == []
    monkeypatch.setattr(*BUGS[place], buggy)
    faults = found(in_process, place).faults
    assert faults
    assert all(place in fault for fault in faults)
