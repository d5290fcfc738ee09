"""Lists of numbers on the command line of the measurements."""

from __future__ import annotations

import pytest

from benchmarks.scaling.options import parser_of


@pytest.mark.parametrize(("text", "engines"), [("4", (4,)), ("1,2,16", (1, 2, 16))])
def test_how_many_engines(text: str, engines: tuple[int, ...]) -> None:
    parser = parser_of("", engines=(1, 2))
    assert parser.parse_args(["--engines", text]).engines == engines
    assert parser.parse_args([]).engines == (1, 2)


@pytest.mark.parametrize("text", ["", "0", "1,0", "two", "1.5", "1;2", "-1"])
def test_anything_else_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser_of("", engines=()).parse_args([f"--engines={text}"])
    said = capsys.readouterr().err
    assert f"{text!r} is not of the form: whole numbers above 0, such as 1,2,4" in said
