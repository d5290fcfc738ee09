"""Values of ``format`` that are enforced, each as a regular expression for the whole string.

Some are narrower than their specification, never wider: what is left out is said beside it.
"""

from __future__ import annotations

import functools

from guided.automata.regular import Regular
from guided.frontends.regex import parse_regex

__all__ = ["ANNOTATED_FORMATS", "NARROWED_FORMATS", "format_regular", "known_formats"]

# Year 0000 is left out: no calendar type of Python holds it.
_YEAR = r"(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})"
_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
    rf"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
# RFC 3339, section 5.6, without leap seconds and with at most microseconds.
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
# RFC 3339, appendix A. Numbers of at most four digits: Python's timedelta ends at 999,999,999 days.
_N = r"\d{1,4}"
_DURATION = (
    rf"P(?:{_N}W|(?:{_N}Y(?:{_N}M(?:{_N}D)?)?|{_N}M(?:{_N}D)?|{_N}D)"
    rf"(?:T(?:{_N}H(?:{_N}M(?:{_N}S)?)?|{_N}M(?:{_N}S)?|{_N}S))?"
    rf"|T(?:{_N}H(?:{_N}M(?:{_N}S)?)?|{_N}M(?:{_N}S)?|{_N}S))"
)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
# RFC 5321: unquoted local parts and domain names only.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?"

_FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": rf"{_DATE}T{_TIME}",
    "duration": _DURATION,
    "email": rf"{_ATOM}(?:\.{_ATOM}){{0,2}}@{_LABEL}(?:\.{_LABEL}){{0,3}}\.[A-Za-z]{{2,12}}",
    "ipv4": rf"{_OCTET}(?:\.{_OCTET}){{3}}",
    "uri": rf"https?://{_LABEL}(?:\.{_LABEL}){{1,3}}(?:/[A-Za-z0-9._~/-]{{0,100}})?",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    **{
        # Pydantic's names for UUIDs of one version (RFC 9562, section 4).
        f"uuid{version}": rf"[0-9a-f]{{8}}-[0-9a-f]{{4}}-{version}[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}"
        r"-[0-9a-f]{12}"
        for version in (1, 3, 4, 5)
    },
}

NARROWED_FORMATS = {
    "date": "no year 0000",
    "time": "no leap second, at most microseconds",
    "date-time": "no year 0000, no leap second, at most microseconds",
    "duration": "at most four digits a number",
    "email": "no quoted local part, bounded lengths, a domain name of two labels or more",
    "uri": "addresses of http and https with a plain path, without user, port and query",
    **dict.fromkeys(("uuid", "uuid1", "uuid3", "uuid4", "uuid5"), "lower case"),
}
"""What a format's expression leaves out of the format's own language."""

ANNOTATED_FORMATS = frozenset(
    {"binary", "password", "path", "file-path", "directory-path", "float", "double"}
)
"""Formats without a rule of their own for strings: Pydantic's and OpenAPI's notes to people."""


def known_formats() -> tuple[str, ...]:
    """The formats that are enforced, by name."""
    return tuple(sorted(_FORMATS))


@functools.cache
def format_regular(name: str) -> Regular | None:
    """The expression for the whole of a string of this format, ``None`` for one unknown."""
    pattern = _FORMATS.get(name)
    return None if pattern is None else parse_regex(f"^(?:{pattern})$")
