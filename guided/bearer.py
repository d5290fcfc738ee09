"""Bearer tokens: making them, storing their hashes, and sending them with calls.

A token is 256 random bits, not a password, so one round of SHA-256 keeps it secret: nobody can try
them all, and a slow hash would only slow each call (RFC 6750 defines how it is sent).
"""

from __future__ import annotations

import re
import secrets
from hashlib import sha256
from typing import Final

from guided.errors import RequestError

__all__ = ["bearer_of", "checked_token", "new_token", "token_hash", "token_of"]

_PREFIX: Final = "guided_"
"""Lets scanners for leaked secrets recognise a token."""

_SCHEME: Final = "Bearer "

_SHORTEST: Final = 32
"""In characters; a shorter token could be found by trying."""

_WRITTEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""The characters of RFC 6750."""


def new_token() -> str:
    """Make a token that nobody can guess."""
    return _PREFIX + secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Return what a server stores of a token: SHA-256 in hexadecimal digits."""
    return sha256(token.encode()).hexdigest()


def checked_token(token: str) -> str:
    """Return the token; raises ``RequestError`` if it cannot be sent, or could be guessed."""
    if not isinstance(token, str) or not _WRITTEN.fullmatch(token):
        # Not quoted: it may be a secret.
        if isinstance(token, str) and token != token.strip():
            raise RequestError(
                "the token begins or ends with white space, such as the line break of a file",
                field="token",
                hint="pass token.strip()",
            )
        raise RequestError(
            "the token has characters other than letters, digits and ._~+/=-",
            field="token",
            hint="make one with 'guided tokens new'",
        )
    if len(token) < _SHORTEST:
        raise RequestError(
            f"the token has {len(token)} characters, and one of fewer than {_SHORTEST} can be "
            "guessed",
            field="token",
            hint="make one with 'guided tokens new'",
        )
    return token


def bearer_of(token: str) -> str:
    """Return the value of the ``authorization`` header that carries a token."""
    return _SCHEME + token


def token_of(header: str) -> str | None:
    """Return the token of an ``authorization`` header, or ``None`` if it has none."""
    scheme, token = header[: len(_SCHEME)], header[len(_SCHEME) :]
    return token if scheme.lower() == _SCHEME.lower() and token else None
