"""Traces are on where the standard variables say so, and cost nothing where they are off."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from guided.telemetry import is_configured


@pytest.mark.parametrize(
    ("environment", "is_on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4317"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, False),
        ({"OTEL_SERVICE_NAME": "mine"}, False),
    ],
)
def test_the_standard_variables_turn_traces_on(environment: dict[str, str], is_on: bool) -> None:
    assert is_configured(environment) is is_on


def run(code: str, **environment: str) -> str:
    unset = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=unset | environment,
    )
    return done.stdout + done.stderr


OPEN = """
import sys
from guided_service.tracing_setup import open_tracer
print(open_tracer(lambda _: None), "opentelemetry" in sys.modules)
"""


def test_a_server_that_is_told_nothing_loads_nothing() -> None:
    assert run("import guided_service.server\n" + OPEN).strip() == "None False"


def test_a_client_of_a_program_without_traces_is_left_alone() -> None:
    code = """
import sys, grpc
from guided.client import Client
with Client("localhost:1") as client:
    channel = client._services.channel
    print(type(channel) is type(grpc.insecure_channel("x")), "opentelemetry" in sys.modules)
"""
    assert run(code).strip() == "True False"


def test_a_server_without_the_package_says_so_and_serves() -> None:
    blocked = 'import sys\nsys.modules["opentelemetry"] = None\n' + OPEN
    said = run(blocked, OTEL_TRACES_EXPORTER="otlp")
    assert "None True" in said
    assert "no traces" in said
    assert "pip install 'guided-decoding[telemetry]'" in said


def test_an_exporter_that_is_not_installed_is_named() -> None:
    said = run(OPEN, OTEL_TRACES_EXPORTER="zipkin")
    assert "the exporter of traces 'zipkin' is not installed" in said


def test_any_exporter_that_is_installed_may_be_named() -> None:
    said = run(OPEN, OTEL_TRACES_EXPORTER="console")
    assert "RequestTracer" in said
    assert "exporter=console" in said
