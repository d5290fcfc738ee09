"""Flags about grammars become constraints."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from guided.cli.constraint_flags import read_grammar_flags
from guided.errors import InvalidConstraintError
from guided.spec import Choice, Ebnf, Lark, Regex


@pytest.mark.parametrize(("name", "kind"), [("a.lark", Lark), ("a.gbnf", Ebnf), ("a.ebnf", Ebnf)])
def test_the_name_of_a_file_tells_its_format(
    tmp_path: Path, name: str, kind: type[Lark | Ebnf]
) -> None:
    file = tmp_path / name
    file.write_text("é", encoding="utf-8")
    assert read_grammar_flags(file, None, None) == kind("é")


def test_patterns_and_texts_are_read() -> None:
    assert read_grammar_flags(None, "a+", None) == Regex("a+")
    assert read_grammar_flags(None, None, ["a", "b"]) == Choice(["a", "b"])
    assert read_grammar_flags(None, None, None) is None
    assert read_grammar_flags(None, None, []) is None


def test_what_is_said_twice_or_is_no_grammar_is_refused(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="exclude each other"):
        read_grammar_flags(None, "a", ["b"])
    with pytest.raises(typer.BadParameter, match=r"none of \.lark, \.gbnf, \.ebnf"):
        read_grammar_flags(tmp_path / "a.txt", None, None)
    latin = tmp_path / "a.gbnf"
    latin.write_bytes(b"\xe9")
    with pytest.raises(InvalidConstraintError, match="not UTF-8"):
        read_grammar_flags(latin, None, None)
