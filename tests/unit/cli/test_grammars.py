"""The commands `guided grammars`, as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from guided.spec.library import grammar_names, read_grammar
from tests.unit.cli.in_process import call_guided


def _guided(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from guided.cli import main; main()", "grammars", *arguments]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def _write(folder: Path, grammar: str, accepted: str, rejected: str) -> str:
    for kind, text in (("lark", grammar), ("accept", accepted), ("reject", rejected)):
        (folder / f"mine.{kind}").write_text(text)
    return str(folder / "mine.lark")


def test_all_grammars_are_listed_with_what_they_are_for() -> None:
    done = _guided("list")
    assert done.returncode == 0, done.stderr
    for name in grammar_names():
        assert f" {name} " in done.stdout
        assert read_grammar(name).summary in done.stdout


def test_a_grammar_is_shown_as_it_is() -> None:
    done = _guided("show", "semver")
    assert (done.returncode, done.stdout) == (0, read_grammar("semver").text)


def test_a_name_that_is_none_ends_with_those_that_are_close() -> None:
    done = call_guided("grammars", "show", "semvre")
    assert done.returncode == 1
    assert "error: the library has no grammar 'semvre'; there is semver" in done.stderr


def test_examples_that_hold_end_with_status_0(tmp_path: Path) -> None:
    file = _write(tmp_path, 'start: "a" "\\n" "b"', "---\na\nb\n", "a\n---\nb\n")
    done = call_guided("grammars", "check", "semver", file)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["ok semver: 20 examples", "ok mine: 3 examples"]


def test_examples_that_do_not_hold_are_told_and_end_with_status_1(tmp_path: Path) -> None:
    file = _write(tmp_path, 'start: "[" "é" "]"', "[é]\n[éé]\n[\n", "[x]\n[é]\n")
    done = call_guided("grammars", "check", file)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "failed mine: 5 examples",
        "  not accepted, from character 3 on: '[éé]'",
        "  not accepted, from character 2 on: '['",
        "  not rejected: '[é]'",
    ]


def test_a_grammar_without_examples_is_not_checked(tmp_path: Path) -> None:
    done = call_guided("grammars", "check", _write(tmp_path, 'start: "a"', "a\n", ""))
    assert done.returncode == 1
    assert "no example is to be rejected" in done.stdout
    (tmp_path / "mine.accept").unlink()
    done = call_guided("grammars", "check", str(tmp_path / "mine.lark"))
    assert done.returncode == 1
    assert "mine.accept cannot be read: No such file or directory" in done.stderr


def test_a_faulty_grammar_ends_with_its_place(tmp_path: Path) -> None:
    done = call_guided("grammars", "check", _write(tmp_path, 'start: "a" other', "a\n", "b\n"))
    assert done.returncode == 1
    assert "line 1, column 12: " in done.stderr


def test_schemas_in_a_grammar_are_checked_with_it(tmp_path: Path) -> None:
    grammar = 'start: "=" %json {"type": "integer"} ";"'
    done = call_guided(
        "grammars", "check", _write(tmp_path, grammar, "=1;\n=-20;\n", "=1.5;\n=;\n")
    )
    assert (done.returncode, done.stdout.strip()) == (0, "ok mine: 4 examples"), done.stderr
