"""The caret is below its place."""

from __future__ import annotations

import pytest

from guided.spec.source_position import SourcePosition


@pytest.mark.parametrize(
    ("line", "indent"),
    [
        ("ab!", "  "),
        ("\ta\t!", "\t \t"),
        ("好あ！!", " " * 6),
        ("e\u0301!", " "),
        ("é😀!", "   "),
        ("x" * 100 + "!" + "y" * 100, " " * 60),
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_caret_stands_below_its_place(line: str, indent: str, end: str) -> None:
    text = f"first{end or chr(10)}{line}{end}"
    message = SourcePosition(text, text.index("!")).message("what")
    begin, empty, shown, caret = message.split("\n")
    assert begin == f"line 2, column {line.index('!') + 1}: what"
    assert (empty, caret) == ("", f"{indent}^")
    assert shown in line
    assert shown.index("!") == min(line.index("!"), 60)
