"""What becomes of each keyword of a schema; and the table of keywords in the documentation.

``python -m guided.json_schema.reader.verdicts docs/json-schema-support.md`` updates the table.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

from guided.json_schema.reader.formats import NARROWED_FORMATS, format_regular
from guided.json_schema.reader.keywords import KEYWORDS, Keyword, Role
from guided.json_schema.reader.survey import Location, Survey
from guided.json_schema.reader.text import child
from guided.runtime.fuel import spend
from guided.spec import Enforcement, FormatMode, JsonOptions, KeyOrder, Verdict

__all__ = ["judge", "with_current_table"]


def judge(survey: Survey, options: JsonOptions) -> tuple[Verdict, ...]:
    """Return a verdict on every keyword of every schema that was met, except in metaschemas.

    In the order in which schemas were met. Whether the root leads to a schema does not matter.
    """
    return tuple(
        verdict
        for location in survey.locations.values()
        if not location.resource.is_standard
        for verdict in _verdicts(location, options)
    )


def _verdicts(location: Location, options: JsonOptions) -> Iterator[Verdict]:
    """Yield a verdict on each keyword of one schema.

    Verdicts repeat what ``Survey`` and the lowering decide; a change there has to be made here too.
    """
    known = location.resource.dialect.keywords
    for keyword in location.schema:
        here = child(location.pointer, keyword)
        word = known.get(keyword)
        if word is None:
            yield Verdict(here, Enforcement.ANNOTATION, _unknown(keyword, location))
        elif keyword == "$schema" and location.schema is not location.resource.root:
            yield Verdict(here, Enforcement.ANNOTATION, "only a schema with a URI chooses a draft")
        elif word.role in (Role.ANNOTATION, Role.IDENTIFIER):
            yield Verdict(here, Enforcement.ANNOTATION)
        elif keyword not in location.keywords:
            yield Verdict(here, Enforcement.ANNOTATION, "hidden by $ref up to draft 7")
        else:
            yield Verdict(here, *_enforcement(word, location, options))


def _enforcement(
    word: Keyword, location: Location, options: JsonOptions
) -> tuple[Enforcement, str]:
    """Return how far an asserting keyword is enforced, and a note; first what makes it void.

    The order matters: a keyword without the one that it needs is void, whatever else is true of it.
    """
    keywords, name = location.keywords, word.name
    needed = _NEEDED.get(name)
    if needed is not None and needed not in keywords:
        return Enforcement.ANNOTATION, f"means nothing without {needed!r}"
    if name == "additionalItems" and not isinstance(keywords.get("items"), list):
        return Enforcement.ANNOTATION, "means nothing without a list of 'items'"
    if name == "format":
        return _format(location, options)
    if name == "type":
        bounds = list(_default_bounds(keywords, options))
        if bounds:
            return Enforcement.NARROWED, "; ".join(bounds)
    if name == "properties" and options.key_order is KeyOrder.SCHEMA and len(keywords[name]) > 1:
        return Enforcement.NARROWED, "members in the order of the schema"
    return Enforcement.ENFORCED, ""


def _format(location: Location, options: JsonOptions) -> tuple[Enforcement, str]:
    """Return the verdict on ``format`` as ``value_keywords._format`` lowers it.

    Change both together.
    """
    name = location.keywords["format"]
    if options.format is not FormatMode.ASSERT and not location.resource.dialect.asserts_format:
        return Enforcement.ANNOTATION, "the options make formats notes"
    if format_regular(name) is None:
        return Enforcement.ANNOTATION, f"no rule for the format {name!r}"
    narrowed = NARROWED_FORMATS.get(name)
    if narrowed is not None:
        return Enforcement.NARROWED, narrowed
    return Enforcement.ENFORCED, ""


def _default_bounds(keywords: dict[str, object], options: JsonOptions) -> Iterator[str]:
    """Yield what the options bound where a type is named and the schema itself sets no bound.

    ``StringRules`` and ``NumberRules`` apply the bounds themselves; here they are only reported.
    """
    types = keywords["type"]
    names = types if isinstance(types, list) else [types]
    if "enum" in keywords or "const" in keywords:
        return
    length, digits = options.max_string_length, options.max_number_digits
    if "string" in names and length is not None and not keywords.keys() & {"maxLength", "format"}:
        yield f"at most {length} characters"
    if {"integer", "number"} & set(names) and digits is not None:
        lower = keywords.keys() & {"minimum", "exclusiveMinimum"}
        upper = keywords.keys() & {"maximum", "exclusiveMaximum"}
        if "number" in names or not (lower and upper):
            yield f"at most {digits} digits on either side of the point"


_NEEDED = {
    "then": "if",
    "else": "if",
    "minContains": "contains",
    "maxContains": "contains",
}
"""Keywords that mean nothing without another one."""


def _unknown(keyword: str, location: Location) -> str:
    """Return what to say about a keyword that the dialect does not define.

    A keyword of another draft is no misspelling, so that is checked first.
    """
    if keyword in _ALL_NAMES:
        draft = location.resource.dialect.draft
        return f"means nothing in {draft.label}"
    spend(100)
    close = difflib.get_close_matches(keyword, _ALL_NAMES, n=1, cutoff=0.8)
    return "no draft defines it" + (f"; close to {close[0]!r}" if close else "")


_ALL_NAMES = sorted({word.name for word in KEYWORDS})
_START, _END = "<!-- keywords -->\n", "<!-- end of keywords -->\n"
_OUTCOMES = {
    Role.ASSERTION: "enforced",
    Role.APPLICATOR: "enforced",
    Role.IDENTIFIER: "read",
    Role.ANNOTATION: "a note, by specification",
}


def with_current_table(page: str) -> str:
    """Return the page with the table between its two marks replaced.

    Both marks have to be in the page, in this order.
    """
    before, _, rest = page.partition(_START)
    _, _, after = rest.partition(_END)
    return before + _START + "".join(f"{line}\n" for line in _table()) + _END + after


def _table() -> Iterator[str]:
    """Yield the lines of the table of keywords, in the order of ``KEYWORDS``."""
    yield "| keyword | drafts | what becomes of it |"
    yield "|---|---|---|"
    for word in KEYWORDS:
        outcome = _OUTCOMES[word.role] + (f": {word.note}" if word.note else "")
        yield f"| `{word.name}` | {_drafts(word)} | {outcome} |"


def _drafts(word: Keyword) -> str:
    first, last = (draft.label.removeprefix("draft ") for draft in (word.first, word.last))
    return first if first == last else f"{first} to {last}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_current_table(path.read_text()))
