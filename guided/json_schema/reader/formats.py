"""Regular expressions of the values of ``format`` that are enforced, each for whole strings.

Some are narrower than their specification, never wider: ``NARROWED_FORMATS`` lists what is left
out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from guided.json_schema.reader.format_patterns import (
    DATE,
    DATE_TIME,
    DURATION,
    IPV4,
    IPV6,
    IRI,
    IRI_REFERENCE,
    MAX_REGEX_DEPTH,
    TIME,
    URI,
    URI_REFERENCE,
    URI_TEMPLATE,
    regex,
)
from guided.json_schema.reader.host_names import (
    MAX_ALPHABET_LABEL,
    email,
    hostname,
    idn_email,
    idn_hostname,
)
from guided.json_schema.reader.keywords import LATEST, Draft
from guided.regular.expression import Regular
from guided.regular.patterns import parse_regex

__all__ = ["MAX_FORMAT_LENGTHS", "NARROWED_FORMATS", "format_regular", "known_formats"]

_HEX = "[0-9A-Fa-f]"
# RFC 6901, section 3.
_JSON_POINTER = "(?:/(?:[^~/]|~[01])*)*"
_PATTERNS = {
    "date": DATE,
    "time": TIME,
    "date-time": DATE_TIME,
    "duration": DURATION,
    "ipv4": IPV4,
    "ipv6": IPV6,
    "iri": IRI,
    "iri-reference": IRI_REFERENCE,
    "json-pointer": _JSON_POINTER,
    # draft-bhutton-relative-json-pointer-00, section 3.
    "relative-json-pointer": rf"(?:0|[1-9]\d*)(?:[+-](?:0|[1-9]\d*))?(?:#|{_JSON_POINTER})",
    "uri": URI,
    "uri-reference": URI_REFERENCE,
    "uri-template": URI_TEMPLATE,
    # RFC 9562, section 4; Pydantic has names for those of one version.
    "uuid": rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}",
    **{
        f"uuid{version}": rf"{_HEX}{{8}}-{_HEX}{{4}}-{version}{_HEX}{{3}}-[89ABab]{_HEX}{{3}}"
        rf"-{_HEX}{{12}}"
        for version in range(1, 9)
    },
}
_PATTERNS_TO_DRAFT_7 = {
    # draft-handrews-relative-json-pointer-01, section 3: without a shift of the index.
    "relative-json-pointer": rf"(?:0|[1-9]\d*)(?:#|{_JSON_POINTER})",
}
"""The patterns of formats that were narrower up to draft 7. Each is in ``_PATTERNS`` as well:
whether there is a rule for a format does not depend on the draft."""
_BUILDERS: dict[str, Callable[[], Regular]] = {
    "email": email,
    "hostname": hostname,
    "idn-email": idn_email,
    "idn-hostname": idn_hostname,
    "regex": regex,
}
_LEAP_SECONDS = "leap seconds only where the offset is in whole quarters of an hour"
_NAME_LENGTHS = "few long labels or more short ones (three of 63 characters, twelve of 14)"
_SCRIPTS = (
    "labels with letters outside of ASCII of at most seven characters, of the scripts most in use, "
    f"or of {MAX_ALPHABET_LABEL} in which these letters are all Latin, all Greek or all Cyrillic"
)
_A_LABELS = (
    "one letter of Latin 1 or Persian digit beside at most 30 characters of ASCII, one dot in "
    "the first of two l, one or two kana, a kana and an ideograph, one ideograph, or up to three "
    "Hebrew letters"
)
NARROWED_FORMATS = {
    "time": _LEAP_SECONDS,
    "date-time": _LEAP_SECONDS,
    "hostname": f"{_NAME_LENGTHS}, at most one label of Punycode, between "
    f"at most two of 50 characters on either side (Hebrew: none before it), with {_A_LABELS}",
    "email": f"a domain of at most 189 characters with {_NAME_LENGTHS}; between quotes at most 31 "
    "characters",
    "idn-hostname": f"{_SCRIPTS}; four labels; no Punycode",
    "idn-email": f"domains with {_SCRIPTS}; no Punycode; between quotes at most 15 characters",
    "regex": f"groups in groups to a depth of {MAX_REGEX_DEPTH}, one name, "
    "back references only to a group in front of all else that is named by a small letter, "
    "of the ranges those from one half of the letters or digits to the other, or from the first",
    "uri-template": "without the operators that RFC 6570 keeps for later versions",
}
"""By format, the valid strings that its expression leaves out, or the only ones it allows."""
MAX_FORMAT_LENGTHS = {
    "date": 10,
    "email": 250,
    "hostname": 247,
    "idn-email": 254,
    "idn-hostname": 253,
    "ipv4": 15,
    "ipv6": 45,
    **{name: 36 for name in _PATTERNS if name.startswith("uuid")},
}
"""By format, the length of its longest string in code points; formats of any length are missing."""


def known_formats() -> tuple[str, ...]:
    """Return the names of the formats that are enforced, sorted."""
    return tuple(sorted({*_PATTERNS, *_BUILDERS}))


def format_regular(name: str, draft: Draft = LATEST) -> Regular | None:
    """Return the regular expression of whole strings of a format; ``None`` for an unknown format.

    The ``draft`` of the schema matters to few formats.

    Results are cached, as the larger ones take long to make.
    """
    if draft <= Draft.DRAFT_7 and name in _PATTERNS_TO_DRAFT_7:
        return _whole(_PATTERNS_TO_DRAFT_7[name])
    # Unknown names are not cached: requests choose them, and there is no end of them.
    return _build_format(name) if name in _BUILDERS or name in _PATTERNS else None


@functools.cache
def _build_format(name: str) -> Regular:
    """Compute ``format_regular`` for a known format."""
    return _BUILDERS[name]() if name in _BUILDERS else _whole(_PATTERNS[name])


@functools.cache
def _whole(pattern: str) -> Regular:
    """Return the regular expression of the strings that a pattern matches as a whole."""
    return parse_regex(f"^(?:{pattern})$")
