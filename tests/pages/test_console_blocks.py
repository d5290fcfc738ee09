"""Commands typed on the pages are accepted: those of ``guided`` with their options, and make's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from guided.cli.app import command_line
from tests.kit.pages import PAGES, ROOT, blocks
from tests.pages.shell import programs

TYPED = [
    (f"{page}:{block.line + 1}", words)
    for page in PAGES
    for block in blocks(page, "console")
    for words in programs(block.text)
]
"""The place of each command, and its words."""


def typed(program: str) -> list[Any]:
    """The calls of a program, for a test of each."""
    return [
        pytest.param(words[1:], id=f"{place} {' '.join(words)}")
        for place, words in TYPED
        if words[0] == program
    ]


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line with all its commands, which read their arguments and do nothing."""
    monkeypatch.setattr("sys.argv", ["guided", "--help"])  # for commands of other packages
    command = typer.main.get_command(command_line())
    waiting: list[Any] = [command]
    while waiting:
        each = waiting.pop()
        each.callback = None
        waiting.extend(getattr(each, "commands", {}).values())
    return command


@pytest.mark.parametrize("words", typed("guided"))
def test_guided_takes_what_is_typed(
    words: list[str], idle: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for word in words:
        if re.fullmatch(r"\w[\w.-]*", word):
            Path(word).touch()  # some commands require existing files
    idle.main(words, prog_name="guided", standalone_mode=False)


@pytest.mark.parametrize("words", typed("make"))
def test_a_target_of_make_is_one(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (told,) = re.findall(r"^\.PHONY: (.*)", makefile, re.MULTILINE)
    targets = [word for word in words if "=" not in word]
    assert {*targets} <= {*told.split()}


def test_commands_are_found() -> None:
    assert len(typed("guided")) > 30
    assert len(typed("make")) > 2
    assert not [page for page in PAGES if blocks(page, "bash", "sh", "shell")]


@pytest.mark.parametrize("wrong", ["serve --no-such", "generates", "train medusa --heads", "check"])
def test_what_is_wrong_is_told(wrong: str, idle: Any) -> None:
    with pytest.raises(Exception, match=r"No such|Missing|requires an argument|is required"):
        idle.main(wrong.split(), prog_name="guided", standalone_mode=False)
