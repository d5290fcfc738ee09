"""Dates, times and durations: RFC 3339, section 5.6 and appendix A."""

from __future__ import annotations

__all__ = ["DATE", "DATE_TIME", "DURATION", "TIME"]

_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
DATE = (
    r"(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    rf"|{_LEAP_YEAR}-02-29)"
)


def _leap_second() -> str:
    """Times of second 60, which is there at 23:59 UTC only, in every offset of quarter hours."""
    last_minute, day = 23 * 60 + 59, 24 * 60
    options = ["23:59:60(?:\\.\\d+)?[Zz]"]
    for offset in range(0, day, 15):
        ahead, behind = (last_minute + offset) % day, (last_minute - offset) % day
        written = f"{offset // 60:02}:{offset % 60:02}"
        options += [
            rf"{local // 60:02}:{local % 60:02}:60(?:\.\d+)?{sign}{written}"
            for local, sign in ((ahead, r"\+"), (behind, "-"))
        ]
    return "|".join(options)


TIME = (
    r"(?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
    rf"|{_leap_second()})"
)
DATE_TIME = f"{DATE}[Tt]{TIME}"

DURATION = (
    r"P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"
    r"(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?"
    r"|T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))"
)
