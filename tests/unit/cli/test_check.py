"""The command `guided check`, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from guided.native import is_native


def _guided(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from guided.cli import main; main()", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "COLUMNS": "200"},
    )


def test_a_schema_that_can_be_enforced_is_told_keyword_by_keyword(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    day = {"type": "string", "format": "date"}
    schema = {"type": "object", "properties": {"day": day}, "required": ["day"]}
    file.write_text(json.dumps(schema))
    done = _guided("check", str(file))
    assert done.returncode == 0, done.stderr
    assert "/properties/day/format" in done.stdout
    assert "enforced" in done.stdout
    assert 'shortest answer: {"day":"' in done.stdout
    assert "code that may still refuse" not in done.stdout


def test_a_schema_that_cannot_be_enforced_ends_with_its_pointer(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"properties": {"a": {"type": "strin"}}}')
    done = _guided("check", str(file))
    assert done.returncode == 1
    assert "error: at /properties/a/type: " in done.stderr
    assert "Traceback" not in done.stderr


def test_brackets_in_a_schema_are_not_markup(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(r'{"properties": {"[red]x": {"pattern": "(a)\\1[/x]"}}}')
    done = _guided("check", str(file))
    assert done.returncode == 1
    assert "error: at /properties/[red]x/pattern: " in done.stderr


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_bytes(b'{"title": "\xff"}')
    done = _guided("check", str(file))
    assert done.returncode == 1
    assert f"error: {file} is not UTF-8: byte 11 is wrong" in done.stderr


MODULE = """
from pydantic import BaseModel, field_validator

from guided.native import is_native

class Outer:
    class Person(BaseModel):
        name: str
        age: int

        @field_validator("age")
        @classmethod
        def is_odd(cls, age):
            return age

class Plain:
    pass
"""


def test_a_type_is_checked_and_its_own_code_is_told(tmp_path: Path) -> None:
    (tmp_path / "people.py").write_text(MODULE)
    done = _guided("check", "people:Outer.Person", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "/properties/name/type" in done.stdout
    told = done.stdout[done.stdout.index("code that may still refuse an answer") :]
    row = next(line for line in told.splitlines() if "is_odd" in line)
    assert [cell.strip() for cell in row.strip("│ ").split("│")] == [
        "Outer.Person.is_odd",
        "age",
        "after",
    ]


@pytest.mark.parametrize(
    ("subject", "status", "complaint"),
    [
        ("/nowhere/schema.json", 2, "'/nowhere/schema.json' is neither a file that exists nor"),
        ("people:Nobody", 2, "'people:Nobody' cannot be loaded: "),
        ("strangers:Person", 2, "'strangers:Person' cannot be loaded: "),
        ("people:Plain", 1, "has no JSON Schema: "),
    ],
)
def test_a_subject_that_is_none_is_named(
    tmp_path: Path, subject: str, status: int, complaint: str
) -> None:
    (tmp_path / "people.py").write_text(MODULE)
    done = _guided("check", subject, folder=tmp_path)
    assert done.returncode == status
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_options_change_the_verdicts(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "string", "format": "date"}')
    done = _guided("check", str(file), "--format", "annotate", "--whitespace", "free")
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if "/format" in line)
    assert "annotation" in row


def test_documents_are_referred_to_by_their_uri(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"$ref": "urn:example:a=b"}')
    (tmp_path / "a.json").write_text('{"const": 7}')
    document = ("--document", "urn:example:a=b=a.json")
    done = _guided("check", "schema.json", *document, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "shortest answer: 7" in done.stdout
    done = _guided("check", "schema.json", folder=tmp_path)
    assert done.returncode == 1
    assert "urn:example:a=b" in done.stderr


@pytest.mark.parametrize(
    ("flags", "status", "complaint"),
    [
        (["--whitespace", "wide"], 1, "error: whitespace 'wide' is not an integer"),
        (["--whitespace", "-1"], 1, "error: whitespace -1 is below 0"),
        (["--max-string-length", "0"], 1, "error: max_string_length 0 is below 1"),
        (["--key-order", "abc"], 2, "'abc' is not one of"),
        (["--document", "urn:a"], 2, "'urn:a' is not URI=FILE with a file that exists"),
    ],
)
def test_a_wrong_flag_is_named(
    tmp_path: Path, flags: list[str], status: int, complaint: str
) -> None:
    (tmp_path / "schema.json").write_text("{}")
    done = _guided("check", "schema.json", *flags, folder=tmp_path)
    assert done.returncode == status
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_told() -> None:
    form = "native" if is_native() else "interpreted"
    assert _guided("--version").stdout.strip() == f"0.1.0 ({form})"


def test_help_names_all_commands() -> None:
    done = _guided("--help")
    assert done.returncode == 0
    for command in ("check", "generate", "serve"):
        assert command in done.stdout
