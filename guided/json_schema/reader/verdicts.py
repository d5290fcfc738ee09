"""How far each keyword of a schema is enforced; and the table of keywords in the documentation.

``python -m guided.json_schema.reader.verdicts docs/json-schema-support.md`` updates the table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from guided.json_schema.formulas.numbers import (
    MAX_LISTED_MULTIPLES,
    digit_limits,
    omits_multiples,
)
from guided.json_schema.formulas.values import is_number
from guided.json_schema.reader.formats import (
    MAX_FORMAT_LENGTHS,
    NARROWED_FORMATS,
    format_regular,
    known_formats,
)
from guided.json_schema.reader.keywords import KEYWORDS, Keyword, Role
from guided.json_schema.reader.locations import Location
from guided.json_schema.reader.schema_index import SchemaIndex
from guided.json_schema.reader.text import child_pointer
from guided.json_schema.reader.unknown_keywords import note_on_unknown
from guided.json_schema.reader.value_keywords import number_assertion
from guided.runtime.work_budget import spend
from guided.spec import Enforcement, JsonOptions, KeyOrder, Verdict

__all__ = ["count_keywords", "judge_keywords", "replace_table"]

_POINTER_BYTES_PER_UNIT: Final = 32
"""Each verdict has a pointer of its own, which repeats the long names around its schema."""


def judge_keywords(index: SchemaIndex, options: JsonOptions) -> Iterator[Verdict]:
    """Yield a verdict on every keyword of every schema in the index, except in metaschemas.

    In the order in which schemas were read, reachable from the root or not.
    """
    for location in _judged(index):
        yield from _verdicts(location, options)


def count_keywords(index: SchemaIndex) -> int:
    """Return the number of verdicts that ``judge_keywords`` yields."""
    return sum(len(location.schema) for location in _judged(index))


def _judged(index: SchemaIndex) -> Iterator[Location]:
    return (each for each in index.locations.values() if not each.resource.is_standard)


def _verdicts(location: Location, options: JsonOptions) -> Iterator[Verdict]:
    """Yield a verdict on each keyword of one schema.

    They repeat decisions of ``SchemaIndex`` and of lowering: change both together.
    """
    defined = location.resource.dialect.keywords
    for keyword in location.schema:
        spend((len(location.pointer) + len(keyword)) // _POINTER_BYTES_PER_UNIT)
        here = child_pointer(location.pointer, keyword)
        definition = defined.get(keyword)
        if definition is None:
            yield Verdict(here, Enforcement.ANNOTATION, note_on_unknown(keyword, location))
        elif keyword == "$schema" and location.schema is not location.resource.root:
            yield Verdict(here, Enforcement.ANNOTATION, "only a schema with a URI chooses a draft")
        elif definition.role in (Role.ANNOTATION, Role.IDENTIFIER):
            yield Verdict(here, Enforcement.ANNOTATION)
        elif keyword not in location.keywords:
            yield Verdict(here, Enforcement.ANNOTATION, "hidden by $ref up to draft 7")
        else:
            yield Verdict(here, *_enforcement(definition, location, options))


def _enforcement(
    definition: Keyword, location: Location, options: JsonOptions
) -> tuple[Enforcement, str]:
    """Return how far a keyword of ``location.keywords`` is enforced, and a note, empty for none.

    The order matters: a keyword without its companion has no effect in any case.
    """
    keywords, name = location.keywords, definition.name
    companion = _COMPANION_KEYWORD.get(name)
    if isinstance(keywords[name], bool):
        companion = _SWITCHED_BOUND.get(name, companion)
    if companion is not None and companion not in keywords:
        return Enforcement.ANNOTATION, f"means nothing without {companion!r}"
    if name == "additionalItems" and not isinstance(keywords.get("items"), list):
        return Enforcement.ANNOTATION, "means nothing without a list of 'items'"
    if name == "format":
        return _format_enforcement(location, options)
    if name == "type":
        notes = list(_default_bound_notes(location, options))
        if notes:
            return Enforcement.NARROWED, "; ".join(notes)
    if name == "multipleOf" and _omits_multiples(location):
        return Enforcement.NARROWED, _LISTED_NOTE
    if name == "properties" and options.key_order is KeyOrder.SCHEMA and len(keywords[name]) > 1:
        return Enforcement.NARROWED, "members in the order of the schema"
    return Enforcement.ENFORCED, ""


def _format_enforcement(location: Location, options: JsonOptions) -> tuple[Enforcement, str]:
    """Return how far ``format`` is enforced, as ``value_keywords._format`` lowers it.

    Change both together.
    """
    name = location.keywords["format"]
    if not location.resource.dialect.enforces_format(options):
        return Enforcement.ANNOTATION, "the options make formats notes"
    if format_regular(name) is None:
        return Enforcement.ANNOTATION, f"no rule for the format {name!r:.80}"
    narrowed = NARROWED_FORMATS.get(name)
    if narrowed is not None:
        return Enforcement.NARROWED, narrowed
    return Enforcement.ENFORCED, ""


def _omits_multiples(location: Location) -> bool:
    """Return whether only some of the multiples that the keywords of a schema allow are written.

    Bounds in another part of the schema may leave so few that all are.
    """
    types = location.keywords.get("type", "number")
    type_names = types if isinstance(types, list) else [types]
    if not {"integer", "number"} & set(type_names):
        return False
    return omits_multiples(number_assertion(location))


def _listed_items(keywords: Mapping[str, Any]) -> tuple[int, bool]:
    """Return how many items have schemas of their own, and whether there may be no others."""
    if "prefixItems" in keywords:
        return len(keywords["prefixItems"]), keywords.get("items") is False
    items = keywords.get("items")
    if isinstance(items, list):  # in drafts before 2020-12
        return len(items), keywords.get("additionalItems") is False
    return 0, False


def _default_bound_notes(location: Location, options: JsonOptions) -> Iterator[str]:
    """Yield a note on each bound of the options that narrows the keyword ``type``.

    ``StringRules``, ``NumberRules`` and ``NextItems`` apply these bounds: change both together.
    Only keywords beside ``type`` count here, while another part of the schema may ask for more, or
    for less. A number between two bounds of the schema may still have any number of decimals; an
    integer may not.
    """
    keywords = location.keywords
    types = keywords["type"]
    type_names = types if isinstance(types, list) else [types]
    if "enum" in keywords or "const" in keywords:
        return
    max_length, max_digits = options.max_string_length, options.max_number_digits
    if "string" in type_names and max_length is not None and "maxLength" not in keywords:
        longest = _longest_of_format(location, options)
        if longest is None or longest > max_length:
            most = max(max_length, int(keywords.get("minLength", 0)))
            unless = ", unless the pattern needs more" if "pattern" in keywords else ""
            yield f"at most {most} characters{unless}"
    most_items = options.max_array_items
    if "array" in type_names and most_items is not None and "maxItems" not in keywords:
        num_listed, is_closed_list = _listed_items(keywords)
        if not is_closed_list:
            most = max(most_items, num_listed)
            yield f"at most {most} items, unless the array may not end there"
    most_members = options.max_additional_members
    is_closed = (
        keywords.get("additionalProperties") is False and "patternProperties" not in keywords
    )
    is_open = not is_closed and "maxProperties" not in keywords
    if "object" in type_names and most_members is not None and is_open:
        yield f"at most {most_members} unnamed members, unless the object may not end there"
    if {"integer", "number"} & set(type_names) and max_digits is not None:
        # Truth values of draft 4 bound nothing by themselves.
        has_low, has_high = (
            is_number(keywords.get(bound)) or is_number(keywords.get(strict))
            for strict, bound in _SWITCHED_BOUND.items()
        )
        if "number" in type_names or not (has_low and has_high):
            yield _digits_note(keywords, max_digits)


def _digits_note(keywords: Mapping[str, Any], max_digits: int) -> str:
    """Return the note on how many digits numbers may have."""
    values = [Decimal(keywords[name]) for name in _NUMBERS if is_number(keywords.get(name))]
    limits = digit_limits(values, max_digits)
    assert limits is not None, "there are limits, as there is max_digits"
    whole, fraction = limits
    if whole == fraction:
        return f"at most {whole} digits on either side of the point"
    return f"at most {whole} digits before the point and {fraction} after it"


def _longest_of_format(location: Location, options: JsonOptions) -> int | None:
    """Return the length to which an enforced ``format`` limits strings; ``None`` for any length."""
    if "format" not in location.keywords:
        return None
    enforcement, _ = _format_enforcement(location, options)
    if enforcement is Enforcement.ANNOTATION:
        return None
    return MAX_FORMAT_LENGTHS.get(location.keywords["format"])


_LISTED_NOTE: Final = (
    f"only the {MAX_LISTED_MULTIPLES} multiples nearest to zero within the bounds; "
    "beyond them no number"
)
"""The note on multiples that are listed, as their automaton would be too large."""
_COMPANION_KEYWORD = {
    "then": "if",
    "else": "if",
    "minContains": "contains",
    "maxContains": "contains",
}
"""Keywords that have no effect without another one, which is the value."""
_NUMBERS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
)
"""Keywords whose numbers may need more digits than the options allow."""
_SWITCHED_BOUND = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
"""Keywords that say, where they are ``true`` or ``false``, whether another one is exclusive."""


_START, _END = "<!-- keywords -->\n", "<!-- end of keywords -->\n"
_OUTCOMES = {
    Role.ASSERTION: "enforced",
    Role.APPLICATOR: "enforced",
    Role.IDENTIFIER: "read",
    Role.ANNOTATION: "a note, by specification",
}


def replace_table(page: str) -> str:
    """Return a page of documentation with its table of keywords updated.

    The page has to contain both marks of the table, in this order.
    """
    before, _, rest = page.partition(_START)
    _, _, after = rest.partition(_END)
    return before + _START + "".join(f"{line}\n" for line in _table_lines()) + _END + after


def _table_lines() -> Iterator[str]:
    """Yield the lines of the table of keywords, in the order of ``KEYWORDS``, and the formats."""
    yield "| keyword | drafts | what becomes of it |"
    yield "|---|---|---|"
    for definition in KEYWORDS:
        outcome = _OUTCOMES[definition.role] + (f": {definition.note}" if definition.note else "")
        yield f"| `{definition.name}` | {_drafts(definition)} | {outcome} |"
    yield ""
    names = ", ".join(f"`{name}`" for name in known_formats())
    yield f"Formats with a rule: {names}. Others are notes, or refused beside unknown keywords."


def _drafts(definition: Keyword) -> str:
    """Return the drafts that define a keyword, as the table writes them."""
    first, last = (
        draft.label.removeprefix("draft ") for draft in (definition.first, definition.last)
    )
    return first if first == last else f"{first} to {last}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(replace_table(path.read_text()))
