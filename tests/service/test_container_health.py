"""The health check of docs/deploy/Dockerfile, run beside a server as in its container."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from guided.client import Tls
from tests.service.http_server import serving_http
from tests.service.server_process import ECHO_SERVER
from tests.service.test_doors import Authority

DOCKERFILE = Path(__file__).parents[2] / "docs" / "deploy" / "Dockerfile"


def check(environment: dict[str, str]) -> int:
    """Run the check, and return its exit status."""
    text = DOCKERFILE.read_text("utf-8")
    command = re.search(r"^HEALTHCHECK .*\\\n +CMD (\[.*\])$", text, re.MULTILINE)
    assert command is not None
    program, *arguments = json.loads(command[1])
    assert program == "python"
    told = {name: value for name, value in os.environ.items() if not name.startswith("GUIDED_")}
    ran = subprocess.run(
        [sys.executable, *arguments],
        env=told | environment,
        check=False,
        capture_output=True,
        timeout=30,
    )
    return ran.returncode


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_server_that_is_ready_is_healthy(is_encrypted: bool, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    chain, key = authority.issue("server")
    settings = {"tls_cert": str(chain), "tls_key": str(key)} if is_encrypted else {}
    tls = Tls(ca=authority.root) if is_encrypted else False
    with serving_http(ECHO_SERVER, tmp_path / "log", settings, tls=tls) as server:
        environment = {"GUIDED_HTTP_PORT": str(urlsplit(server.url).port)}
        if is_encrypted:
            environment["GUIDED_TLS_CERT"] = str(chain)
        assert check(environment) == 0
    assert check(environment) != 0
