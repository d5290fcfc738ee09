"""The output of ``guided inspect schema``."""

from __future__ import annotations

from pathlib import Path

import pytest

from guided.cli.inspect_schema import inspect_schema
from guided.errors import InvalidConstraintError


def test_the_formulas_of_a_schema_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "schema.json", tmp_path / "other.json"
    file.write_text('{"items": {"$ref": "http://example.org/x"}}')
    other.write_text('{"type": "null"}')
    inspect_schema(file, document=[f"http://example.org/x={other}"])
    assert (
        capsys.readouterr().out
        == """\
#0 (root)
    items
        others: #1

#1 /items
    #2

#2 http://example.org/x#
    is null
"""
    )


def test_a_schema_at_fault_is_refused_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"items": {"$ref": "#/x"}}')
    with pytest.raises(InvalidConstraintError, match="names nothing"):
        inspect_schema(file)
