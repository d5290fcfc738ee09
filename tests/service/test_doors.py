"""Access: certificates, tokens and their quotas, and the errors that strangers get."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from pydantic import ValidationError

from guided.bearer import bearer_of, new_token, token_hash
from guided.client import AsyncClient, Client, RawPrompt, Tls
from guided.errors import (
    GuidedError,
    ServiceError,
    ServiceUnavailableError,
    UnauthenticatedError,
)
from guided.spec import GenerationRequest, Regex
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided_service.admission import Client as QueueClient
from guided_service.certificates import GrpcCertificate
from guided_service.config import ServerConfig
from guided_service.door import Caller, Door
from guided_service.listening import check_exposure, is_loopback, tells_methods
from tests.service.guided_command import guided_command
from tests.service.server_process import ECHO_SERVER, ServerProcess, listening, serving
from tests.service.test_supervision import eventually, raw

STRANGER, ANN, BOB = new_token(), new_token(), new_token()


@dataclass
class Authority:
    """An authority that signs certificates, and the files of a server with one of them."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.ca = trustme.CA()
        self.root = self.folder / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.root))

    def issue(self, name: str, where: Path | None = None) -> tuple[Path, Path]:
        """A certificate for this machine and its key."""
        folder = where or self.folder
        made = self.ca.issue_cert("localhost", "127.0.0.1", f"{name}@example.org", common_name=name)
        chain, key = folder / f"{name}.pem", folder / f"{name}.key"
        key.write_bytes(made.private_key_pem.bytes())
        chain.write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
        return chain, key


def tokens_file(folder: Path, **limits: str) -> Path:
    """Tokens of ann and bob, with lines of limits."""
    file = folder / "tokens.toml"
    tables = (
        f'[{name}]\nsha256 = "{token_hash(token)}"\n{limits.get(name, "")}\n'
        for name, token in (("ann", ANN), ("bob", BOB))
    )
    file.write_text("".join(tables))
    return file


def ask(server: ServerProcess, text: str, **options: Any) -> str:
    with Client(server.address, **options) as client:
        return client.generate(RawPrompt(text), max_tokens=1, timeout=20).text


# Certificates


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_traffic_is_encrypted_and_a_renewed_certificate_counts_without_a_restart(
    tmp_path: Path, authority: Authority
) -> None:
    chain, key = authority.issue("server", tmp_path)
    settings = {"tls_cert": str(chain), "tls_key": str(key)}
    trusted = Tls(ca=authority.root)
    with serving(ECHO_SERVER, tmp_path / "log", settings, tls=trusted) as server:
        assert ask(server, "hello", tls=trusted) == "hello"
        for options, hint in (
            ({}, r"pass tls=\.\.\. if it requires encryption"),
            ({"tls": True}, r"name the authority .*guided\.Tls\(ca="),
            ({"tls": Tls(ca=authority.root, server_name="else")}, "is for another name"),
            ({"tls": Tls(ca=key)}, "are certificates and their key, in PEM"),
        ):
            with pytest.raises(ServiceUnavailableError, match=hint):
                ask(server, "hello", **options)

        other = Authority(tmp_path / "other")
        other.issue("server", tmp_path)
        with pytest.raises(ServiceUnavailableError):
            ask(server, "hello", tls=trusted)
        assert ask(server, "again", tls=Tls(ca=other.root)) == "again"
        # A key of another certificate, as while the two files are being written.
        authority.issue("stray", tmp_path)[1].rename(key)
        assert ask(server, "still", tls=Tls(ca=other.root)) == "still"
        assert "certificate not read again" in server.log.read_text()


def test_clients_show_certificates_where_they_are_asked_for(
    tmp_path: Path, authority: Authority
) -> None:
    chain, key = authority.issue("server")
    cert, cert_key = authority.issue("client")
    stray, stray_key = Authority(tmp_path / "other").issue("client")
    settings = {
        "tls_cert": str(chain),
        "tls_key": str(key),
        "tls_client_ca": str(authority.root),
    }
    known = Tls(ca=authority.root, cert=cert, key=cert_key)
    with serving(ECHO_SERVER, tmp_path / "log", settings, tls=known) as server:
        assert ask(server, "hello", tls=known) == "hello"
        for tls in (
            Tls(ca=authority.root),
            Tls(ca=authority.root, cert=stray, key=stray_key),
        ):
            with pytest.raises(ServiceUnavailableError, match="certificate of yours"):
                ask(server, "hello", tls=tls)


def test_a_client_that_encrypts_where_the_server_does_not_says_so(
    shared_echo_server: ServerProcess,
) -> None:
    with pytest.raises(ServiceUnavailableError, match="does not encrypt; leave tls out"):
        ask(shared_echo_server, "hello", tls=True)


def test_files_that_make_no_certificate_are_named(tmp_path: Path, authority: Authority) -> None:
    chain, key = authority.issue("server")
    _, other_key = authority.issue("other")
    for config in (
        ServerConfig(tls_cert=tmp_path / "none.pem", tls_key=key),
        ServerConfig(tls_cert=chain, tls_key=other_key),
        ServerConfig(tls_cert=chain, tls_key=key, tls_client_ca=key),
    ):
        with pytest.raises(ServiceError, match="no certificate can be made of") as caught:
            GrpcCertificate(config)
        assert str(config.tls_cert) in str(caught.value)
    assert GrpcCertificate(ServerConfig(tls_cert=chain, tls_key=key)).renewed() is None


# Listening beyond this machine


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1"])
def test_nothing_listens_beyond_this_machine_unencrypted(host: str) -> None:
    with pytest.raises(ServiceError) as caught:
        check_exposure(ServerConfig(host=host), host, 50051)
    assert str(caught.value).endswith(
        "others on the network could read and change what is sent, because it would not be "
        "encrypted; give --tls-cert and --tls-key, or --insecure where something else protects it"
    )
    check_exposure(ServerConfig(host=host, insecure=True), host, 50051)
    check_exposure(ServerConfig(host=host, tls_cert=Path("a"), tls_key=Path("b")), host, 50051)


def test_metrics_beyond_this_machine_are_encrypted_too(
    tmp_path: Path, authority: Authority
) -> None:
    settings = {"metrics_host": "0.0.0.0", "metrics_port": "0"}
    with (
        pytest.raises(AssertionError, match="said ''"),
        listening(ECHO_SERVER, tmp_path / "refused", settings),
    ):
        pass
    assert "cannot listen on 0.0.0.0:0" in (tmp_path / "refused").read_text()
    chain, key = authority.issue("server")
    settings |= {"tls_cert": str(chain), "tls_key": str(key)}
    with listening(ECHO_SERVER, tmp_path / "log", settings) as server:
        (port,) = re.findall(r"https://0\.0\.0\.0:(\d+)/metrics", server.log.read_text())
        trusting = ssl.create_default_context(cafile=str(authority.root))
        with urlopen(f"https://localhost:{port}/metrics", context=trusting, timeout=20) as page:
            assert b"guided_requests_in_flight" in page.read()
        with pytest.raises(OSError, match=r".+"):
            urlopen(f"http://localhost:{port}/metrics", timeout=20)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_is_no_public_place(host: str) -> None:
    assert is_loopback(host)
    check_exposure(ServerConfig(host=host), host, 50051)
    assert tells_methods(ServerConfig(host=host))
    assert not tells_methods(ServerConfig(host=host, reflection=False))
    assert tells_methods(ServerConfig(host="0.0.0.0", reflection=True))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"tls_cert": "a"}, "tls_cert and tls_key only go together"),
        ({"tls_client_ca": "a"}, "tls_client_ca needs tls_cert and tls_key"),
        ({"tls_cert": "a", "tls_key": "b", "insecure": True}, "contradict each other"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        ServerConfig.model_validate(settings)


def test_a_public_address_says_nothing_of_methods_and_metrics(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="said ''"),
        listening(ECHO_SERVER, tmp_path / "refused", {"host": "0.0.0.0"}),
    ):
        pass
    assert "--insecure where something else protects it" in (tmp_path / "refused").read_text()
    settings = {"host": "0.0.0.0", "insecure": "1", "metrics_port": "0"}
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:
        assert ask(server, "hello") == "hello"
        with grpc.insecure_channel(server.address) as channel:
            stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
            asked = reflection_pb2.ServerReflectionRequest(list_services="")
            with pytest.raises(grpc.RpcError) as caught:
                next(stub.ServerReflectionInfo(iter([asked])))
            failure: Any = caught.value
            assert failure.code() is grpc.StatusCode.UNIMPLEMENTED
        log = server.log.read_text()
        assert "http://127.0.0.1:" in log
        assert "open to everybody who reaches it" in log


# Tokens


def test_the_command_that_checks_shows_its_token(guarded: ServerProcess, tmp_path: Path) -> None:
    schema, shown = tmp_path / "schema.json", tmp_path / "token"
    schema.write_text('{"type": "integer"}')
    shown.write_text(ANN)
    command = ("check", str(schema), "--address", guarded.address)
    refused = guided_command(*command)
    assert refused.returncode == 1
    assert "the call shows no token that this server knows" in refused.stderr
    done = guided_command(*command, "--token-file", str(shown), "--insecure")
    assert done.returncode == 0, done.stderr
    assert "type" in done.stdout


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that accepts the tokens of ann and bob."""
    folder = tmp_path_factory.mktemp("guarded")
    file = tokens_file(folder, bob="requests_in_flight = 2\nrequests_per_minute = 100")
    with serving(ECHO_SERVER, folder / "log", {"tokens": str(file)}) as server:
        yield server


def test_a_call_shows_a_token_that_is_known(guarded: ServerProcess) -> None:
    assert ask(guarded, "hello", token=ANN) == "hello"
    for token in (None, STRANGER):
        with pytest.raises(UnauthenticatedError) as caught:
            ask(guarded, "hello", token=token)
        assert str(caught.value) == (
            "the call shows no token that this server knows; "
            "pass token=... to the client, or set GUIDED_TOKEN for the commands"
        )
        with Client(guarded.address, token=token) as client:
            for call in (client.model, client.stats, client.grammars.list):
                with pytest.raises(UnauthenticatedError):
                    call()
            assert [type(one) for one in client.batch([raw("x")])] == [UnauthenticatedError]
    with Client(guarded.address, token=ANN) as client:
        assert client.model().name == "echo"
        assert [a.text for a in client.batch([raw("x")]) if not isinstance(a, GuidedError)] == ["x"]
        with client.stream(RawPrompt("abc"), max_tokens=3) as pieces:
            assert "".join(pieces) == "abc"


def test_the_asyncio_client_shows_it_too(guarded: ServerProcess) -> None:
    async def talk() -> None:
        async with AsyncClient(guarded.address, token=ANN) as client:
            assert (await client.generate(RawPrompt("hello"), max_tokens=1)).text == "hello"
            async with client.stream(RawPrompt("abc"), max_tokens=3) as pieces:
                assert "".join([text async for text in pieces]) == "abc"
        async with AsyncClient(guarded.address) as client:
            with pytest.raises(UnauthenticatedError):
                await client.generate(RawPrompt("hello"))

    asyncio.run(talk())


def test_a_stranger_is_turned_away_before_its_message_is_read(guarded: ServerProcess) -> None:
    """The message never comes: the caller has opened the call and sends nothing."""
    with grpc.insecure_channel(guarded.address) as channel:
        never: Any = channel.stream_unary("/guided.v1.GenerationService/Generate")
        call: Any = never.future(iter(lambda: time.sleep(30), None), timeout=20)
        assert call.code() is grpc.StatusCode.UNAUTHENTICATED


def test_health_is_told_to_everybody(guarded: ServerProcess) -> None:
    with grpc.insecure_channel(guarded.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_quota_that_is_used_up_says_when_to_come_again(guarded: ServerProcess) -> None:
    with (
        Client(guarded.address, token=BOB) as client,
        client.stream(RawPrompt("wait")) as one,
        client.stream(RawPrompt("wait")) as two,
        grpc.insecure_channel(guarded.address) as channel,
    ):
        next(one)
        next(two)
        with pytest.raises(grpc.RpcError) as caught:
            GenerationServiceStub(channel).Generate(
                pb.GenerateRequest(text="three", max_tokens=1),
                metadata=(("authorization", bearer_of(BOB)),),
            )
        failure: Any = caught.value
        assert failure.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert failure.details() == (
            "the token of bob has used its requests_in_flight of 2; try again shortly"
        )
        assert dict(failure.trailing_metadata())["grpc-retry-pushback-ms"] == "500"
        assert ask(guarded, "others", token=ANN) == "others"


def test_work_on_constraints_counts_for_the_quotas(tmp_path: Path) -> None:
    settings = {"tokens": str(tokens_file(tmp_path, ann="requests_per_minute = 3"))}
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:
        with Client(server.address, token=BOB) as other:
            # Another client calls first, because loading kernels takes longer than a quota lasts.
            other.grammars.validate("aa", grammar=Regex("a+"))
        with Client(server.address, token=ANN, retries=0) as client:
            client.grammars.check(grammar=Regex("a+"))
            client.grammars.compile(grammar=Regex("a+"))
            client.grammars.validate("aa", grammar=Regex("a+"))
            for call in (
                partial(client.grammars.check, grammar=Regex("a+")),
                partial(client.grammars.compile, grammar=Regex("a+")),
                partial(client.grammars.validate, "aa", grammar=Regex("a+")),
                partial(client.generate, RawPrompt("hello"), max_tokens=1),
            ):
                with pytest.raises(ServiceUnavailableError, match="its requests_per_minute of 3"):
                    call()


def test_the_time_of_work_on_constraints_counts_for_the_quotas(tmp_path: Path) -> None:
    file = tokens_file(tmp_path, bob="compile_seconds_per_minute = 0.002")
    with (
        serving(ECHO_SERVER, tmp_path / "log", {"tokens": str(file)}) as server,
        Client(server.address, token=BOB, retries=0) as client,
    ):
        client.grammars.check(grammar=Regex("(a|b){1,200}c"))
        with pytest.raises(ServiceUnavailableError, match="compile_seconds_per_minute"):
            client.grammars.check(grammar=Regex("a+"))


def test_tokens_and_quotas_change_without_a_restart(tmp_path: Path) -> None:
    file = tokens_file(tmp_path)
    settings = {"tokens": str(file), "retry_after_seconds": "0.05"}
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:
        assert ask(server, "hello", token=ANN) == "hello"
        tokens_file(tmp_path, ann="requests_per_minute = 1")

        def is_used_up() -> bool:
            with grpc.insecure_channel(server.address) as channel:
                try:
                    GenerationServiceStub(channel).Generate(
                        pb.GenerateRequest(text="x", max_tokens=1),
                        metadata=(("authorization", bearer_of(ANN)),),
                    )
                except grpc.RpcError as error:
                    details = str(error)
                    assert "ann has used its requests_per_minute of 1; try again in " in details
                    pause = re.search(r"in ([0-9.]+) s", details)
                    return pause is not None and float(pause[1]) > 10
                return False

        eventually(is_used_up, 10)
        # A caller removed from the list is a stranger from then on.
        file.write_text("")
        eventually(lambda: _is_stranger(server), 10)


def _is_stranger(server: ServerProcess) -> bool:
    try:
        ask(server, "x", token=BOB)
    except UnauthenticatedError:
        return True
    return False


# Priorities


@pytest.mark.parametrize(
    ("top", "asked", "counts"),
    [(-3, -100, -3), (-3, -2, -2), (-3, 7, 7), (5, 0, 5), (-100, -99, -99)],
)
def test_a_priority_counts_as_far_as_its_caller_may_go(top: int, asked: int, counts: int) -> None:
    caller = Caller(QueueClient("x"), top, identity="x")
    assert asyncio.run(priorities(caller, asked, 1)) == [counts]


def test_in_the_engine_the_first_of_another_passes_those_that_only_wait() -> None:
    caller = Caller(QueueClient("x"), -3, identity="x")
    assert asyncio.run(priorities(caller, -100, 20)) == [-3] * 16 + [-2] * 4
    assert asyncio.run(priorities(caller, 100, 20)) == [100] * 20


async def priorities(caller: Caller, asked: int, requests: int) -> list[int]:
    """The priorities that the engine sees for a number of requests at once."""
    door, seen = Door(ServerConfig()), []
    async with AsyncExitStack() as opened:
        for _ in range(requests):
            request = GenerationRequest("x", priority=asked)
            admitted = await opened.enter_async_context(door.admitted(caller, request, 1, 0.0))
            seen.append(admitted.request.priority)
    return seen


def test_the_most_urgent_of_one_caller_do_not_starve_another(tmp_path: Path) -> None:
    """With one place, a caller whose 50 requests have priority -100, and one with priority 100."""
    settings = {"max_requests_in_flight": "1", "max_batch_size": "1"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        grpc.insecure_channel(server.address) as channel,
        Client(server.address) as other,
    ):
        urgent = pb.GenerateRequest(text="urgent", max_tokens=50, priority=-100)
        stub = GenerationServiceStub(channel)
        calls = [stub.Generate.future(urgent) for _ in range(50)]
        eventually(lambda: any(call.done() for call in calls))
        assert other.generate(RawPrompt("hello"), max_tokens=1, priority=100).text == "hello"
        assert sum(call.done() for call in calls) < 25
        for call in calls:
            assert call.result().text == "urgent"


def test_the_log_says_whose_token_a_request_showed(tmp_path: Path) -> None:
    """In the line of a request, of a batch, and of each request in it; not for strangers."""
    settings = {"tokens": str(tokens_file(tmp_path)), "log_format": "json"}
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:
        with Client(server.address, token=ANN) as client:
            client.generate(RawPrompt("x"), max_tokens=1)
        with grpc.insecure_channel(server.address) as channel:
            asked = pb.GenerateBatchRequest(requests=[pb.GenerateRequest(text="y", max_tokens=1)])
            shown = (("authorization", f"Bearer {ANN}"),)
            list(GenerationServiceStub(channel).GenerateBatch(asked, timeout=30, metadata=shown))
        with pytest.raises(UnauthenticatedError):
            ask(server, "z", token=STRANGER)

        def told() -> list[tuple[str, str | None, str]]:
            lines = map(json.loads, server.log.read_text().splitlines())
            return [
                (line["event"], line.get("client"), line["status"])
                for line in lines
                if line["event"] in ("request", "batch")
            ]

        eventually(lambda: len(told()) == 4, 20)
        assert sorted(told(), key=str) == [
            ("batch", "token ann", "OK"),
            ("request", "token ann", "OK"),
            ("request", "token ann", "OK"),
            ("request", None, "UNAUTHENTICATED"),
        ]
