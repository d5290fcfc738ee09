"""Constraints over the wire without answers: checked, kept, named, and used to read texts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import grpc
import pytest
from pydantic import AfterValidator, BaseModel

import guided
from guided.client import AsyncClient, Client, RawPrompt, Request, wait_until_serving
from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    InvalidConstraintError,
    LimitExceededError,
    RequestError,
    ServiceUnavailableError,
    UnknownConstraintError,
    UnsatisfiableError,
)
from guided.spec import JsonOptions, Lark, Regex, Stored, TextFit
from guided.v1 import generation_pb2 as pb
from guided.v1 import grammar_pb2
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided.v1.grammar_pb2_grpc import GrammarServiceStub
from tests.service.guided_command import guided_command
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_supervision import eventually
from tests.unit.engine.test_constraint_tasks import LONG

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"day": {"type": "string", "format": "date"}},
}


def even(value: int) -> int:
    return value


class Ticket(BaseModel):
    count: Annotated[int, AfterValidator(even)]


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests, since its engine loads a compiler for the first constraint."""
    log = tmp_path_factory.mktemp("grammars") / "log"
    with serving(ECHO_SERVER, log, {"max_stored_bytes": "20000"}) as running:
        yield running


@pytest.fixture
def client(shared_server: ServerProcess) -> Iterator[Client]:
    with Client(shared_server.address) as connected:
        yield connected


@pytest.fixture
def stub(shared_server: ServerProcess) -> Iterator[GrammarServiceStub]:
    with grpc.insecure_channel(shared_server.address) as channel:
        yield GrammarServiceStub(channel)


def refusal(call: Callable[[], object]) -> GuidedError:
    with pytest.raises(GuidedError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("subject", "asked"),
    [
        (SCHEMA, {"schema": SCHEMA}),
        (json.dumps(SCHEMA), {"schema": json.dumps(SCHEMA)}),
        (Ticket, {"response_model": Ticket}),
        (Regex("a+b"), {"grammar": Regex("a+b")}),
        (Lark('start: "x"+'), {"grammar": Lark('start: "x"+')}),
    ],
)
def test_a_check_over_the_wire_is_that_of_the_library(
    client: Client, subject: Any, asked: dict[str, Any]
) -> None:
    assert client.grammars.check(**asked) == guided.check(subject)


@pytest.mark.parametrize(
    ("subject", "asked"),
    [
        ({"type": "strin"}, {"schema": {"type": "strin"}}),
        ({"$ref": "#/x"}, {"schema": {"$ref": "#/x"}}),
        (
            {"allOf": [{"type": "null"}, {"type": "array"}]},
            {"schema": {"allOf": [{"type": "null"}, {"type": "array"}]}},
        ),
        (Regex("a("), {"grammar": Regex("a(")}),
        (Lark("start: missing"), {"grammar": Lark("start: missing")}),
    ],
)
def test_a_refusal_over_the_wire_is_that_of_the_library(
    client: Client, subject: Any, asked: dict[str, Any]
) -> None:
    """Its kind, its place and its hint are the same; and a refused constraint is not kept."""
    here = refusal(lambda: guided.check(subject))
    asked = asked | {"cache_salt": "refused"}
    for there in (
        refusal(lambda: client.grammars.check(**asked)),
        refusal(lambda: client.grammars.compile(**asked)),
        refusal(lambda: client.grammars.validate("x", **asked)),
    ):
        assert type(there) is type(here)
        assert isinstance(there, InvalidConstraintError | UnsatisfiableError)
        assert (str(there), there.hint) == (str(here), here.hint)
        assert there.pointer == getattr(here, "pointer", None)
    assert client.grammars.list(cache_salt="refused") == []


def test_what_is_compiled_may_be_named_by_requests(client: Client) -> None:
    kept = client.grammars.compile(schema=SCHEMA, cache_salt="named")
    assert kept.constraint_id == guided.JsonSchema(json.dumps(SCHEMA)).digest()
    assert kept.report == guided.check(SCHEMA)
    assert kept.cost.states > 0
    assert kept.cost.seconds > 0
    asked: dict[str, Any] = {"grammar": kept.constraint, "cache_salt": "named", "max_tokens": 1}
    prompt = RawPrompt("constraint")
    assert client.generate(prompt, **asked).text == kept.constraint_id
    with client.stream(prompt, **asked) as stream:
        list(stream)
    assert stream.answer.text == kept.constraint_id
    (batched,) = client.batch([Request(prompt, **asked)])
    assert isinstance(batched, guided.Answer)
    assert batched.text == kept.constraint_id
    (listed,) = client.grammars.list(cache_salt="named")
    assert (listed.constraint_id, listed.uses) == (kept.constraint_id, 3)
    assert listed.nbytes > len(json.dumps(SCHEMA))
    assert client.grammars.validate('{"day":"', grammar=kept.constraint, cache_salt="named")


def test_a_response_model_reads_answers_under_a_stored_constraint(client: Client) -> None:
    kept = client.grammars.compile(Ticket)
    asked: dict[str, Any] = {"grammar": kept.constraint, "max_tokens": 1}
    answer = client.generate(RawPrompt('{"count": 3}'), Ticket, **asked)
    assert answer.value == Ticket(count=3)
    with pytest.raises(RequestError, match="a grammar is given beside"):
        client.generate("x", schema=SCHEMA, grammar=kept.constraint)
    with pytest.raises(RequestError, match="a grammar is given beside"):
        client.generate("x", Ticket, grammar=Regex("a"))


def test_a_salt_keeps_its_constraints_to_itself(client: Client) -> None:
    kept = client.grammars.compile(schema={"const": 1}, cache_salt="ours")
    assert client.grammars.list(cache_salt="theirs") == []
    for salt in ("", "theirs"):
        named: Any = {"grammar": kept.constraint, "cache_salt": salt}
        for error in (
            refusal(partial(client.generate, "x", **named)),
            refusal(partial(client.grammars.check, **named)),
            refusal(partial(client.grammars.delete, kept.constraint, cache_salt=salt)),
        ):
            assert isinstance(error, UnknownConstraintError)
            assert str(error).startswith("there is no stored constraint 'json_schema:")
    client.grammars.delete(kept.constraint_id, cache_salt="ours")
    assert client.grammars.list(cache_salt="ours") == []


def test_an_unknown_constraint_is_not_found(stub: GrammarServiceStub) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.Delete(grammar_pb2.DeleteRequest(constraint_id="regex:0"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_one_bad_name_of_a_batch_harms_no_other(client: Client) -> None:
    good, bad = client.batch(
        [
            Request(RawPrompt("good"), max_tokens=1),
            Request(RawPrompt("bad"), grammar=Stored("regex:0"), max_tokens=1),
        ]
    )
    assert isinstance(good, guided.Answer)
    assert isinstance(bad, UnknownConstraintError)


def test_a_text_is_held_against_a_constraint(client: Client) -> None:
    whole = client.grammars.validate('{"day":"2024-02-29"}', schema=SCHEMA)
    assert (whole.fit, whole.offset) == (TextFit.COMPLETE, 20)
    begun = client.grammars.validate('{"day":"2023-02-2', schema=SCHEMA)
    assert (begun.fit, begun.allowed) == (TextFit.PREFIX, b"012345678")
    wrong = client.grammars.validate('{"day":"2023-02-29"}', schema=SCHEMA)
    assert (wrong.fit, wrong.offset, wrong.allowed) == (TextFit.REFUSED, 17, b"012345678")
    spaced = '{ "day": "2024-02-29" }'
    assert client.grammars.validate(spaced, schema=SCHEMA).offset == 1
    free = JsonOptions(whitespace="free")
    found = client.grammars.validate(spaced, schema=SCHEMA, json_options=free)
    assert found.fit is TextFit.COMPLETE


def test_the_report_comes_with_the_answer_where_it_is_asked_for(client: Client) -> None:
    prompt, report = RawPrompt('{"count": 3}'), guided.check(Ticket)
    assert report.unenforced_validators
    options: dict[str, Any] = {"max_tokens": 1, "report": True}
    assert client.generate(prompt, Ticket, max_tokens=1).report is None
    assert client.generate(prompt, Ticket, **options).report == report
    with client.stream(prompt, Ticket, **options) as stream:
        list(stream)
    assert stream.answer.report == report
    outcomes = client.batch([Request(prompt, Ticket, **options), Request(prompt, max_tokens=1)])
    assert [one.report for one in outcomes if isinstance(one, guided.Answer)] == [report, None]


def test_a_report_needs_a_constraint_and_leaves_errors_as_they_are(client: Client) -> None:
    with pytest.raises(RequestError, match="report needs a constraint to report on"):
        client.generate("x", report=True)
    with pytest.raises(InvalidConstraintError, match="the type is odd; even it out"):
        client.generate(RawPrompt("refuse"), schema=SCHEMA, report=True)
    with pytest.raises(InvalidConstraintError, match="at /type: "):
        client.generate(RawPrompt("x"), schema={"type": "strin"}, report=True, max_tokens=1)


def test_calls_without_a_constraint_or_with_too_much_are_refused(
    client: Client, stub: GrammarServiceStub
) -> None:
    with pytest.raises(RequestError, match="there is no constraint; pass a response_model"):
        client.grammars.check()
    with pytest.raises(LimitExceededError, match="20000 may be stored"):
        client.grammars.compile(grammar=guided.Text("x" * 20_000))
    with pytest.raises(LimitExceededError, match="cache_salt has more than 256 bytes"):
        client.grammars.list(cache_salt="x" * 257)
    for request, words in (
        (grammar_pb2.CheckRequest(), "the call names no constraint"),
        (grammar_pb2.CheckRequest(constraint=pb.Constraint()), "the constraint says nothing"),
        (
            grammar_pb2.CheckRequest.FromString(b"\x0a\x02\x3a\x00\x78\x01"),
            "field number 15 of guided.v1.CheckRequest is unknown",
        ),
        (
            grammar_pb2.CheckRequest(constraint=pb.Constraint(text="x" * (4 * 2**20))),
            "above the limit of 4194304",
        ),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            stub.Check(request)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert words in (caught.value.details() or "")


def test_a_message_that_cannot_be_read_is_a_mistake_of_its_sender(
    shared_server: ServerProcess,
) -> None:
    with grpc.insecure_channel(shared_server.address) as channel:
        call: Any = channel.unary_unary("/guided.v1.GrammarService/Check")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_the_asyncio_client_does_the_same(shared_server: ServerProcess) -> None:
    async def use() -> None:
        async with AsyncClient(shared_server.address) as client:
            grammars = client.grammars
            assert await grammars.check(Ticket) == guided.check(Ticket)
            kept = await grammars.compile(Ticket, cache_salt="async")
            assert kept.report == guided.check(Ticket)
            (listed,) = await grammars.list(cache_salt="async")
            assert listed.constraint == kept.constraint
            found = await grammars.validate("{", Ticket)
            assert (found.fit, found.allowed) == (TextFit.PREFIX, b'"')
            await grammars.delete(kept.constraint, cache_salt="async")
            assert await grammars.list(cache_salt="async") == []

    asyncio.run(use())


def test_a_closed_client_asks_nothing(shared_server: ServerProcess) -> None:
    client = Client(shared_server.address)
    grammars = client.grammars
    client.close()
    with pytest.raises(RequestError, match="the client is closed"):
        grammars.list()


def test_a_check_that_nobody_waits_for_leaves_the_engine_to_others(tmp_path: Path) -> None:
    """With a single place, an abandoned check would hold it, and the work would continue."""
    settings = {"max_requests_in_flight": "1", "max_batch_size": "1", "max_requests_queued": "0"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        client.grammars.check(schema="true")  # the compiler is loaded
        with pytest.raises(DeadlineExceededError):
            client.grammars.check(grammar=LONG, timeout=0.02)
        began = time.monotonic()
        assert client.grammars.check(schema="true") == guided.check("true")
        assert client.generate(RawPrompt("x"), max_tokens=1).text == "x"
        assert time.monotonic() - began < 60


def test_what_is_kept_outlives_the_engine(tmp_path: Path) -> None:
    settings = {"restart_backoff_seconds": "0"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        kept = client.grammars.compile(schema=SCHEMA)
        with pytest.raises(ServiceUnavailableError, match="killed by signal 9"):
            client.generate(RawPrompt("die"))
        wait_until_serving(server.address, 30)
        answer = client.generate(RawPrompt("constraint"), grammar=kept.constraint, max_tokens=1)
        assert answer.text == kept.constraint_id


def test_a_constraint_that_is_named_counts_in_what_calls_hold(tmp_path: Path) -> None:
    settings = {
        "max_requests_in_flight": "1",
        "max_batch_size": "1",
        "max_held_bytes": "300000",
    }
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server, Client(server.address) as ours:
        kept = ours.grammars.compile(grammar=guided.Text("x" * 40_000))
        named = pb.Constraint(constraint_id=kept.constraint_id)
        request = pb.GenerateRequest(text="x", max_tokens=1, constraint=named)
        with ours.stream(RawPrompt("wait")) as holding, grpc.insecure_channel(server.address) as to:
            next(holding)
            stub = GenerationServiceStub(to)
            waiting: Any = stub.Generate.future(request)
            eventually(lambda: ours.stats().queued == 1)
            with pytest.raises(grpc.RpcError) as caught:
                stub.Generate(request, timeout=20)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            holding.close()
            assert waiting.result(timeout=20).text == "x"


def test_answers_go_on_while_a_constraint_is_checked(client: Client) -> None:
    with client.stream(RawPrompt("wait"), max_tokens=10**6) as pieces:
        assert next(pieces)
        report = client.grammars.check(grammar=LONG)
        assert report.shortest_answer in LONG.options


def test_the_command_checks_at_a_server(shared_server: ServerProcess, tmp_path: Path) -> None:
    schema, grammar = tmp_path / "schema.json", tmp_path / "grammar.lark"
    never = {"type": "string", "enum": [1]}
    schema.write_text(json.dumps(SCHEMA | {"properties": SCHEMA["properties"] | {"never": never}}))
    grammar.write_text('start: "x" missing')
    there = ("--address", shared_server.address)
    here, asked = (guided_command("check", str(schema), "--json", *at) for at in ((), there))
    assert (here.returncode, asked.returncode) == (0, 0), asked.stderr
    assert here.stdout == asked.stdout
    assert json.loads(asked.stdout)["empty_parts"] == ["/properties/never"]
    refused = guided_command("check", str(grammar), *there)
    assert refused.returncode == 1
    assert "error: " in refused.stderr
    assert "missing" in refused.stderr
    told = guided_command("generate", *there, "--schema", str(schema), "--report", "--prompt", "{}")
    assert told.stdout == "{}\n", told.stderr
    assert "/properties/day/format" in told.stderr
