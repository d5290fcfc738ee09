"""The command `guided check`, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def _guided(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from guided.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_schema_that_can_be_enforced_is_told_keyword_by_keyword(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    day = {"type": "string", "format": "date"}
    schema = {"type": "object", "properties": {"day": day}, "required": ["day"]}
    file.write_text(json.dumps(schema))
    done = _guided("check", "--schema", str(file))
    assert done.returncode == 0, done.stderr
    assert "/properties/day/format" in done.stdout
    assert "narrowed" in done.stdout
    assert 'shortest answer: {"day":"0001-01-01"}' in done.stdout


def test_a_schema_that_cannot_be_enforced_ends_with_its_pointer(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"properties": {"a": {"not": {}}}}')
    done = _guided("check", "--schema", str(file))
    assert done.returncode == 1
    assert "error: at /properties/a/not: the keyword 'not' cannot be enforced yet" in done.stderr
    assert "Traceback" not in done.stderr


def test_brackets_in_a_schema_are_not_markup(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"properties": {"[red]x": {"pattern": "(?=a)[a-z]+[/x]"}}}')
    done = _guided("check", "--schema", str(file))
    assert done.returncode == 1
    assert "error: at /properties/[red]x/pattern: the pattern '(?=a)[a-z]+[/x]'" in done.stderr


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_bytes(b'{"title": "\xff"}')
    done = _guided("check", "--schema", str(file))
    assert done.returncode == 1
    assert f"error: {file} is not UTF-8: byte 11 is wrong" in done.stderr


def test_the_version_is_told() -> None:
    assert _guided("--version").stdout.strip() == "0.1.0"


def test_a_file_that_is_not_there_is_named() -> None:
    done = _guided("check", "--schema", "/nowhere/schema.json")
    assert done.returncode == 2
    assert "/nowhere/schema.json" in done.stderr


def test_help_names_all_commands() -> None:
    done = _guided("--help")
    assert done.returncode == 0
    for command in ("check", "generate", "serve"):
        assert command in done.stdout
