"""Reads the requests of ``guided batch``: JSON lines with the fields of a client's Request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from guided.cli.common import check_regular
from guided.errors import GuidedError, RequestError
from guided.spec import Beams, Choice, Ebnf, Lark, Reasoning, Regex, Structure
from guided.spec.closest import close_names
from guided.spec.json_options import json_options_of

if TYPE_CHECKING:
    from guided.client import Request

__all__ = ["BatchLine", "Key", "digests_of", "read_lines"]

Key: TypeAlias = int | str
"""The key of a result: the ``id`` of its request, or the number of its line."""

_PROMPTS: Final = ("prompt", "messages", "raw_prompt", "tokens")
_GRAMMARS: Final[Mapping[str, type[Lark] | type[Ebnf]]] = {"lark": Lark, "ebnf": Ebnf}


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One request of the file."""

    number: int
    """The number of its line, from 1."""
    id: str | None
    """Its id in the file, if it has one."""
    digest: str
    """Distinguishes its text from others; spaces between tokens do not count."""
    request: Request[Any]

    @property
    def key(self) -> Key:
        """The key of its result."""
        return self.number if self.id is None else self.id


def digests_of(file: Path) -> dict[Key, str]:
    """Return the digest of each request, by its key; raises ``RequestError`` for any fault."""
    digests: dict[Key, str] = {}
    numbers: dict[Key, int] = {}
    for line in read_lines(file):
        if line.key in digests:
            raise RequestError(
                f"lines {numbers[line.key]} and {line.number} of {file} have the id {line.id!r}",
                field="id",
            )
        digests[line.key], numbers[line.key] = line.digest, line.number
    return digests


def read_lines(file: Path) -> Iterator[BatchLine]:
    """Yield the requests in order, skipping blank lines. Errors name the line and the field."""
    check_regular(file, hint="write the requests to one, as they are read twice")
    try:
        # Editors of Windows begin files with a byte order mark.
        with file.open(encoding="utf-8-sig") as lines:
            for number, text in enumerate(lines, start=1):
                if text.strip():
                    with _at(file, number):
                        line = _read_line(number, text)
                    yield line
    except UnicodeDecodeError as error:
        raise RequestError(f"{file} is not UTF-8: {error.reason}") from error
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}") from error


@contextmanager
def _at(file: Path, number: int) -> Iterator[None]:
    """Add to errors their line, and their field if it is known."""
    try:
        yield
    except RequestError as error:
        field = "" if error.field is None else f", {error.field}"
        raise RequestError(
            f"line {number} of {file}{field}: {error.message}", field=error.field, hint=error.hint
        ) from error


def _read_line(number: int, text: str) -> BatchLine:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"this is not JSON that can be read: {error}") from error
    if not isinstance(given, dict):
        raise RequestError("this is no object", hint='write {"prompt": ...}')
    digest = hashlib.sha256(json.dumps(given).encode()).hexdigest()[:16]
    name = given.pop("id", None)
    if name is not None and (not isinstance(name, str) or not name):
        raise RequestError(f"{name!r} is no name", field="id", hint="write a string")
    return BatchLine(number, name, digest, _request(given))


def _request(given: dict[str, Any]) -> Request[Any]:
    # Imported here, so that the other commands need no client.
    from guided.client import Request
    from guided.wire_request import encode_request

    _check_known(given)
    prompt, schema = _prompt(given), given.pop("schema", None)
    options = {name: _read_option(name, value) for name, value in given.items()}
    if (grammar := _grammar(options)) is not None:
        options["grammar"] = grammar
    # Python takes text and objects as schemas, but not true and false.
    request: Request[Any] = Request(
        prompt, schema=json.dumps(schema) if isinstance(schema, bool) else schema, **options
    )
    encode_request(request.specification)  # raises for what no message can carry
    return request


def _check_known(given: Mapping[str, Any]) -> None:
    from guided.client.options import OPTIONS

    known = {*_PROMPTS, "id", "schema", "regex", "choice", *OPTIONS}
    for name in given:
        if name not in known:
            close = close_names(name, known, 1) or sorted(known)
            raise RequestError(
                "there is no such field", field=name, hint=f"there is {', '.join(close)}"
            )


def _prompt(given: dict[str, Any]) -> Any:
    from guided.client import RawPrompt, TokenPrompt

    named = [name for name in _PROMPTS if name in given]
    if len(named) != 1:
        raise RequestError(
            f"{' and '.join(named)} are given" if named else "nothing is asked",
            field="prompt",
            hint=f"write one of {', '.join(_PROMPTS)}",
        )
    (name,) = named
    value = given.pop(name)
    if name == "messages":
        if not isinstance(value, list):
            raise RequestError(f"{value!r} is no list of messages", field=name)
        return value
    if name == "tokens":
        return TokenPrompt(value)
    if not isinstance(value, str):
        raise RequestError(f"{value!r} is no string", field=name)
    return RawPrompt(value) if name == "raw_prompt" else value


def _read_option(name: str, value: Any) -> Any:
    """Convert the value of an option for Python; the request itself validates the rest."""
    if name not in _READERS:
        return value
    try:
        return _READERS[name](value)
    except GuidedError:
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise RequestError(f"{value!r} cannot be read: {error}", field=name) from error


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it is no string")
    return value


def _read_choice(given: Any) -> Choice:
    if not isinstance(given, list):
        raise TypeError("it is no list of strings")
    return Choice([_string(text) for text in given])


def _read_grammar(given: Any) -> Lark | Ebnf:
    kinds = [name for name in _GRAMMARS if isinstance(given, dict) and name in given]
    if len(kinds) != 1:
        raise RequestError(
            f"{given!r} is no grammar",
            field="grammar",
            hint='write {"lark": TEXT} or {"ebnf": TEXT}, and start or root where it is another',
        )
    others: dict[str, Any] = {
        name: _string(value) for name, value in given.items() if name != kinds[0]
    }
    return _GRAMMARS[kinds[0]](_string(given[kinds[0]]), **others)


def _grammar(options: dict[str, Any]) -> Structure | None:
    """Take the one constraint besides a schema out of the options."""
    kinds = [options.pop(name) for name in ("grammar", "regex", "choice") if name in options]
    if len(kinds) > 1:
        raise RequestError("grammar, regex and choice exclude each other", field="grammar")
    return kinds[0] if kinds else None


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "beams": lambda given: None if given is None else Beams(**given),
    "choice": _read_choice,
    "grammar": _read_grammar,
    "json_options": json_options_of,
    "logit_bias": lambda given: {int(token): bias for token, bias in given.items()},
    "reasoning": lambda given: Reasoning(**given) if isinstance(given, dict) else given,
    "regex": lambda given: Regex(_string(given)),
}
"""Readers of the fields that JSON spells differently than Python."""
