"""Calls over HTTP: who may make them, their bounds and their errors."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import signal
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    add_TraceServiceServicer_to_server,
)
from starlette.types import Receive, Scope, Send

from guided.bearer import bearer_of
from guided.client import AsyncClient, Client, RawPrompt, Request, Tls
from guided.errors import ServiceError, ServiceUnavailableError
from guided_service.config import ServerConfig
from guided_service.http.web_server import WebServer
from tests.service.http_server import HttpServer, chat, completion, error_of, serving_http
from tests.service.server_process import ECHO_SERVER
from tests.service.test_doors import ANN, BOB, STRANGER, Authority, tokens_file
from tests.service.test_metrics import scraped
from tests.service.test_request_log import requests
from tests.service.test_supervision import eventually
from tests.service.test_tracing import Receiver, attributes_of

COMPLETIONS = "/v1/completions"


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server over the echo engine, for tests that leave it as they found it."""
    with serving_http(ECHO_SERVER, tmp_path_factory.mktemp("http") / "log") as server:
        yield server


# Reports


def test_the_model_and_the_health_are_told(echo: HttpServer) -> None:
    listed = httpx2.get(f"{echo.url}/v1/models").json()
    (model,) = listed["data"]
    assert (listed["object"], model["id"], model["object"]) == ("list", "echo", "model")
    assert httpx2.get(f"{echo.url}/v1/models/echo").json() == model
    assert httpx2.get(f"{echo.url}/health").json() == {"status": "SERVING"}
    assert httpx2.head(f"{echo.url}/health").status_code == 200


def test_an_adapter_is_a_model(tmp_path: Path) -> None:
    settings = {"adapters": "sql=folder/sql,support=folder/support"}
    with serving_http(ECHO_SERVER, tmp_path / "log", settings) as server:
        models = httpx2.get(f"{server.url}/v1/models").json()["data"]
        assert [(each["id"], each.get("parent")) for each in models] == [
            ("echo", None),
            ("sql", "echo"),
            ("support", "echo"),
        ]
        assert httpx2.get(f"{server.url}/v1/models/sql").json() == models[1]
        for model, text in (("echo", "by the model"), ("sql", "by sql"), ("support", "by support")):
            body = {"model": model, "prompt": "adapter", "max_tokens": 1}
            answered = httpx2.post(f"{server.url}{COMPLETIONS}", json=body).json()
            assert (answered["model"], answered["choices"][0]["text"]) == (model, text)
        body = {"model": "sq", "prompt": "adapter"}
        refused = httpx2.post(f"{server.url}{COMPLETIONS}", json=body)
        assert refused.status_code == 404
        assert "this server has 'echo', 'sql', 'support'" in refused.text


def test_a_call_has_an_id_and_a_line_in_the_log(echo: HttpServer) -> None:
    answered = echo.chat(max_tokens=1)
    refused = echo.chat(best_off=1)
    for response, told in ((answered, "status=OK"), (refused, "status=INVALID_ARGUMENT")):
        request_id, log = response.headers["x-request-id"], echo.process.log
        eventually(partial(_is_logged, log, request_id))
        line = next(line for line in log.read_text().splitlines() if request_id in line)
        assert "method=chat.completions" in line
        assert told in line
        assert "hello" not in line
    assert answered.json()["id"] == "chatcmpl-" + answered.headers["x-request-id"]


def _is_logged(log: Path, text: str) -> bool:
    return text in log.read_text()


# Errors, as a table

ERRORS: list[tuple[str, str, dict[str, Any], int, str, str | None, str]] = [
    ("POST", "/v1/chat/completions", chat(x=1), 400, "invalid_request", "x", "x is not honoured"),
    (
        "POST",
        "/v1/chat/completions",
        {**chat(), "model": "gpt-5"},
        404,
        "model_not_found",
        "model",
        "there is no model 'gpt-5'; this server has 'echo'",
    ),
    (
        "POST",
        COMPLETIONS,
        completion("refuse", guided_json={}),
        400,
        "invalid_constraint",
        "guided_json",
        "at /type: the type is odd; even it out",
    ),
    (
        "POST",
        COMPLETIONS,
        completion("bug in submit"),
        500,
        "internal",
        None,
        "the service failed; incident ",
    ),
    ("POST", COMPLETIONS, completion(""), 400, "invalid_request", "prompt", "the prompt is empty"),
    ("POST", "/v1/models", {}, 405, "invalid_request", None, "/v1/models takes GET, not POST"),
    ("GET", COMPLETIONS, {}, 405, "invalid_request", None, "/v1/completions takes POST, not GET"),
    ("POST", "/v1/embeddings", {}, 404, "invalid_request", None, "there is no path"),
    (
        "POST",
        "/chat/completions",
        {},
        404,
        "invalid_request",
        None,
        "there is no path '/chat/completions'; the base URL that a client is given ends in /v1",
    ),
    (
        "GET",
        "/models/x",
        {},
        404,
        "invalid_request",
        None,
        "there is no path '/models/x'; the base URL that a client is given ends in /v1",
    ),
    ("POST", "/v1/completions/", {}, 404, "invalid_request", None, "there is no path"),
    ("GET", "/v1/models/x", {}, 404, "model_not_found", "model", "there is no model 'x'"),
]


def test_a_client_of_grpc_at_the_port_of_http_is_told_so(echo: HttpServer) -> None:
    client = Client(echo.url.removeprefix("http://"), timeout=2)
    with (
        client,
        pytest.raises(ServiceUnavailableError, match="that port does not speak gRPC; is it"),
    ):
        client.generate("Hello.")


@pytest.mark.parametrize(("method", "path", "body", "status", "code", "param", "told"), ERRORS)
def test_errors_have_the_form_of_openai(
    echo: HttpServer,
    method: str,
    path: str,
    body: dict[str, Any],
    status: int,
    code: str,
    param: str | None,
    told: str,
) -> None:
    response = httpx2.request(method, f"{echo.url}{path}", json=body)
    error = error_of(response)
    assert (response.status_code, error["code"], error["param"]) == (status, code, param)
    assert error["message"].startswith(told)
    assert error["type"] == ("server_error" if status == 500 else "invalid_request_error")
    assert "secret" not in error["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/models", "GET, HEAD"),
        ("GET", COMPLETIONS, "POST"),
        ("OPTIONS", COMPLETIONS, "POST"),
    ],
)
def test_a_path_tells_its_methods(echo: HttpServer, method: str, path: str, allowed: str) -> None:
    response = httpx2.request(method, f"{echo.url}{path}")
    assert (response.status_code, response.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        ({"content-type": "text/plain"}, b"{}", 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, b"{}", 415),
        ({"content-type": "application/json; charset=utf-8"}, b"{", 400),
        ({}, b"{}", 415),
    ],
)
def test_only_plain_json_is_read(
    echo: HttpServer, headers: dict[str, str], content: bytes, status: int
) -> None:
    url = f"{echo.url}/v1/chat/completions"
    response = httpx2.post(url, headers=headers, content=content)
    assert response.status_code == status
    error_of(response)


def test_an_error_behind_some_text_ends_the_stream(echo: HttpServer) -> None:
    said = echo.post(COMPLETIONS, completion("fail later", 10, stream=True)).text
    *chunks, last = [json.loads(each.removeprefix("data: ")) for each in said.split("\n\n") if each]
    assert "".join(each["choices"][0]["text"] for each in chunks) == "fai"
    assert last["error"]["message"] == "at /rest: the rest is odd"
    assert "[DONE]" not in said


def test_an_error_before_the_text_is_that_of_a_plain_call(echo: HttpServer) -> None:
    plain = echo.post(COMPLETIONS, completion("refuse"))
    streamed = echo.post(COMPLETIONS, completion("refuse", stream=True))
    assert (streamed.status_code, streamed.json()) == (plain.status_code, plain.json())


# Access


def test_tokens_are_those_of_both_faces_and_so_are_their_quotas(tmp_path: Path) -> None:
    file = tokens_file(tmp_path, ann="requests_per_minute = 3", bob="weight = 2")
    with serving_http(ECHO_SERVER, tmp_path / "log", {"tokens": str(file)}) as server:

        def call(*tokens: str) -> httpx2.Response:
            headers = [("authorization", bearer_of(token)) for token in tokens]
            return httpx2.post(
                f"{server.url}/v1/chat/completions", json=chat(max_tokens=1), headers=headers
            )

        for shown in ((), (STRANGER,), (ANN, BOB)):
            refused = call(*shown)
            error = error_of(refused)
            assert (refused.status_code, error["code"]) == (401, "invalid_api_key")
            assert refused.headers["www-authenticate"] == "Bearer"
        assert httpx2.get(f"{server.url}/v1/models").status_code == 401
        assert httpx2.get(f"{server.url}/health").status_code == 200

        assert call(ANN).status_code == 200
        with Client(server.process.address, token=ANN) as client:
            client.generate(RawPrompt("x"), max_tokens=1)
        assert call(ANN).status_code == 200
        exceeded = call(ANN)
        error = error_of(exceeded)
        assert (exceeded.status_code, error["type"], error["code"]) == (
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
        )
        told = re.match(
            r"the token of ann has used its requests_per_minute of 3; try again in ([\d.]+) s",
            error["message"],
        )
        assert told is not None
        seconds = float(told[1])
        assert float(exceeded.headers["retry-after"]) >= seconds - 0.1
        assert abs(float(exceeded.headers["retry-after-ms"]) / 1000 - seconds) < 0.2
        assert call(BOB).status_code == 200
        eventually(lambda: server.process.log.read_text().count("client='token ann'") >= 4)


def test_the_engine_is_told_whose_request_it_is(tmp_path: Path) -> None:
    """Through either interface and any call."""
    settings = {"tokens": str(tokens_file(tmp_path))}
    told = "asked by token ann"
    with (
        serving_http(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.process.address, token=ANN) as client,
    ):
        asked = RawPrompt("client")
        assert client.generate(asked, max_tokens=1).text == told
        with client.stream(asked, max_tokens=1) as stream:
            assert "".join(stream) == told
        (answer,) = client.batch([Request(asked, max_tokens=1)])
        assert getattr(answer, "text", answer) == told
        for is_streamed in (False, True):
            said = server.post(
                "/v1/completions",
                {"model": "echo", "prompt": "client", "max_tokens": 1, "stream": is_streamed},
                headers={"authorization": bearer_of(ANN)},
            )
            assert told in said.text


def test_traffic_is_encrypted_and_a_renewed_certificate_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "one")
    chain, key = authority.issue("server", tmp_path)
    settings = {"tls_cert": str(chain), "tls_key": str(key)}
    trusted = Tls(ca=authority.root)
    with serving_http(ECHO_SERVER, tmp_path / "log", settings, tls=trusted) as server:
        assert server.url.startswith("https://127.0.0.1:")

        def status(trusting: Authority) -> int:
            context = ssl.create_default_context(cafile=trusting.root)
            return httpx2.get(f"{server.url}/health", verify=context).status_code

        assert status(authority) == 200
        with pytest.raises(httpx2.HTTPError):
            httpx2.get(f"{server.url}/health")
        other = Authority(tmp_path / "other")
        other.issue("server", tmp_path)
        with pytest.raises(httpx2.HTTPError):
            status(authority)
        assert status(other) == 200
        # A key of another certificate, as while the two files are being written.
        authority.issue("stray", tmp_path)[1].rename(key)
        assert status(other) == 200
        assert "certificate not read again" in server.process.log.read_text()


def test_callers_show_certificates_where_they_are_asked_for(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "one")
    chain, key = authority.issue("server")
    cert, cert_key = authority.issue("client")
    settings = {"tls_cert": str(chain), "tls_key": str(key), "tls_client_ca": str(authority.root)}
    tls = Tls(ca=authority.root, cert=cert, key=cert_key)
    with serving_http(ECHO_SERVER, tmp_path / "log", settings, tls=tls) as server:
        context = ssl.create_default_context(cafile=authority.root)
        with pytest.raises(httpx2.HTTPError):
            httpx2.get(f"{server.url}/health", verify=context)
        context.load_cert_chain(cert, cert_key)
        assert httpx2.get(f"{server.url}/health", verify=context).status_code == 200


def test_it_is_not_opened_to_others_without_encryption() -> None:
    async def app(*_: object) -> None:
        raise AssertionError("nobody calls")

    config = ServerConfig(http_host="0.0.0.0", http_port=0)
    with pytest.raises(ServiceError, match="others on the network could read"):
        WebServer(app, config)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServiceError, match=f"cannot listen for HTTP on 127.0.0.1:{port}: "):
            WebServer(app, ServerConfig(http_port=port))


def test_a_server_that_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(*_: object) -> None:
        raise AssertionError("nobody calls")

    async def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "no descriptor left")

    async def start() -> None:
        server = WebServer(app, ServerConfig(http_port=0))
        monkeypatch.setattr(asyncio.get_running_loop(), "create_server", refuse)
        try:
            await server.start()
        finally:
            await server.stop(0)

    with pytest.raises(OSError, match="no descriptor left"):
        asyncio.run(start())


def test_no_part_of_an_answer_waits_until_another_is_confirmed() -> None:
    """By Nagle's rule the text after a header would wait, for up to 40 ms."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        raise AssertionError("nobody calls")

    async def is_sent_at_once() -> bool:
        server = WebServer(app, ServerConfig(http_port=0))
        await server.start()
        with socket.create_connection(("127.0.0.1", server.port)):
            connections = server._server.server_state.connections
            async with asyncio.timeout(10):
                while not connections:
                    await asyncio.sleep(0)
            (connection,) = connections
            accepted = connection.transport.get_extra_info("socket")
            option = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await server.stop(0)
        return bool(option)

    assert asyncio.run(is_sent_at_once())


# Many at once


def test_many_streams_lose_nothing_and_are_fair_beside_grpc(tmp_path: Path) -> None:
    settings = {
        "tokens": str(tokens_file(tmp_path)),
        "log_format": "json",
        "metrics_port": "0",
        "silence_seconds": "60",  # its engine is stopped for a while
    }
    with serving_http(ECHO_SERVER, tmp_path / "log", settings) as server:
        asyncio.run(_crowd(server))
        order = [line["method"] for line in requests(server.process, 80)]
    # Half of the places are kept free, so the client with few calls does not wait for the one with
    # many: 32 calls of the latter had a place with them, and 32 waited for the next.
    assert order[:48].count("Generate") == 16


async def _crowd(server: HttpServer) -> None:
    """64 streams of one client and then 16 calls of another, all waiting before any continues."""

    async def stream(client: httpx2.AsyncClient, number: int) -> None:
        text = f"number {number} of many"
        body = completion(text, 50, stream=True, stream_options={"include_usage": True})
        async with client.stream("POST", COMPLETIONS, json=body) as response:
            lines = [line async for line in response.aiter_lines() if line]
        assert lines[-1] == "data: [DONE]"
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
        assert "".join(one["text"] for each in chunks for one in each["choices"]) == text
        assert chunks[-1]["choices"] == []
        assert chunks[-1]["usage"]["completion_tokens"] == 7

    async def call(client: AsyncClient, number: int) -> None:
        answer = await client.generate(RawPrompt(f"call {number}"), max_tokens=50)
        assert answer.text == f"call {number}"

    async def all_are_there(in_flight: int, queued: int) -> None:
        names = ("guided_requests_in_flight",), ("guided_requests_queued",)
        while tuple(scraped(server.process)[name] for name in names) != (in_flight, queued):
            await asyncio.sleep(0.05)

    limits = httpx2.Limits(max_connections=64)
    engine = server.process.engine_process_id()
    async with (
        httpx2.AsyncClient(
            base_url=server.url,
            timeout=60,
            limits=limits,
            headers={"authorization": bearer_of(ANN)},
        ) as web,
        AsyncClient(server.process.address, token=BOB) as ours,
        asyncio.TaskGroup() as all_at_once,
    ):
        os.kill(engine, signal.SIGSTOP)
        for number in range(64):
            all_at_once.create_task(stream(web, number))
        async with asyncio.timeout(30):
            await all_are_there(32, 32)
        for number in range(16):
            all_at_once.create_task(call(ours, number))
        async with asyncio.timeout(30):
            await all_are_there(48, 32)
        os.kill(engine, signal.SIGCONT)


# Calls in traces


def test_a_call_is_part_of_the_trace_of_its_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, collector = Receiver(), grpc.server(ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(receiver, collector)  # type: ignore[no-untyped-call]
    port = collector.add_insecure_port("127.0.0.1:0")
    collector.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    trace_id, span_id = "ab" * 16, "cd" * 8
    shown = {"traceparent": f"00-{trace_id}-{span_id}-01"}
    with serving_http(ECHO_SERVER, tmp_path / "log") as server:
        server.post("/v1/chat/completions", chat(max_tokens=1), headers=shown)
        server.post(COMPLETIONS, completion("refuse"), headers=shown)
        server.process.ask_to_stop()
        assert server.process.wait(30) == 0
    collector.stop(None)
    calls = {
        span.name: attributes_of(span)
        for span in receiver.spans
        if span.parent_span_id.hex() == span_id and span.trace_id.hex() == trace_id
    }
    assert calls.keys() == {"chat echo", "text_completion echo"}
    answered, refused = calls["chat echo"], calls["text_completion echo"]
    assert answered["http.route"] == "/v1/chat/completions"
    assert answered["gen_ai.usage.output_tokens"] == 7
    assert refused["error.type"] == "INVALID_CONSTRAINT"
    assert not any(name.startswith("rpc.") for told in calls.values() for name in told)
