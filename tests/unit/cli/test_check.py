"""The command `guided check`, as a user runs it."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from guided import check
from guided.cli.check import print_report
from guided.runtime.native import is_native
from tests.unit.cli.in_process import call_guided


def _guided(
    *arguments: str, folder: Path | None = None, columns: int = 200
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from guided.cli import main; main()", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "COLUMNS": str(columns)},
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


def test_the_shortest_answer_is_printed_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"const": "a:b:c, :smile: [red]x[/red]"}')
    done = call_guided("check", "schema.json", folder=tmp_path)
    assert done.stdout.endswith('shortest answer: "a:b:c, :smile: [red]x[/red]"\n')


def test_brackets_in_a_schema_are_not_markup(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(r'{"properties": {"[red]x": {"pattern": "(a)\\1[/x]"}}}')
    done = call_guided("check", str(file))
    assert done.returncode == 1
    assert "error: at /properties/[red]x/pattern: " in done.stderr


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_bytes(b'{"title": "\xff"}')
    done = call_guided("check", str(file))
    assert done.returncode == 1
    assert f"error: {file} is not UTF-8: byte 11 is wrong" in done.stderr


_DEEP = "/properties/" + "/properties/".join(f"a_long_name_of_a_member_{n}" for n in range(4))


def _deep_schema() -> dict[str, object]:
    schema: dict[str, object] = {"type": "boolean"}
    for number in reversed(range(4)):
        schema = {"properties": {f"a_long_name_of_a_member_{number}": schema}}
    return schema


def test_pointers_are_whole_however_narrow_the_output_is(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(_deep_schema()))
    done = call_guided("check", str(file), columns=80)
    assert done.returncode == 0, done.stderr
    assert f" {_DEEP}/type " in done.stdout


def test_pointers_are_folded_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with io.StringIO() as output, redirect_stdout(output):
        print_report(check(_deep_schema()))
        lines = re.sub("\x1b\\[[^m]*m", "", output.getvalue()).splitlines()
    assert max(map(len, lines)) <= 60
    cells = [line.split("│")[1].strip() for line in lines if line.count("│") == 4]
    assert f"{_DEEP}/type" in "".join(cells)


def test_a_report_is_printed_as_json(tmp_path: Path) -> None:
    (tmp_path / "people.py").write_text(MODULE)
    done = call_guided("check", "people:Outer.Person", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["enforceable"] is True
    assert {"pointer": "/properties/age/type", "verdict": "narrowed"}.items() <= next(
        word for word in report["keywords"] if word["pointer"] == "/properties/age/type"
    ).items()
    assert json.loads(report["shortest_answer"]).keys() == {"name", "age"}
    assert report["unenforced_validators"] == [
        {"name": "Outer.Person.is_odd", "place": "age", "kind": "after"}
    ]


def test_a_part_that_no_value_fits_is_told(tmp_path: Path) -> None:
    schema = {"properties": {"[b]a[/b]": {"type": "object", "enum": ["x"]}}}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    done = call_guided("check", "schema.json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "part that no value fits" in done.stdout
    assert "│ /properties/[b]a[~1b] " in done.stdout
    done = call_guided("check", "schema.json", "--json", folder=tmp_path)
    assert json.loads(done.stdout)["empty_parts"] == ["/properties/[b]a[~1b]"]


def test_what_is_refused_is_printed_as_json_as_well(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"items": {"type": "strin"}}')
    done = call_guided("check", "schema.json", "--json", folder=tmp_path)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["enforceable"] is False
    assert report["error"]["code"] == "INVALID_CONSTRAINT"
    assert report["error"]["pointer"] == "/items/type"
    assert f"error: {report['error']['message']}" in done.stderr


MODULE = """
from pydantic import BaseModel, field_validator

from guided.runtime.native import is_native

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
    done = call_guided("check", "people:Outer.Person", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "/properties/name/type" in done.stdout
    told = done.stdout[done.stdout.index("code that may still refuse an answer") :]
    row = next(line for line in told.splitlines() if "is_odd" in line)
    assert [cell.strip() for cell in row.strip("│ ").split("│")] == [
        "Outer.Person.is_odd",
        "age",
        "after",
    ]


def test_a_schema_may_come_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=('{"const": 5}',), daemon=True)
    writing.start()
    done = call_guided("check", str(pipe), folder=tmp_path)
    assert (done.returncode, "shortest answer" in done.stdout) == (0, True), done.stdout


@pytest.mark.parametrize(
    ("subject", "status", "complaint"),
    [
        (".", 2, "'.' is a directory"),
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
    done = call_guided("check", subject, folder=tmp_path)
    assert done.returncode == status
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "place", "fault"),
    [
        ("x = 1\nundefined\n", "broken.py, line 2", "NameError: name 'undefined' is not defined"),
        ("x = 1\ndef (:\n", "broken.py, line 2", "SyntaxError: invalid syntax"),
        ("raise SyntaxError('mine')\n", "broken.py, line 1", "SyntaxError: mine"),
        ("import sys\n\nsys.exit(0)\n", "broken.py, line 3", "SystemExit: 0"),
        ("import nowhere\n", "broken.py, line 1", "ModuleNotFoundError: No module named 'nowhere'"),
        ("import inner\n", "inner.py, line 2", "ZeroDivisionError: division by zero"),
        # Raised in pydantic, by the class that begins in line 2.
        (
            "from pydantic import BaseModel\nclass A(BaseModel):\n    x: object = lambda: 0\n"
            "    model_config = 5\n",
            "broken.py, line 2",
            "TypeError: ",
        ),
    ],
)
def test_a_module_that_fails_is_told_with_its_line(
    tmp_path: Path, text: str, place: str, fault: str
) -> None:
    (tmp_path / "broken.py").write_text(text)
    (tmp_path / "inner.py").write_text("\n1 / 0\n")
    done = call_guided("check", "broken:A", folder=tmp_path, columns=1000)
    assert done.returncode == 2
    assert "'broken:A' cannot be loaded: " in done.stderr
    assert f"{place}: {fault}" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_change_the_verdicts(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "string", "format": "date"}')
    done = call_guided("check", str(file), "--format", "annotate", "--whitespace", "free")
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if "/format" in line)
    assert "annotation" in row


def test_documents_are_referred_to_by_their_uri(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"$ref": "urn:example:a=b"}')
    (tmp_path / "a.json").write_text('{"const": 7}')
    document = ("--document", "urn:example:a=b=a.json")
    done = call_guided("check", "schema.json", *document, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "shortest answer: 7" in done.stdout
    done = call_guided("check", "schema.json", folder=tmp_path)
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
    done = call_guided("check", "schema.json", *flags, folder=tmp_path)
    assert done.returncode == status
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_told() -> None:
    form = "native" if is_native() else "interpreted"
    assert _guided("--version").stdout.strip() == f"0.1.0 ({form})"


def test_help_names_all_commands() -> None:
    done = call_guided("--help")
    assert done.returncode == 0
    for command in ("check", "generate", "serve"):
        assert command in done.stdout


def test_what_is_neither_a_type_nor_a_schema_is_told_by_its_name() -> None:
    done = call_guided("check", "json:loads")
    assert done.returncode == 2
    assert "'json:loads' is neither a type nor a JSON Schema: <function loads" in done.stderr
