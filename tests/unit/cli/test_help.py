"""The help of the command line."""

from __future__ import annotations

import re

import pytest

from tests.unit.cli.in_process import call_guided


def _run(*arguments: str, **environment: str) -> str:
    done = call_guided(*arguments, columns=120, environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("batch",),
        ("bench",),
        ("check",),
        ("generate",),
        ("grammars",),
        ("inspect",),
        ("inspect", "model"),
        ("inspect", "schema"),
        ("inspect", "--generate"),
        ("prepare",),
        ("serve",),
        ("top",),
        ("train", "draft"),
        ("train", "eagle"),
        ("train", "medusa"),
        ("train", "reward-tune"),
    ],
)
def test_every_command_shows_how_it_is_used(command: tuple[str, ...]) -> None:
    text = _run(*command, "--help")
    _, found, examples = text.partition("Examples")
    assert found
    called = [line.strip() for line in examples.splitlines() if "guided " in line]
    assert called
    assert all(" ".join(("guided", *command)) in line for line in called)


def test_examples_are_shown_as_they_are_typed() -> None:
    assert "--regex '[A-Z]{3}-[0-9]+'" in _run("generate", "--help")


@pytest.mark.parametrize(
    ("typed", "offered"), [("guided ch", {"check"}), ("guided check --js", {"--json"})]
)
def test_shells_complete_commands_and_options(typed: str, offered: set[str]) -> None:
    said = _run(
        _GUIDED_COMPLETE="complete_bash",
        COMP_WORDS=typed,
        COMP_CWORD=str(typed.count(" ")),
    )
    assert set(said.split()) == offered


def test_completion_can_be_installed() -> None:
    assert re.search(r"--install-completion\b", _run("--help"))
