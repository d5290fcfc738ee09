"""Keywords that the draft of their schema does not define: misspelt, or of another draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.errors import InvalidConstraintError
from guided.json_schema.formulas.values import Json
from guided.json_schema.reader.dialects import draft_dialect
from guided.json_schema.reader.formats import known_formats
from guided.json_schema.reader.keywords import KEYWORDS
from guided.json_schema.reader.locations import Location
from guided.json_schema.reader.schema_index import SchemaIndex
from guided.json_schema.reader.text import child_pointer
from guided.runtime.work_budget import spend
from guided.spec import JsonOptions
from guided.spec.closest import closest

__all__ = ["note_on_unknown", "refuse_unknown"]

_ALL_NAMES: Final = sorted({definition.name for definition in KEYWORDS})
_PREFIX_OF_OTHERS: Final = "x-"
"""Keywords that begin so are for other programs, by custom."""
_OF_OPENAPI: Final = frozenset({"discriminator", "example", "externalDocs", "xml"})
"""Keywords of OpenAPI's base vocabulary, which are notes; Pydantic writes the first."""
_INSTEAD: Final = {
    "$defs": "name it 'definitions', in the references to it as well",
    "dependentRequired": "write 'dependencies'",
    "dependentSchemas": "write 'dependencies'",
    "nullable": "add \"null\" to 'type'",
}
"""What says the same where a keyword means nothing."""


def note_on_unknown(keyword: str, location: Location) -> str:
    """Return the note on a keyword that the draft of a schema does not define."""
    if keyword in _ALL_NAMES:
        return _meaningless(location, keyword)
    close = _closest(keyword, _ALL_NAMES)
    return "no draft defines it" + (f"; close to {close!r}" if close else "")


def refuse_unknown(index: SchemaIndex, options: JsonOptions) -> None:
    """Raise InvalidConstraintError for the first keyword that its draft does not define.

    So it is for a format without a rule, if formats are asserted. Metaschemas are not looked at,
    nor are keywords for other programs (``x-…``) and those of OpenAPI's base vocabulary
    (https://spec.openapis.org/oas/3.1/dialect/base), which are notes.
    """
    for location in index.locations.values():
        if location.resource.is_standard:
            continue
        dialect = location.resource.dialect
        for keyword in location.schema:
            spend(1)
            is_known = keyword in dialect.keywords or keyword in _OF_OPENAPI
            if not is_known and not keyword.startswith(_PREFIX_OF_OTHERS):
                raise _unknown_error(keyword, location)
        # ``keywords`` has no format that ``$ref`` hides.
        if "format" in location.keywords and dialect.enforces_format(options):
            _check_format(location.keywords["format"], location)


def _check_format(name: Json, location: Location) -> None:
    if name not in known_formats():
        close = _closest(str(name), known_formats())
        hint = f"did you mean {close!r}?" if close else "leave it out, or write a 'pattern'"
        fault = f"there is no rule for the format {name!r:.80}"
        raise _error_at("format", location, fault, hint)


def _unknown_error(keyword: str, location: Location) -> InvalidConstraintError:
    if keyword in _ALL_NAMES:
        fault = f"{keyword!r} {_meaningless(location, keyword)}"
        hint = "leave it out, or name a draft that has it with '$schema'"
    else:
        fault = f"no draft defines {keyword!r:.80}"
        close = _closest(keyword, sorted(location.resource.dialect.keywords))
        hint = f"did you mean {close!r}?" if close else "leave it out, or let it begin with 'x-'"
    return _error_at(keyword, location, fault, _INSTEAD.get(keyword, hint))


def _error_at(keyword: str, location: Location, fault: str, hint: str) -> InvalidConstraintError:
    return InvalidConstraintError(
        fault, pointer=child_pointer(location.pointer, keyword), hint=hint
    )


def _meaningless(location: Location, keyword: str) -> str:
    """Say that a keyword of some draft has no meaning in a schema."""
    draft = location.resource.dialect.draft
    if keyword in draft_dialect(draft).keywords:
        return "is in none of the vocabularies of the schema's metaschema"
    return f"means nothing in {draft.label}"


def _closest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that one resembles most, if it resembles one."""
    spend(100)
    return closest(name, known, 0.8)
