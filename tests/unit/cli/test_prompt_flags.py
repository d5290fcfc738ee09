"""Flags about the prompt become a prompt."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from guided.cli.asked_flags import read_prompt_flags
from guided.errors import GuidedError
from guided.spec import Message


def _file(folder: Path, content: Any) -> Path:
    file = folder / "messages.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def _say(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(said)))


def test_a_prompt_by_itself_stays_a_text() -> None:
    assert read_prompt_flags("Hi", None, None) == "Hi"
    assert read_prompt_flags("", None, None) == ""


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    _say(monkeypatch, "Grüße\n\n".encode())
    assert read_prompt_flags("-", None, None) == "Grüße\n"
    _say(monkeypatch, b"a\xff")
    with pytest.raises(typer.BadParameter, match="standard input is not UTF-8: byte 1 is wrong"):
        read_prompt_flags("-", None, None)


def test_system_messages_and_prompt_stand_in_this_order(tmp_path: Path) -> None:
    system = tmp_path / "system.txt"
    system.write_text("Be brief.\n")
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    file = _file(tmp_path, turns)
    first, spoken = (
        Message("system", "Be brief."),
        [Message(turn["role"], turn["content"]) for turn in turns],
    )
    assert read_prompt_flags(None, None, file) == spoken
    assert read_prompt_flags("Bye", system, None) == [first, Message("user", "Bye")]
    assert read_prompt_flags("Bye", system, file) == [first, *spoken, Message("user", "Bye")]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("[", "is not JSON that can be read"),
        ({}, "is not a list of at least one message"),
        ([], "is not a list of at least one message"),
        ([{"role": "user"}], "message 1 of .* must have only role and content"),
        (["Hi"], "message 1 of .* must have only role and content"),
        ([{"role": "user", "content": 1}], "role and content of message 1 of .* must be strings"),
        ([{"role": "robot", "content": ""}], "role 'robot' is none of"),
    ],
)
def test_what_is_no_conversation_is_told(tmp_path: Path, content: Any, complaint: str) -> None:
    with pytest.raises((typer.BadParameter, GuidedError), match=complaint):
        read_prompt_flags(None, None, _file(tmp_path, content))


def test_something_has_to_be_asked(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="neither --prompt nor --messages is given"):
        read_prompt_flags(None, _file(tmp_path, ""), None)
