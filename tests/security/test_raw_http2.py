"""Peers that abuse HTTP/2 disturb no other caller, and leave nothing behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from guided.client import Client, RawPrompt
from tests.kit.processes import facts_of
from tests.kit.raw_http2 import ATTACKS
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_supervision import eventually

MOST_MEBIBYTES = 64
"""The bound on the server's growth over all attacks of a test run together."""

_CALLS = 8
"""Number of the neighbour's calls while a peer attacks again and again."""

_PAUSE = 0.25
"""Seconds between two attacks: limiting connections per second is left to a firewall."""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that cuts off callers who read nothing within a second."""
    log: Path = tmp_path_factory.mktemp("attacked") / "log"
    with serving(ECHO_SERVER, log, {"stall_seconds": "1"}) as server:
        yield server


@pytest.mark.parametrize("name", ATTACKS)
def test_a_neighbour_of_a_bad_peer_is_served(attacked: ServerProcess, name: str) -> None:
    with Client(attacked.address) as neighbour:
        assert _is_served(neighbour)
        before = facts_of(attacked.process.pid)
        served = threading.Event()

        def attack() -> None:
            ATTACKS[name](attacked.address)
            while not served.wait(_PAUSE):
                ATTACKS[name](attacked.address)

        attacking = threading.Thread(target=attack)
        attacking.start()
        try:
            for _ in range(_CALLS):
                assert _is_served(neighbour)
                time.sleep(0.05)
        finally:
            served.set()
            attacking.join()
        assert _is_served(neighbour)
        eventually(lambda: facts_of(attacked.process.pid).descriptors <= before.descriptors + 1, 30)
        assert facts_of(attacked.process.pid).mebibytes < before.mebibytes + MOST_MEBIBYTES


def _is_served(client: Client) -> bool:
    """Whether an answer comes at all; raises the error of the call where there is one."""
    return client.generate(RawPrompt("hello"), max_tokens=1, timeout=20).text == "hello"
