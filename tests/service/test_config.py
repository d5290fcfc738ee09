"""Settings come from arguments and the environment, and contradictions are refused."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path

import grpc.aio
import msgspec
import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from guided.engine.formats import WEIGHT_DTYPES
from guided.errors import RequestError
from guided_service.cli import serve
from guided_service.config import ServerConfig, read_config
from guided_service.engine_supervisor import choice_of
from guided_service.http.web_server import WebServer
from guided_service.listening import transport_options
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


def test_the_size_of_a_step_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choice_of(ServerConfig()).max_batch is choice_of(ServerConfig()).step_tokens is None
    monkeypatch.setenv("GUIDED_MAX_BATCH", "3")
    assert choice_of(ServerConfig(step_tokens=64)).max_batch == 3
    assert choice_of(ServerConfig(step_tokens=64)).step_tokens == 64
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        ServerConfig(max_batch=0)


def test_drafters_are_named_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choice_of(ServerConfig()).drafters == ModelChoice().drafters is None
    given = ServerConfig.model_validate({"drafters": "suffix, lookup"})
    assert choice_of(given).drafters == ("suffix", "lookup")
    file = tmp_path / "server.toml"
    file.write_text('drafters = ["lookup", "lookahead"]')
    assert read_config({}, file).drafters == ("lookup", "lookahead")
    monkeypatch.setenv("GUIDED_DRAFTERS", "lookup")
    assert read_config({}, file).drafters == ("lookup",)
    settings = EngineSettings(choice_of(given), "ipc:///x", 7)
    assert read_settings(msgspec.json.encode(settings).decode()) == settings


def test_draft_models_are_several(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the environment separated by commas, in a file a list."""
    assert choice_of(ServerConfig()).draft_models == ModelChoice().draft_models == ()
    monkeypatch.setenv("GUIDED_DRAFT_MODELS", "a,b")
    monkeypatch.setenv("GUIDED_DRAFT_WIDTHS", "3,2,1")
    assert choice_of(ServerConfig()).draft_models == ("a", "b")
    assert choice_of(ServerConfig()).draft_widths == (3, 2, 1)
    file = tmp_path / "server.toml"
    file.write_text('draft_models = ["c"]\n')
    monkeypatch.delenv("GUIDED_DRAFT_MODELS")
    assert read_config({}, file).draft_models == ("c",)


def test_draft_models_are_options_that_may_be_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[ServerConfig] = []
    monkeypatch.setattr("guided_service.cli.serve_config", lambda config: served.append(config))
    given = ["--draft-model", "a", "--draft-model", "b", "--draft-widths", "2,1"]
    assert CliRunner().invoke(app, given).exit_code == 0
    assert (served[0].draft_models, served[0].draft_widths) == (("a", "b"), (2, 1))
    wrong = CliRunner().invoke(app, ["--draft-widths", "many"])
    assert "--draft-widths" in wrong.output


def test_origins_of_web_pages_may_be_given_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert ServerConfig().http_cors_origins == ()
    monkeypatch.setenv("GUIDED_HTTP_CORS_ORIGINS", "https://a.example, http://localhost:3000")
    assert ServerConfig().http_cors_origins == ("https://a.example", "http://localhost:3000")
    file = tmp_path / "server.toml"
    file.write_text('http_cors_origins = ["*"]\n')
    monkeypatch.delenv("GUIDED_HTTP_CORS_ORIGINS")
    assert read_config({}, file).http_cors_origins == ("*",)
    served: list[ServerConfig] = []
    monkeypatch.setattr("guided_service.cli.serve_config", lambda config: served.append(config))
    given = ["--http-cors-origin", "https://a.example", "--http-cors-origin", "app://b"]
    assert CliRunner().invoke(app, given).exit_code == 0
    assert served[0].http_cors_origins == ("https://a.example", "app://b")


@pytest.mark.parametrize(
    "wrong",
    [
        *("a.example", "https://a.example/", "https://*.example", "null"),
        *("https://A.example", "https://bücher.example", "https://user:pass@a.example"),
    ],
)
def test_what_is_no_origin_is_refused(wrong: str) -> None:
    message = r"is no origin as browsers send it, such as https://app\.example"
    with pytest.raises(ValidationError, match=message):
        ServerConfig(http_cors_origins=(wrong,))


@pytest.mark.parametrize(
    ("wrong", "sent"),
    [("https://a.example:443", "https://a.example"), ("http://[::1]:80", r"http://\[::1\]")],
)
def test_a_port_that_browsers_leave_out_is_refused(wrong: str, sent: str) -> None:
    with pytest.raises(ValidationError, match=f"is sent by browsers as {sent}; write that"):
        ServerConfig(http_cors_origins=(wrong,))


ORIGIN = (
    "Value error, 'x' is no origin as browsers send it, such as https://app.example:8443, nor *"
)
NUMBER = "Input should be a valid integer, unable to parse string as an integer"


@pytest.mark.parametrize(
    ("options", "variable", "lines", "told"),
    [
        (
            ["--http-cors-origin", "https://a.example", "--http-cors-origin", "x"],
            ("", ""),
            "",
            f"--http-cors-origin, value 2: {ORIGIN}",
        ),
        (
            [],
            ("GUIDED_HTTP_CORS_ORIGINS", "x,https://a.example"),
            "",
            f"GUIDED_HTTP_CORS_ORIGINS, value 1: {ORIGIN}",
        ),
        (
            [],
            ("", ""),
            'http_cors_origins = ["*", "x"]',
            f"http_cors_origins in {{}}, value 2: {ORIGIN}",
        ),
        (["--draft-widths", "3,x"], ("", ""), "", f"--draft-widths, value 2: {NUMBER}"),
        ([], ("GUIDED_DRAFT_WIDTHS", "3,1,x"), "", f"GUIDED_DRAFT_WIDTHS, value 3: {NUMBER}"),
        (["--adapter", "c"], ("", ""), "", "--adapter: Value error, 'c' is no NAME=FOLDER"),
        (
            [],
            ("", ""),
            "[adapters]\nb = 3",
            "adapters in {}, value 'b': Input should be a valid string",
        ),
        (["--port", "x"], ("", ""), "", f"'--port': {NUMBER}"),
        ([], ("GUIDED_PORT", "x"), "", f"GUIDED_PORT: {NUMBER}"),
    ],
)
def test_a_wrong_value_is_told_by_where_it_was_written(
    options: list[str],
    variable: tuple[str, str],
    lines: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if variable[0]:
        monkeypatch.setenv(*variable)
    file = tmp_path / "s.toml"
    file.write_text(lines)
    output = CliRunner().invoke(app, [*options, "--config", str(file)]).output
    shown = re.sub(r"[\s│]+", "", output)
    assert re.sub(r"\s+", "", told.format(file)) in shown


def test_adapters_have_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As an option once for each, in the environment separated by commas, in a file a table."""
    assert choice_of(ServerConfig()).adapters == ModelChoice().adapters == {}
    file = tmp_path / "server.toml"
    file.write_text('[adapters]\n"a b" = "folder/a"\n')
    assert read_config({}, file).adapters == {"a b": "folder/a"}
    monkeypatch.setenv("GUIDED_ADAPTERS", "b = x=y, a=folder")
    found = choice_of(ServerConfig())
    assert [*found.adapters.items()] == [("b", "x=y"), ("a", "folder")]
    settings = EngineSettings(found, "ipc:///x", 7)
    assert read_settings(msgspec.json.encode(settings).decode()) == settings
    served: list[ServerConfig] = []
    monkeypatch.setattr("guided_service.cli.serve_config", lambda config: served.append(config))
    given = ["--adapter", "c=1", "--adapter", "d=2,3"]
    assert CliRunner().invoke(app, given).exit_code == 0
    assert served[0].adapters == {"c": "1", "d": "2,3"}
    for wrong, told in (("c", "'c' is no NAME=FOLDER"), ("=x", "is no NAME=FOLDER")):
        assert told in CliRunner().invoke(app, ["--adapter", wrong]).output
    twice = CliRunner().invoke(app, ["--adapter", "c=1", "--adapter", "c=2"])
    assert "two adapters have the name 'c'" in twice.output


@pytest.mark.parametrize("much", [30 * 86_400.0, 1e12, float("inf")])
def test_connections_may_last_as_long_as_somebody_likes(much: float) -> None:
    config = ServerConfig(
        connection_age_seconds=much,
        idle_seconds=much,
        stall_seconds=much,
        max_message_bytes=2**40,
        max_streams_per_connection=2**40,
        http_port=0,
    )

    async def use() -> None:
        server = grpc.aio.server(options=transport_options(config))
        assert server.add_insecure_port("127.0.0.1:0")
        await server.start()
        await server.stop(0)
        web = WebServer(_not_found, config)
        await web.start()
        await web.stop(0)

    asyncio.run(use())


async def _not_found(*_: object) -> None:
    raise AssertionError("nobody calls it")


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
        (["--kv-memory", "2 bananas"], "--kv-memory: could not interpret byte unit: bananas"),
        (["--kv-memory", "0"], "--kv-memory: Input should be greater than 0"),
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


def test_every_setting_has_an_option() -> None:
    assert set(inspect.signature(serve).parameters) == {"config", *ServerConfig.model_fields}


def test_options_come_before_the_environment_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.toml"
    file.write_text('port = 1\nmetrics_port = 1\nthreads = 1\nkv_memory = "2GiB"\n')
    monkeypatch.setenv("GUIDED_PORT", "2")
    monkeypatch.setenv("GUIDED_THREADS", "2")
    config = read_config({"threads": 3}, file)
    assert (config.threads, config.port, config.metrics_port) == (3, 2, 1)
    assert config.kv_memory == 2**31
    assert config.max_batch_size == ServerConfig().max_batch_size


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prot = 1", "sets 'prot', which is no setting of a server; there is port"),
        ("kv-memory = 1", "sets 'kv-memory', which is no setting of a server; there is kv_memory"),
        ("[server]", "sets 'server', which is no setting of a server; there is "),
        ("port = ", "cannot be read: Invalid value (at end of document)"),
    ],
)
def test_a_file_that_says_nothing_of_a_server_is_refused_by_name(
    tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "server.toml"
    file.write_text(text)
    with pytest.raises(RequestError, match=re.escape(f"{file} {complaint}")):
        read_config({}, file)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("option", "--port: Input should be less than or equal to 65535"),
        ("environment", "GUIDED_PORT: Input should be less than or equal to 65535"),
        ("file", "port in {file}: Input should be less than or equal to 65535"),
    ],
)
def test_a_wrong_value_is_told_with_where_it_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, complaint: str
) -> None:
    file = tmp_path / "server.toml"
    file.write_text("port = 70000" if said == "file" else "")
    if said == "environment":
        monkeypatch.setenv("GUIDED_PORT", "70000")
    option = ["--port", "70000"] if said == "option" else []
    result = CliRunner().invoke(app, ["--config", str(file), *option])
    assert result.exit_code == 2
    told, expected = (re.sub(r"[│\s]+", "", text) for text in (result.output, complaint))
    assert expected.format(file=file) in told


def test_formats_that_an_engine_knows_are_those_of_the_settings() -> None:
    """A wrong one is refused before seconds are spent on loading torch."""
    for name in WEIGHT_DTYPES:
        assert ServerConfig.model_validate({"dtype": name}).dtype == name
    with pytest.raises(ValidationError, match=", ".join(map(repr, [*WEIGHT_DTYPES][:-1]))):
        ServerConfig.model_validate({"dtype": "fp32"})
