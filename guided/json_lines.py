"""Reads files of JSON lines, and names the line that cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources.abc import Traversable
from typing import NotRequired, TypeVar

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from guided.errors import GuidedError, RequestError

__all__ = ["read_json_lines"]


class _Named(TypedDict):
    id: NotRequired[str]


Row = TypeVar("Row", bound=_Named)
Made = TypeVar("Made")


def read_json_lines(
    files: Mapping[str, Traversable],
    rows: TypeAdapter[Row],
    make: Callable[[Row], Made],
    *,
    field: str,
) -> dict[str, Made]:
    """Return what ``make`` makes of each line of some files, by the line's ``id``.

    ``files`` has them by the names that errors give them. A line without an id gets its number as
    one, or of several files its place; blank lines are skipped. Raises ``RequestError`` with the
    line that cannot be used, for the ``field``.
    """
    made: dict[str, Made] = {}
    for name, file in files.items():
        try:
            # Not at other characters that end a line for Python: a text may contain them.
            lines = file.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(f"{name} cannot be read: {error}", field=field) from error
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            place = f"line {number} of {name}"
            try:
                row = rows.validate_json(line)
                named: _Named = row
                key = named.setdefault("id", place if len(files) > 1 else str(number))
                if key in made:
                    raise RequestError(f"the id {key!r} came before")
                made[key] = make(row)
            except ValidationError as error:
                fault = error.errors()[0]
                at = ".".join(map(str, fault["loc"]))
                reason = f"{at}: {fault['msg']}" if at else fault["msg"]
                raise RequestError(f"{place}: {reason}", field=field) from error
            except GuidedError as error:
                reason = f"{place}: {error.message}"
                raise RequestError(reason, field=field, hint=error.hint) from error
    return made
