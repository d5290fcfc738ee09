"""Holds the tokens that callers may show: a file of hashes, read again whenever it changes.

::

    [alice]                                # a name, for logs and for the messages of quotas
    sha256 = "5e88…"                       # printed by `guided tokens new alice`
    weight = 2                             # twice the share of others
    tokens_per_minute = 20_000
"""

from __future__ import annotations

import hmac
import time
import tomllib
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from guided.bearer import token_hash
from guided.errors import RequestError
from guided_service.renewed_files import RenewedFiles

__all__ = ["Limits", "Token", "TokenBook", "read_tokens"]

_LOOK_SECONDS: Final = 1.0
"""Least time between two checks of the file."""


class Limits(BaseModel):
    """What the calls of one token may use; ``None`` sets no bound of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """Its share where requests have to wait, relative to the usual 1."""
    requests_in_flight: Annotated[int, Field(ge=1)] | None = None
    """Requests that wait or run."""
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Tokens of prompts and answers."""
    compile_seconds_per_minute: Annotated[float, Field(gt=0)] | None = None
    top_priority: Annotated[int, Field(ge=-100, le=100)] | None = None
    """The smallest number that counts as a priority; ``None`` takes the server's."""


class Token(Limits):
    """One token, without its text."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    expires: date | None = None
    """Last day on which it is accepted, in UTC."""


_Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]

_FILE: Final = TypeAdapter(dict[_Name, Token])


class TokenBook:
    """The tokens of a file by name.

    If the file changes to one that cannot be read, the tokens stay as they were, and the log says
    so: a typing error must neither open the door nor lock everybody out.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the file; raises ``RequestError`` with the place of a fault."""
        self._tokens = RenewedFiles(
            "tokens", (file,), partial(read_tokens, file), look_seconds=_LOOK_SECONDS, clock=clock
        )

    def __len__(self) -> int:
        return len(self._tokens.value)

    def find(self, shown: str) -> tuple[str, Token] | None:
        """Return the name and the limits of a shown token, or ``None`` if it is unknown."""
        self._tokens.renew()
        digest = token_hash(shown)
        found: tuple[str, Token] | None = None
        # Compare all, each in constant time, so that timing reveals nothing about any of them.
        for name, token in self._tokens.value.items():
            if hmac.compare_digest(token.sha256, digest):
                found = (name, token)
        return found if found is None or _is_valid(found[1]) else None


def read_tokens(file: Path) -> Mapping[str, Token]:
    """Read the tokens of a TOML file; raises ``RequestError`` with the place of a fault."""
    try:
        tokens = _FILE.validate_python(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RequestError(f"{file} cannot be read: {error}", field="tokens") from error
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"] if part != "[key]")
        raise RequestError(
            f"{file} at {place}: {fault['msg']}",
            field="tokens",
            hint="'guided tokens new NAME' prints a table as it should be",
        ) from error
    owners: dict[str, str] = {}
    for name, token in tokens.items():
        if (other := owners.setdefault(token.sha256, name)) != name:
            raise RequestError(f"{file}: {other} and {name} have the same token", field="tokens")
    return tokens


def _is_valid(token: Token) -> bool:
    return token.expires is None or datetime.now(UTC).date() <= token.expires
