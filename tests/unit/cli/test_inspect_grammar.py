"""Texts that ``guided inspect --grammar`` cannot follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from guided.cli.grammars import inspect_grammar
from guided.errors import GuidedError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1,\n x]", "in {file}, line 2, column 2: the grammar has no 'x' here\n\n x]\n ^"),
        (
            "[1]\n",
            "in {file}, line 1, column 4: the grammar has no '\\n' here; "
            "end the file without a line break\n\n[1]\n   ^",
        ),
        (None, "{file} cannot be read: No such file or directory"),
    ],
)
def test_a_text_that_leaves_the_grammar_is_told_with_its_place(
    tmp_path: Path, text: str | None, expected: str
) -> None:
    grammar, file = tmp_path / "list.lark", tmp_path / "list.txt"
    grammar.write_text('start: "[" (/[0-9]/ | "," | /\\s/)* "]"')
    if text is not None:
        file.write_text(text)
    with pytest.raises(GuidedError) as refused:
        inspect_grammar(grammar, [file], 0, "default")
    assert str(refused.value) == expected.format(file=file)
