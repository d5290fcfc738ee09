"""The command `guided generate` against a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from guided.bearer import new_token, token_hash
from tests.service.guided_command import guided_command
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.unit.cli.in_process import call_guided


def _generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return guided_command("generate", *arguments)


def test_the_answer_goes_to_standard_output_and_its_cost_to_standard_error(
    server: ServerProcess, tmp_path: Path
) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "array", "items": {"enum": ["red", "blue"]}, "minItems": 2,'
                      ' "maxItems": 2}')  # fmt: skip
    done = _generate(
        *("--prompt", "Two colours?", "--schema", str(schema), "--address", server.address)
    )
    assert done.returncode == 0, done.stderr
    colours = json.loads(done.stdout)
    assert len(colours) == 2
    assert set(colours) <= {"red", "blue"}
    assert "complete: " in done.stderr
    assert "model calls, coupled verification" in done.stderr


def test_without_a_schema_the_answer_is_text(server: ServerProcess) -> None:
    done = _generate("--prompt", "Hi", "--max-tokens", "4", "--address", server.address)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_schema_that_is_refused_ends_with_its_error(
    server: ServerProcess, tmp_path: Path
) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"items": {"type": "strin"}}')
    done = _generate("--prompt", "Hi", "--schema", str(schema), "--address", server.address)
    assert done.returncode == 1
    assert "error: at /items/type: " in done.stderr


MODULE = """
from typing import Literal

from pydantic import BaseModel, field_validator

class Flag(BaseModel):
    colours: tuple[Literal["red", "blue"], Literal["red", "blue"]]

class Striped(Flag):
    @field_validator("colours")
    @classmethod
    def are_many(cls, colours):
        raise ValueError("two colours are too few")

SCHEMA = {"enum": ["green"]}
"""


def test_a_python_type_is_named_by_its_module(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "flags.py").write_text(MODULE)
    asked = ("generate", "--prompt", "A flag?", "--address", server.address)
    for stream in ((), ("--stream",)):
        done = call_guided(*asked, *stream, "--schema", "flags:Flag", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert set(json.loads(done.stdout)["colours"]) <= {"red", "blue"}
    done = call_guided(*asked, "--schema", "flags:SCHEMA", folder=tmp_path)
    assert done.stdout == '"green"\n', done.stderr
    refused = call_guided(*asked, "--schema", "flags:Striped", folder=tmp_path)
    assert refused.returncode == 1
    assert "two colours are too few" in refused.stderr
    missing = call_guided(*asked, "--schema", "flags.json", folder=tmp_path)
    assert missing.returncode == 2
    assert "'flags.json' is neither a file that exists nor module:Name" in missing.stderr


def test_options_and_documents_reach_the_compiler(server: ServerProcess, tmp_path: Path) -> None:
    schema, other = tmp_path / "schema.json", tmp_path / "other.json"
    schema.write_text('{"$ref": "urn:example:other"}')
    # No date is so short: satisfiable only while the format is not enforced.
    other.write_text('{"type": "string", "format": "date", "maxLength": 3}')
    asked = ("--prompt", "Hi", "--schema", str(schema), "--address", server.address)
    document = ("--document", f"urn:example:other={other}")
    done = _generate(*asked, *document, "--format", "annotate")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) <= 3
    done = _generate(*asked, *document)
    assert done.returncode == 1
    assert "no document satisfies the schema" in done.stderr


def test_a_server_that_is_not_there_is_named_with_the_way_out() -> None:
    # As a user runs it: an error ends the process.
    command = (sys.executable, "-c", "from guided.cli import main; main()", "generate")
    done = subprocess.run(
        (*command, "--prompt", "Hi", "--address", "127.0.0.1:1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "error:" in done.stderr
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_sampling_flags_reach_the_engine_and_log_probabilities_are_printed(
    server: ServerProcess,
) -> None:
    asked = ("--prompt", "Hi", "--max-tokens", "4", "--address", server.address)
    done = _generate(
        *asked, "--logit-bias", "100=100", "--stop-token", "100", "--top-logprobs", "1"
    )
    assert done.returncode == 0, done.stderr
    assert "stop_sequence: 1 tokens" in done.stderr
    assert "masked" in done.stderr
    refused = _generate(*asked, "--min-p", "2")
    assert refused.returncode == 1
    assert "error: min_p 2.0 is not above 0 and at most 1" in refused.stderr


def test_a_streamed_answer_is_printed_as_the_whole_one(server: ServerProcess) -> None:
    asked = ("--prompt", "Hi", "--max-tokens", "12", "--address", server.address)
    whole, streamed = _generate(*asked), _generate(*asked, "--stream")
    assert streamed.returncode == 0, streamed.stderr
    assert streamed.stdout == whole.stdout
    assert "model calls" in streamed.stderr


def test_several_answers_are_printed_at_the_end_of_a_stream(server: ServerProcess) -> None:
    asked = ("--prompt", "Hi", "--max-tokens", "8", "--address", server.address)
    for several in (("-n", "2", "--temperature", "1", "--seed", "3"), ("--beams", "2")):
        whole, streamed = _generate(*asked, *several), _generate(*asked, *several, "--stream")
        assert whole.stdout.strip()
        assert streamed.stdout == whole.stdout


def test_thoughts_go_to_standard_error(server: ServerProcess) -> None:
    asked = ("--prompt", "Hi", "--choice", "yes", "--choice", "no", "--address", server.address)
    thinks = ("--reasoning", "6", "--thoughts-begin", "Hm: ", "--thoughts-end", " So:")
    whole, streamed = _generate(*asked, *thinks), _generate(*asked, *thinks, "--stream")
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout in ("yes\n", "no\n")
    thought, _, cost = whole.stderr.rstrip().rpartition("\n")
    assert thought.strip()
    assert "of thoughts, " in cost
    assert streamed.stdout == whole.stdout
    assert streamed.stderr.startswith(f"{thought}\n")
    plain = _generate(*asked)
    assert "of thoughts" not in plain.stderr
    refused = _generate(*asked, "--thoughts-end", "So:")
    assert refused.returncode == 2
    assert "need --reasoning" in refused.stderr


def test_several_answers_are_lines_and_their_scores_go_to_standard_error(
    server: ServerProcess, tmp_path: Path
) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"enum": ["red", "blue", "green"]}')
    asked = ("--prompt", "A colour?", "--schema", str(schema), "--address", server.address)
    done = _generate(*asked, "-n", "2", "--beams", "3", "--length-penalty", "0")
    assert done.returncode == 0, done.stderr
    assert len({json.loads(line) for line in done.stdout.splitlines()}) == 2
    assert done.stderr.count("score -") == 2
    refused = _generate(*asked, "-n", "2")
    assert refused.returncode == 1
    assert "error: 2 answers of temperature 0 are all the same" in refused.stderr


def test_templates_tools_and_grammars_reach_the_server(
    echo_server: ServerProcess, tmp_path: Path
) -> None:
    files = {"t.txt": "I am {name}.", "tools.json": '[{"name": "now"}]', "g.lark": 'start: "a"'}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    template = ("--template", str(tmp_path / "t.txt"), "--hole", "name=/[a-z]+/")
    asked = ("--prompt", "hello", "--max-tokens", "5", "--address", echo_server.address)
    for flags in (
        template,
        ("--tools", str(tmp_path / "tools.json"), "--tool-choice", "required", "--single-call"),
        ("--grammar", str(tmp_path / "g.lark")),
    ):
        done = _generate(*asked, *flags)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "hello\n"
    refused = _generate(*asked, *template, "--regex", "a")
    assert refused.returncode == 2
    assert "exclude each other" in refused.stderr


def test_a_token_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, secret, table = new_token(), tmp_path / "token.txt", tmp_path / "tokens.toml"
    secret.write_text(f"{token}\n")
    table.write_text(f'[ann]\nsha256 = "{token_hash(token)}"\n')
    with serving(ECHO_SERVER, tmp_path / "log", {"tokens": str(table)}) as server:
        asked = ("--prompt", "hello", "--max-tokens", "5", "--address", server.address)
        refused = _generate(*asked)
        assert refused.returncode == 1
        assert "the call shows no token that this server knows" in refused.stderr
        assert _generate(*asked, "--token-file", str(secret)).stdout == "hello\n"
        monkeypatch.setenv("GUIDED_TOKEN", token)
        assert _generate(*asked).stdout == "hello\n"
        # Without a certificate, a connection with TLS fails.
        encrypted = _generate(*asked, "--tls")
        assert encrypted.returncode == 1
        assert token not in encrypted.stderr
