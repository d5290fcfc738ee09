"""Cases of the official suite that we judge differently, each with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.conformance.suite import Part

__all__ = ["EXCEPTIONS", "Deviation"]


@dataclass(frozen=True, slots=True)
class Deviation:
    """Cases of one group, in one or several drafts, that are all judged differently."""

    part: Part
    file: str
    group: str
    cases: tuple[str, ...]
    drafts: tuple[str, ...]
    reason: str


_SINCE_7: Final = ("draft7", "draft2019-09", "draft2020-12")
_PUNYCODE: Final = (
    "an A-label has to be the Punycode of a valid U-label (RFC 5890, 2.3.2.1); each number in it"
    " goes on from the letters and places of all before it (RFC 3492, 6.2), so states grow with the"
    " power of their count: few letters outside of ASCII are told, these are more"
)

EXCEPTIONS: Final = (
    Deviation(
        Part.OPTIONAL,
        "format-assertion",
        "schema that uses custom metaschema with format-assertion: false",
        ("format-assertion: false: invalid string",),
        ("draft2020-12",),
        "the suite asks for annotations here, and a vocabulary that is not required may be ignored",
    ),
    Deviation(
        Part.OPTIONAL,
        "content",
        "validation of string-encoded content based on media type",
        ("an invalid JSON document",),
        ("draft7",),
        "content keywords are annotations",
    ),
    Deviation(
        Part.OPTIONAL,
        "content",
        "validation of binary string-encoding",
        ("an invalid base64 string (% is not a valid character)",),
        ("draft7",),
        "content keywords are annotations",
    ),
    Deviation(
        Part.OPTIONAL,
        "content",
        "validation of binary-encoded media type documents",
        (
            "a validly-encoded invalid JSON document",
            "an invalid base64 string that is valid JSON",
        ),
        ("draft7",),
        "content keywords are annotations",
    ),
    Deviation(
        Part.FORMAT,
        "hostname",
        "validation of A-label (punycode) host names",
        (
            "a valid host name (example.test in Hangul)",
            "Exceptions that are PVALID, left-to-right chars",
            "Exceptions that are PVALID, right-to-left chars",
            "Greek KERAIA followed by Greek",
            "Arabic-Indic digits not mixed with Extended Arabic-Indic digits",
            "ZERO WIDTH JOINER preceded by Virama",
            "ZERO WIDTH NON-JOINER preceded by Virama",
            "ZERO WIDTH NON-JOINER not preceded by Virama but matches regexp",
        ),
        _SINCE_7,
        _PUNYCODE,
    ),
    Deviation(
        Part.FORMAT,
        "hostname",
        "validation of host names",
        ("a valid punycoded IDN hostname",),
        ("draft4", "draft6"),
        _PUNYCODE,
    ),
    Deviation(
        Part.FORMAT,
        "idn-hostname",
        "validation of internationalized host names",
        ("valid Chinese Punycode",),
        _SINCE_7,
        _PUNYCODE,
    ),
    Deviation(
        Part.FORMAT,
        "idn-hostname",
        "validation of separators in internationalized host names",
        (
            "label too long if separator ignored (full stop)",
            "label too long if separator ignored (ideographic full stop)",
            "label too long if separator ignored (fullwidth full stop)",
            "label too long if separator ignored (halfwidth ideographic full stop)",
        ),
        _SINCE_7,
        "63 octets are the bound of the A-label (RFC 5890, 2.3.2.1): that of this label of 52 Greek"
        " letters has 61, but the same letters in another order take more, so that their count does"
        " not tell; 25 letters fit in any order",
    ),
)
