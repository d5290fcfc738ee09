"""The commands `guided tokens`: a server can read their output."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from guided.bearer import new_token
from guided.cli.tokens import tokens
from guided.errors import RequestError
from guided_service.token_book import TokenBook


def test_a_new_token_opens_the_door_that_its_table_describes(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    shown = []
    with file.open("w") as lines:
        for name in ("ann", "b.o-b"):
            made = CliRunner().invoke(tokens, ["new", name])
            assert made.exit_code == 0
            lines.write(made.stdout)
            shown.append(made.stderr.strip())
            assert shown[-1] not in made.stdout
    book = TokenBook(file)
    assert [found[0] for token in shown if (found := book.find(token))] == ["ann", "b.o-b"]


def test_a_token_that_there_is_already_is_hashed(tmp_path: Path) -> None:
    token, file = new_token(), tmp_path / "tokens.toml"
    made = CliRunner().invoke(tokens, ["hash", "ann"], input=f"{token}\n")
    file.write_text(made.stdout)
    assert token not in made.output
    assert TokenBook(file).find(token) is not None
    refused = CliRunner().invoke(tokens, ["hash", "ann"], input="hunter2\n")
    assert isinstance(refused.exception, RequestError)
