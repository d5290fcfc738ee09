"""The commands ``guided tokens``, which make tables for a server's token file."""

from __future__ import annotations

import sys
from typing import Annotated, TypeAlias

import typer

from guided.bearer import checked_token, new_token, token_hash
from guided.cli.common import examples_of, shown_with

__all__ = ["tokens"]

tokens = typer.Typer(
    name="tokens", no_args_is_help=True, help="Make the access tokens that callers show a server."
)

NameArgument: TypeAlias = Annotated[
    str, typer.Argument(help="Name of the token's owner, of letters, digits and . _ -")
]


@shown_with("guided tokens new alice >> tokens.toml", "guided serve --tokens tokens.toml")
def _new(name: NameArgument) -> None:
    """Make a token: print its table to standard output, and the token itself to standard error.

    The table is for the server's token file and holds only a hash. The token is not stored
    anywhere; give it to its owner.
    """
    token = new_token()
    typer.echo(_table(name, token))
    typer.echo(token, err=True)


@shown_with("guided tokens hash alice < secret.txt >> tokens.toml")
def _hash(name: NameArgument) -> None:
    """Print the table of an existing token, read from standard input."""
    typer.echo(_table(name, checked_token(sys.stdin.read().strip())))


def _table(name: str, token: str) -> str:
    return f'["{name}"]\nsha256 = "{token_hash(token)}"'


for _function, _name in ((_new, "new"), (_hash, "hash")):
    tokens.command(_name, epilog=examples_of(_function))(_function)
