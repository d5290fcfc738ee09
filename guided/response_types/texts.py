"""Patterns of strings that pydantic reads as something else."""

from __future__ import annotations

from collections.abc import Mapping

from guided.response_types.pattern_text import integers_between, literal

__all__ = [
    "BASE64_NAMES",
    "FORMATS",
    "STANDARD_NAMES",
    "base64_pattern",
    "hex_pattern",
    "url_pattern",
    "uuid_pattern",
]

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
# Host bits must be zero in a network.
_IPV4_NETWORK = (
    rf"(?:{_IPV4}(?:/32)?|(?:{_OCTET}\.){{3}}0/24|(?:{_OCTET}\.){{2}}0\.0/16|{_OCTET}\.0\.0\.0/8)"
)
_HEXTET = r"[0-9a-f]{1,4}"
_IPV6 = (
    "(?:"
    + "|".join(
        [
            rf"(?:{_HEXTET}:){{7}}{_HEXTET}",
            # ``::`` stands for two groups or more.
            *(
                rf"{_HEXTET}(?::{_HEXTET}){{{before - 1}}}::"
                rf"(?:{_HEXTET}(?::{_HEXTET}){{0,{5 - before}}})?"
                for before in range(1, 6)
            ),
            rf"{_HEXTET}(?::{_HEXTET}){{5}}::",
            rf"::(?:{_HEXTET}(?::{_HEXTET}){{0,5}})?",
        ]
    )
    + ")"
)
_IPV6_NETWORK = rf"(?:{_IPV6}(?:/128)?|(?:{_HEXTET}:){{4}}:/64|(?:{_HEXTET}:){{3}}:/48)"
_IPV4_INTERFACE = rf"{_IPV4}(?:/(?:3[0-2]|[12]?\d))?"
_IPV6_INTERFACE = rf"{_IPV6}(?:/(?:12[0-8]|1[01]\d|[1-9]?\d))?"

# A domain name: no label with two hyphens in a row (those may be an encoding that must be valid),
# the last label of letters only (a number would make it an address).
_LABEL = r"[a-z0-9]{1,30}(?:-[a-z0-9]{1,30})?"
_HOST = rf"(?:{_LABEL}\.){{0,4}}[a-z]{{1,20}}"
_PORT = integers_between(1, 65535)
_CHARACTERS = r"[A-Za-z0-9._~!$&'()*+,;=:@/-]"
_AFTER_HOST = (
    rf"(?:/{_CHARACTERS}{{0,200}})?(?:\?{_CHARACTERS}{{0,200}})?(?:#{_CHARACTERS}{{0,60}})?"
)
_MAX_URL_LENGTH = 900
"""Longer than any URL of these patterns; only shorter limits are written out."""

# RFC 5321: unquoted local parts and domain names only.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
_DOMAIN = rf"(?:{_LABEL}\.){{1,3}}[a-z]{{2,12}}"
_EMAIL = rf"{_ATOM}(?:\.{_ATOM}){{0,2}}@{_DOMAIN}"
# Domains without mail (RFC 6761), which pydantic's reader refuses.
_SPECIAL_DOMAINS = r"[.@](?:arpa|invalid|local|localhost|onion|test)>?$"


def _string(pattern: str) -> dict[str, object]:
    return {"pattern": f"^(?:{pattern})$"}


def _either(*patterns: str) -> dict[str, object]:
    return _string("|".join(patterns))


def uuid_pattern(version: int | None) -> str:
    """Return a pattern of UUIDs (RFC 9562), of one version or of any."""
    rest = (
        "[0-9a-f]{4}-[0-9a-f]{4}"
        if version is None
        else rf"{version}[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}"
    )
    return f"^[0-9a-f]{{8}}-[0-9a-f]{{4}}-{rest}-[0-9a-f]{{12}}$"


def url_pattern(schemes: list[str] | None, *, max_length: int | None) -> dict[str, object]:
    """Return a pattern of URLs with one of the schemes and a host, or a path for ``file``."""
    named = "|".join(literal(scheme) for scheme in schemes or _SCHEMES)
    if schemes == ["file"]:
        pattern = rf"^file:///{_CHARACTERS}{{1,200}}$"
    else:
        user = "" if schemes is None or "http" in schemes else _USER
        pattern = rf"^(?:{named})://{user}{_HOST}(?::{_PORT})?{_AFTER_HOST}$"
    schema: dict[str, object] = {"pattern": pattern}
    if max_length is not None and max_length < _MAX_URL_LENGTH:
        schema["maxLength"] = max_length
    return schema


_SCHEMES = ["http", "https", "ftp", "ws", "wss"]
_USER = r"(?:[A-Za-z0-9_~-]{1,30}(?::[A-Za-z0-9_~-]{1,30})?@)?"


def base64_pattern(least: int, most: int | None, *, url_safe: bool, seven_bit: bool = False) -> str:
    """Match ``least`` to ``most`` bytes in padded base64 (RFC 4648), ASCII if ``seven_bit``."""
    full, one, two = _BASE64_GROUPS[url_safe, seven_bit]
    options = []
    for rest, last in enumerate(("", one, two)):
        low = max(0, -(-(least - rest) // 3))
        high = None if most is None else (most - rest) // 3
        if high is None or high >= low:
            options.append(rf"(?:{full}){{{low},{'' if high is None else high}}}{last}")
    return f"^(?:{'|'.join(options)})$"


def hex_pattern(least: int, most: int | None) -> str:
    """Return a pattern of two hexadecimal digits per byte."""
    return rf"^(?:[0-9a-f]{{2}}){{{least},{'' if most is None else most}}}$"


def _base64_groups(alphabet: str, *, seven_bit: bool) -> tuple[str, str, str]:
    """Return expressions for three bytes, for one and for two."""

    def letters(mask: int) -> str:
        """Return the letters whose six bits have none of the mask."""
        chosen = [letter for value, letter in enumerate(alphabet) if not value & mask]
        return "[" + "".join(chosen).replace("-", r"\-") + "]"

    # The top bits of the bytes; bits that padding leaves unused are zero, too.
    first, second, third = (letters(m if seven_bit else 0) for m in (0b100000, 0b001000, 0b000010))
    return (
        first + second + third + letters(0),
        first + letters(0b001111) + "==",
        first + second + letters(0b000011) + "=",
    )


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_BASE64_GROUPS = {
    (url_safe, seven_bit): _base64_groups(
        _LETTERS + ("-_" if url_safe else "+/"), seven_bit=seven_bit
    )
    for url_safe in (False, True)
    for seven_bit in (False, True)
}

FORMATS: Mapping[str, dict[str, object]] = {
    "email": {**_string(_EMAIL), "not": {"pattern": _SPECIAL_DOMAINS}},
    "name-email": {
        **_string(rf"[A-Za-z]{{1,20}}(?: [A-Za-z]{{1,20}}){{0,3}} <{_EMAIL}>"),
        "not": {"pattern": _SPECIAL_DOMAINS},
    },
    "ipv4": _string(_IPV4),
    "ipv6": _string(_IPV6),
    "ipvanyaddress": _either(_IPV4, _IPV6),
    "ipv4network": _string(_IPV4_NETWORK),
    "ipv6network": _string(_IPV6_NETWORK),
    "ipvanynetwork": _either(_IPV4_NETWORK, _IPV6_NETWORK),
    "ipv4interface": _string(_IPV4_INTERFACE),
    "ipv6interface": _string(_IPV6_INTERFACE),
    "ipvanyinterface": _either(_IPV4_INTERFACE, _IPV6_INTERFACE),
    # Only what decodes to ASCII, which both bytes and strings accept.
    "base64": {"pattern": base64_pattern(0, None, url_safe=False, seven_bit=True)},
    "base64url": {"pattern": base64_pattern(0, None, url_safe=True, seven_bit=True)},
    # What every dialect reads the same way: literals, character classes and their repeats.
    "regex": _string(r"\^?(?:(?:[A-Za-z0-9 _/:;,=@-]|\\[dDsSwW.])[+*?]?){0,200}\$?"),
}
"""By format, a pattern of what pydantic's types accept of it: never more than they do."""

STANDARD_NAMES = {f"uuid{version}": "uuid" for version in range(1, 9)}
"""Pydantic's names for parts of formats that have another name in JSON Schema."""

BASE64_NAMES = ("base64", "base64url")
"""Pydantic's names for the encodings of RFC 4648."""
