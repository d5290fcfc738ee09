"""The flags of commands that connect to a server: whom they trust, and how they authenticate."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from inspect import Parameter
from typing import Any, Final

from guided.cli.common import read_text
from guided.cli.flags import file_flag, flag

__all__ = ["connection_flags", "read_connection_flags"]

_GROUP: Final = "Connection"


def connection_flags() -> Iterator[Parameter]:
    """Yield the flags of a connection, except its address."""
    yield _switch("tls", "GUIDED_TLS", "Encrypt the connection; --ca, --cert and --key imply it.")
    yield _file(
        "ca", "GUIDED_CA", "PEM file with the authority that signed the server's certificate."
    )
    yield _file("cert", "GUIDED_CLIENT_CERT", "PEM file with a certificate to show the server.")
    yield _file("key", "GUIDED_CLIENT_KEY", "PEM file with the key of --cert.")
    yield _file(
        "token_file",
        "GUIDED_TOKEN_FILE",
        "File with the token to show the server. Default: the token in GUIDED_TOKEN.",
    )
    yield _switch("insecure", "GUIDED_CLIENT_INSECURE", "Allow sending the token unencrypted.")


def _file(name: str, variable: str, text: str) -> Parameter:
    return file_flag(name, text, envvar=variable, group=_GROUP)


def _switch(name: str, variable: str, text: str) -> Parameter:
    return flag(name, bool, False, text, spelled=f"--{name}", envvar=variable, group=_GROUP)


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
