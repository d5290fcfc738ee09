"""Settings come from arguments and the environment, and contradictions are refused."""

from __future__ import annotations

import re

import msgspec
import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from guided_service.cli import serve
from guided_service.config import ServerConfig
from guided_service.engine_supervisor import choice_of
from guided_service.messages import EngineSettings, ModelChoice, read_settings

app = typer.Typer()
app.command()(serve)


def test_a_setting_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIDED_PORT", "7")
    assert ServerConfig().port == 7
    assert ServerConfig(port=8).port == 8


def test_the_device_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choice_of(ServerConfig()).device == ModelChoice().device == "auto"
    monkeypatch.setenv("GUIDED_DEVICE", "cuda:1")
    assert choice_of(ServerConfig()).device == "cuda:1"
    assert choice_of(ServerConfig(device="cpu")).device == "cpu"


def test_every_setting_is_documented() -> None:
    undocumented = [n for n, field in ServerConfig.model_fields.items() if not field.description]
    assert set(undocumented) == {"model_config"} & set(undocumented)
    assert len(ServerConfig.model_fields) > 10


def test_a_batch_that_could_never_run_is_refused() -> None:
    with pytest.raises(ValidationError, match="max_batch_size 65 is above max_requests_in_flight"):
        ServerConfig(max_batch_size=65)


@pytest.mark.parametrize(
    ("given", "nbytes"), [("2GiB", 2**31), ("500MB", 500_000_000), ("1024", 1024)]
)
def test_memory_is_given_with_a_unit(given: str, nbytes: int) -> None:
    assert ServerConfig.model_validate({"kv_memory": given}).kv_memory == nbytes


def test_what_the_engine_is_told_of_settings() -> None:
    config = ServerConfig.model_validate(
        {
            "model": "x.gguf",
            "kv_memory": "1GiB",
            "kv_dtype": "int8",
            "threads": 2,
            "device": "cuda:1",
        }
    )
    settings = EngineSettings(choice_of(config), "ipc:///x", 7)
    told = read_settings(msgspec.json.encode(settings).decode())
    assert told == settings
    assert told.choice == ModelChoice("x.gguf", None, 2, None, 2**30, "int8", True, None, "cuda:1")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--port", "70000"], "port: Input should be less than or equal to 65535"),
        (["--kv-memory", "2 bananas"], "kv_memory: could not interpret byte unit: bananas"),
        (["--kv-memory", "0"], "kv_memory: Input should be greater than 0"),
        (
            ["--kv-memory", "1GiB", "--cache-tokens", "5"],
            "settings: Value error, cache_tokens and kv_memory both say how large the cache is",
        ),
        (["--threads", "0"], "threads: Input should be greater than or equal to 1"),
    ],
)
def test_a_wrong_option_is_named(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert complaint in re.sub(r"[│\s]+", " ", result.output)
