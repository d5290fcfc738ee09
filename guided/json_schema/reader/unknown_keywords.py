"""Keywords that the draft of their schema does not define: misspelt, or of another draft."""

from __future__ import annotations

import difflib
from typing import Final

from guided.errors import InvalidConstraintError
from guided.json_schema.reader.keywords import KEYWORDS
from guided.json_schema.reader.schema_index import Location, SchemaIndex
from guided.json_schema.reader.text import child_pointer
from guided.runtime.work_budget import spend

__all__ = ["note_on_unknown", "refuse_unknown"]

_ALL_NAMES: Final = sorted({definition.name for definition in KEYWORDS})
_PREFIX_OF_OTHERS: Final = "x-"
"""Keywords that begin so are for other programs, by custom."""
_OF_OPENAPI: Final = frozenset({"discriminator", "example", "externalDocs", "xml"})
"""Keywords of OpenAPI's base vocabulary, which are notes; Pydantic writes the first."""


def note_on_unknown(keyword: str, location: Location) -> str:
    """Return the note on a keyword that the draft of a schema does not define."""
    if keyword in _ALL_NAMES:
        return f"means nothing in {location.resource.dialect.draft.label}"
    close = _closest(keyword)
    return "no draft defines it" + (f"; close to {close!r}" if close else "")


def refuse_unknown(index: SchemaIndex) -> None:
    """Raise InvalidConstraintError for the first keyword that its draft does not define.

    Metaschemas are not looked at, nor are keywords for other programs (``x-…``) and those of
    OpenAPI's base vocabulary (https://spec.openapis.org/oas/3.1/dialect/base), which are notes.
    """
    for location in index.locations.values():
        if location.resource.is_standard:
            continue
        defined = location.resource.dialect.keywords
        for keyword in location.schema:
            spend(1)
            is_known = keyword in defined or keyword in _OF_OPENAPI
            if not is_known and not keyword.startswith(_PREFIX_OF_OTHERS):
                raise _unknown_error(keyword, location)


def _unknown_error(keyword: str, location: Location) -> InvalidConstraintError:
    if keyword in _ALL_NAMES:
        fault = f"{keyword!r} means nothing in {location.resource.dialect.draft.label}"
        hint = "leave it out, or name the draft that it belongs to with '$schema'"
    else:
        fault, close = f"no draft defines {keyword!r:.80}", _closest(keyword)
        hint = f"did you mean {close!r}?" if close else "leave it out, or let it begin with 'x-'"
    pointer = child_pointer(location.pointer, keyword)
    return InvalidConstraintError(fault, pointer=pointer, hint=hint)


def _closest(keyword: str) -> str | None:
    """Return the keyword of any draft that one resembles most, if it resembles one."""
    spend(100)
    close = difflib.get_close_matches(keyword, _ALL_NAMES, n=1, cutoff=0.8)
    return close[0] if close else None
