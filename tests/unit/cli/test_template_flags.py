"""Flags about templates become constraints."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from guided.cli.constraint_flags import read_template_flags
from guided.errors import InvalidConstraintError
from guided.spec import Ebnf, JsonOptions, JsonSchema, Regex
from guided.spec.composition import Template

_OPTIONS = JsonOptions(whitespace=3)


def test_a_template_is_read_with_what_fills_its_holes(tmp_path: Path) -> None:
    for name, text in (("t.txt", "{a}={b} {c}\n"), ("b.json", "{}"), ("c.gbnf", 'root ::= "="')):
        (tmp_path / name).write_text(text)
    holes = ["a=/x=[0-9]/", f"b={tmp_path}/b.json", f"c={tmp_path}/c.gbnf"]
    assert read_template_flags(tmp_path / "t.txt", holes, _OPTIONS) == Template(
        "{a}={b} {c}", a=Regex("x=[0-9]"), b=JsonSchema("{}", _OPTIONS), c=Ebnf('root ::= "="')
    )
    assert read_template_flags(None, None, _OPTIONS) is None


@pytest.mark.parametrize(
    ("hole", "message"),
    [
        ("a", "'a' is not NAME=FILE or NAME=/PATTERN/"),
        ("=x", "is not NAME=FILE"),
        ("a=nowhere.json", "there is no file 'nowhere.json'; patterns are written /PATTERN/"),
        ("a=/", "there is no file '/'"),
    ],
)
def test_what_fills_nothing_is_refused(tmp_path: Path, hole: str, message: str) -> None:
    file = tmp_path / "t.txt"
    file.write_text("{a}")
    with pytest.raises(typer.BadParameter, match=message):
        read_template_flags(file, [hole], _OPTIONS)


def test_a_hole_needs_a_template_and_a_template_its_holes(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="--hole goes with --template only"):
        read_template_flags(None, ["a=/b/"], _OPTIONS)
    file = tmp_path / "t.txt"
    file.write_text("{a}")
    with pytest.raises(InvalidConstraintError, match="nothing is given for the hole 'a'"):
        read_template_flags(file, None, _OPTIONS)
