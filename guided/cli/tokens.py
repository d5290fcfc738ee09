"""The commands ``guided tokens``, which make tables for a server's token file."""

from __future__ import annotations

import sys
from typing import Annotated, TypeAlias

import typer

from guided.bearer import checked_token, new_token, token_hash
from guided.cli.common import examples_of, shown_with

__all__ = ["tokens"]

tokens = typer.Typer(
    name="tokens", no_args_is_help=True, help="Make the tokens that a server takes."
)

NameArgument: TypeAlias = Annotated[
    str, typer.Argument(help="Whose token it is, of letters, digits and . _ -")
]


@shown_with("guided tokens new alice >> tokens.toml", "guided serve --tokens tokens.toml")
def _new(name: NameArgument) -> None:
    """Make a token: its table goes to standard output, the token itself to standard error.

    The table holds a hash alone. The token is not kept anywhere; give it to its owner.
    """
    token = new_token()
    typer.echo(_table(name, token))
    typer.echo(token, err=True)


@shown_with("guided tokens hash alice < secret.txt >> tokens.toml")
def _hash(name: NameArgument) -> None:
    """Print the table of a token that is read from standard input."""
    typer.echo(_table(name, checked_token(sys.stdin.read().strip())))


def _table(name: str, token: str) -> str:
    return f'["{name}"]\nsha256 = "{token_hash(token)}"'


for _function, _name in ((_new, "new"), (_hash, "hash")):
    tokens.command(_name, epilog=examples_of(_function))(_function)
