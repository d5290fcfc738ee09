"""Makes JSON Schemas of the dates, times and durations that pydantic reads.

Values without bounds are those of the standard format that Python's types can hold: no year 0000,
no leap second, at most microseconds. With bounds, times are whole seconds in UTC, or in the only
offset that the type allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any, Literal, TypeAlias

from guided.response_types.pattern_text import at_least, at_most, integers_between

__all__ = ["Zone", "date_schema", "datetime_schema", "duration_schema", "time_schema"]

Zone: TypeAlias = Literal["aware", "naive"] | int | None
"""The allowed values: with or without an offset, with one offset in seconds, or all."""

_YEAR = r"(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})"
_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
    rf"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
_FRACTION = r"(?:\.\d{1,6})?"
_OFFSET = r"(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"

# Sums of numbers this short stay within the 999,999,999 days of a timedelta, and within what
# pydantic can add up on the way.
_DURATION = (
    r"P(?:\d{1,7}W|(?:\d{1,5}Y(?:\d{1,6}M(?:\d{1,8}D)?)?|\d{1,6}M(?:\d{1,8}D)?|\d{1,8}D)"
    r"(?:T(?:\d{1,5}H(?:\d{1,7}M(?:\d{1,9}S)?)?|\d{1,7}M(?:\d{1,9}S)?|\d{1,9}S))?"
    r"|T(?:\d{1,5}H(?:\d{1,7}M(?:\d{1,9}S)?)?|\d{1,7}M(?:\d{1,9}S)?|\d{1,9}S))"
)
_MAX_SECONDS = 999_999_999
_MAX_DAYS = 99_999_999

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_CALENDAR, _CLOCK, _CALENDAR_AND_CLOCK = slice(10), slice(11, 19), slice(19)
"""Parts of a text like ``2020-01-01T00:00:00``."""
_ANY_DAY = date(2000, 1, 1)


@dataclass(frozen=True, slots=True)
class _Range:
    """Inclusive bounds as texts of one shape."""

    low: str | None
    high: str | None

    @classmethod
    def of(cls, low: datetime | None, high: datetime | None, shape: slice) -> _Range:
        """Return the bounds as this part of their text."""
        return cls(*(None if end is None else end.isoformat()[shape] for end in (low, high)))

    def patterns(self, suffix: str) -> list[str]:
        ends = [] if self.low is None else [at_least(self.low)]
        if self.high is not None:
            ends.append(at_most(self.high))
        return [f"^{end}{suffix}$" for end in ends]


def date_schema(bounds: dict[str, Any]) -> dict[str, object]:
    """Return the schema of dates; ``bounds`` are those of pydantic's core schema."""
    try:
        low, high = _wall_clock_bounds(bounds, _DAY)
    except OverflowError:
        return {"not": {}}
    span = _Range.of(low, high, _CALENDAR)
    return _string([f"^{_DATE}$", *span.patterns("")], format="date")


def time_schema(bounds: dict[str, Any], zone: Zone) -> dict[str, object]:
    """Return the schema of times of day."""
    low, high = _wall_clock_bounds(bounds, _SECOND, zone)
    if any(end is not None and end.date() != _ANY_DAY for end in (low, high)):
        return {"not": {}}
    span = _Range.of(low, high, _CLOCK)
    return _string_of_time("time", _TIME, span, zone)


def datetime_schema(bounds: dict[str, Any], zone: Zone) -> dict[str, object]:
    """Return the schema of moments, with date and time."""
    try:
        low, high = _wall_clock_bounds(bounds, _SECOND, zone)
    except OverflowError:
        return {"not": {}}
    span = _Range.of(low, high, _CALENDAR_AND_CLOCK)
    return _string_of_time("date-time", f"{_DATE}T{_TIME}", span, zone)


def duration_schema(bounds: dict[str, Any]) -> dict[str, object]:
    """Return the schema of durations; with bounds they are whole seconds, or whole days if long."""
    low, high = _duration_bounds(bounds, _SECOND)
    if low is None and high is None:
        return _string([f"^{_DURATION}$"], format="duration")
    unit, shape, most = _SECOND, "PT{}S", _MAX_SECONDS
    if (low or 0) > most or (high or 0) < -most:
        unit, shape, most = _DAY, "P{}D", _MAX_DAYS
        low, high = _duration_bounds(bounds, unit)
    if high is not None and high < 0:
        # RFC 3339 has no sign, so this is no "format" of JSON Schema.
        digits = integers_between(-high, min(most, -low) if low is not None else most)
        return _string([f"^-{shape.format(digits)}$"])
    digits = integers_between(max(low or 0, 0), most if high is None else min(high, most))
    return _string([f"^{shape.format(digits)}$"], format="duration")


def _string_of_time(name: str, shape: str, span: _Range, zone: Zone) -> dict[str, object]:
    is_bounded = span.low is not None or span.high is not None
    if zone == "naive":
        suffix = "" if is_bounded else _FRACTION
        # The standard format requires an offset.
        return _string([f"^{shape}{suffix}$", *span.patterns("")])
    offset = _offset_text(zone) if isinstance(zone, int) else "Z" if is_bounded else _OFFSET
    suffix = offset if is_bounded else _FRACTION + offset
    return _string([f"^{shape}{suffix}$", *span.patterns(offset)], format=name)


def _string(patterns: list[str], **keywords: str) -> dict[str, object]:
    """Return the schema of the strings that all the patterns match, with further keywords."""
    schema: dict[str, object] = {"type": "string", **keywords, "pattern": patterns[0]}
    if len(patterns) > 1:
        schema["allOf"] = [{"pattern": pattern} for pattern in patterns[1:]]
    return schema


def _offset_text(seconds: int) -> str:
    sign = "-" if seconds < 0 else r"\+"
    return f"{sign}{abs(seconds) // 3600:02}:{abs(seconds) % 3600 // 60:02}"


def _wall_clock_bounds(
    bounds: dict[str, Any], unit: timedelta, zone: Zone = None
) -> tuple[datetime | None, datetime | None]:
    """Return the least and the greatest value in whole units; ``None`` for no bound.

    As wall-clock time in the time zone of the values.
    """
    lows, highs = [], []
    for name in ("ge", "gt"):
        if name in bounds:
            for moment in _to_wall_clocks(bounds[name], zone):
                floor = _floor(moment, unit)
                lows.append(floor if name == "ge" and floor == moment else floor + unit)
    for name in ("le", "lt"):
        if name in bounds:
            for moment in _to_wall_clocks(bounds[name], zone):
                floor = _floor(moment, unit)
                highs.append(floor - unit if name == "lt" and floor == moment else floor)
    # Zones differ by less than a day; a future time must still be in the future when it is read.
    now = datetime.now(UTC).replace(tzinfo=None)
    if bounds.get("now_op") == "past":
        highs.append(_floor(now - 2 * _DAY, unit))
    elif bounds.get("now_op") == "future":
        lows.append(_floor(now + 3 * _DAY, unit))
    return max(lows, default=None), min(highs, default=None)


def _to_wall_clocks(bound: date | time, zone: Zone) -> list[datetime]:
    """Return the wall-clock times with which pydantic may compare a bound.

    It takes offsets into account only if both sides have one.
    """
    if isinstance(bound, datetime):
        moment = bound
    elif isinstance(bound, time):
        moment = datetime.combine(_ANY_DAY, bound)
    else:
        moment = datetime.combine(bound, time())
    wall = moment.replace(tzinfo=None)
    if moment.tzinfo is None:
        return [wall]
    offset = zone if isinstance(zone, int) else 0
    shifted = moment.astimezone(timezone(timedelta(seconds=offset))).replace(tzinfo=None)
    return [wall, shifted] if zone == "naive" else [shifted]


def _floor(moment: datetime, unit: timedelta) -> datetime:
    if unit == _DAY:
        return moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return moment.replace(microsecond=0)


def _duration_bounds(bounds: dict[str, Any], unit: timedelta) -> tuple[int | None, int | None]:
    """Return the least and the greatest number of whole units; ``None`` for no bound."""
    lows = [-(-bounds["ge"] // unit)] if "ge" in bounds else []
    lows += [bounds["gt"] // unit + 1] if "gt" in bounds else []
    highs = [bounds["le"] // unit] if "le" in bounds else []
    highs += [-(-bounds["lt"] // unit) - 1] if "lt" in bounds else []
    return max(lows, default=None), min(highs, default=None)
