"""What calls over HTTP leave behind when their callers, the engine or the server end."""

from __future__ import annotations

import asyncio
import json
import socket
from functools import partial
from pathlib import Path

import httpx2
import pytest

from guided.client import Client
from tests.service.http_server import (
    HttpServer,
    completion,
    connected,
    error_of,
    read_to_end,
    serving_http,
)
from tests.service.server_process import ECHO_SERVER
from tests.service.test_http_calls import COMPLETIONS
from tests.service.test_supervision import cancelled_requests, eventually


def test_who_leaves_is_cancelled_in_the_engine(tmp_path: Path) -> None:
    with (
        serving_http(ECHO_SERVER, tmp_path / "log") as server,
        Client(server.process.address) as client,
    ):
        for expected, stream in ((1, False), (2, True)):
            with pytest.raises(httpx2.TimeoutException):
                httpx2.post(
                    f"{server.url}{COMPLETIONS}",
                    json=completion("wait", 10**6, stream=stream),
                    timeout=2,  # the engine has it by then
                )
            eventually(partial(_has_cancelled, client, expected))
        eventually(lambda: server.process.log.read_text().count("status=CANCELLED") == 2)


def _has_cancelled(client: Client, requests: int) -> bool:
    return cancelled_requests(client) == requests


def test_who_ends_its_side_of_the_connection_has_left(tmp_path: Path) -> None:
    """Until something is written, it looks the same as a closed connection."""
    call = json.dumps(completion("wait", 10**6)).encode()
    header = f"POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(call)}\r\n"
    with (
        serving_http(ECHO_SERVER, tmp_path / "log") as server,
        Client(server.process.address) as client,
        connected(server) as opened,
    ):
        opened.sendall(header.encode() + b"content-type: application/json\r\n\r\n" + call)
        eventually(lambda: client.stats().running == 1)
        opened.shutdown(socket.SHUT_WR)
        assert read_to_end(opened) == b""
        eventually(partial(_has_cancelled, client, 1))


def test_an_engine_that_ends_takes_its_requests_along_and_they_are_not_sent_again(
    tmp_path: Path,
) -> None:
    with serving_http(ECHO_SERVER, tmp_path / "log") as server:
        lost = server.post(COMPLETIONS, completion("die"))
        assert lost.status_code == 503
        assert "killed by signal 9" in error_of(lost)["message"]
        assert lost.headers["x-should-retry"] == "false"
        assert "retry-after" not in lost.headers

        def is_back() -> bool:
            response = server.chat(max_tokens=1)
            if response.status_code == 503:
                assert float(response.headers["retry-after-ms"]) == 500
                assert httpx2.get(f"{server.url}/health").status_code in (200, 503)
            return response.status_code == 200

        eventually(is_back)


def test_a_drain_finishes_what_runs_and_turns_others_away(tmp_path: Path) -> None:
    settings = {"lame_duck_seconds": "0.5", "drain_seconds": "20"}
    with serving_http(ECHO_SERVER, tmp_path / "log", settings) as server:
        assert asyncio.run(_said_during_a_drain(server)) == "wait no more"
        assert server.process.wait(10) == 0
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{server.url}/health")


async def _said_during_a_drain(server: HttpServer) -> str:
    """The text of a stream that runs while the server stops."""
    async with httpx2.AsyncClient(base_url=server.url, timeout=20) as client:
        health = await client.get("/health")
        assert health.status_code == 200
        body = completion("wait no more", 3000, stream=True)
        async with client.stream("POST", COMPLETIONS, json=body) as stream:
            lines = stream.aiter_lines()
            first = await anext(lines)
            server.process.ask_to_stop()
            async with asyncio.timeout(5):
                while (await client.get("/health")).status_code == 200:
                    await asyncio.sleep(0.02)
            # Until the load balancer has noticed, calls are still accepted.
            taken = await client.post(COMPLETIONS, json=completion("x"))
            assert taken.status_code == 200
            async with asyncio.timeout(5):
                while taken.status_code == 200:
                    taken = await client.post(COMPLETIONS, json=completion("x"))
            assert taken.status_code == 503
            assert error_of(taken)["message"].startswith("the server is stopping")
            said = [first, *[line async for line in lines]]
    assert said[-2] == "data: [DONE]"
    return "".join(
        json.loads(line.removeprefix("data: "))["choices"][0]["text"]
        for line in said
        if line.startswith("data: {")
    )


def test_a_drain_cuts_off_what_takes_longer(tmp_path: Path) -> None:
    settings = {"lame_duck_seconds": "0", "drain_seconds": "0.5"}
    with serving_http(ECHO_SERVER, tmp_path / "log", settings) as server:
        body = completion("wait", 10**6, stream=True)
        with httpx2.stream("POST", f"{server.url}{COMPLETIONS}", json=body, timeout=20) as stream:
            lines = stream.iter_lines()
            next(lines)
            server.process.ask_to_stop()
            last = [line for line in lines if line][-1]
        assert (
            "cut the request off after 0.5 s"
            in json.loads(last.removeprefix("data: "))["error"]["message"]
        )
        assert server.process.wait(10) == 0
