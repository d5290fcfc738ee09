"""The flags of commands that connect to a server: whom they trust, and how they authenticate."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from guided.cli.common import read_text

__all__ = ["connection_flags", "read_connection_flags"]

_GROUP: Final = "Connection"


def _file(spelled: str, variable: str, text: str) -> Any:
    told = typer.Option(
        spelled, envvar=variable, help=text, exists=True, dir_okay=False, rich_help_panel=_GROUP
    )
    return Annotated[Path | None, told]


def _switch(spelled: str, variable: str, text: str) -> Any:
    return Annotated[
        bool, typer.Option(spelled, envvar=variable, help=text, rich_help_panel=_GROUP)
    ]


_FLAGS: Final[Mapping[str, tuple[Any, object]]] = {
    "tls": (
        _switch("--tls", "GUIDED_TLS", "Encrypt the connection; --ca, --cert and --key imply it."),
        False,
    ),
    "ca": (
        _file(
            "--ca", "GUIDED_CA", "PEM file with the authority that signed the server's certificate."
        ),
        None,
    ),
    "cert": (
        _file("--cert", "GUIDED_CLIENT_CERT", "PEM file with a certificate to show the server."),
        None,
    ),
    "key": (_file("--key", "GUIDED_CLIENT_KEY", "PEM file with the key of --cert."), None),
    "token_file": (
        _file(
            "--token-file",
            "GUIDED_TOKEN_FILE",
            "File with the token to show the server. Default: the token in GUIDED_TOKEN.",
        ),
        None,
    ),
    "insecure": (
        _switch("--insecure", "GUIDED_CLIENT_INSECURE", "Allow sending the token unencrypted."),
        False,
    ),
}
"""The type and the default of each flag."""


def connection_flags() -> Iterator[Parameter]:
    """Yield the flags of a connection, except its address."""
    for name, (kind, default) in _FLAGS.items():
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def read_connection_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of ``Client`` that the flags stand for."""
    # Imported here, so that the other commands need no grpc.
    from guided.client.security import Tls

    files = {name: given[name] for name in ("ca", "cert", "key")}
    is_encrypted = given["tls"] or any(files.values())
    file = given["token_file"]
    # Never on the command line, which everybody on the machine can read.
    token = os.environ.get("GUIDED_TOKEN") if file is None else read_text(file)
    return {
        "tls": Tls(**files) if is_encrypted else False,
        "token": token.strip() if token else None,
        "insecure": given["insecure"],
    }
