"""Host names (RFC 1123, section 2.1) and mail addresses (RFC 5321, section 4.1.2)."""

from __future__ import annotations

from guided.automata.regular import Both, Regular
from guided.frontends.json_schema.formats_uri import IPV4, IPV6
from guided.frontends.regex import parse_regex

__all__ = ["IP_LITERAL", "ascii_label", "domain", "email", "hostname", "local_part"]


def ascii_label(most: int) -> str:
    """A label of letters, digits and inner hyphens, at most so many characters."""
    return rf"[A-Za-z0-9](?:[A-Za-z0-9\-]{{0,{most - 2}}}[A-Za-z0-9])?"


def domain(most: int) -> str:
    """A name of at most ``most`` characters, made of labels of at most 63.

    To count both at once takes many thousand states, so a name has few long labels or more short
    ones: those of up to 63 characters, of up to 30, or of up to 14, as many as fit in any case.
    """
    options = (
        rf"{label}(?:\.{label}){{0,{(most + 1) // (longest + 1) - 1}}}"
        for longest in (63, 30, 14)
        if (label := ascii_label(longest))
    )
    return f"(?:{'|'.join(options)})"


def hostname() -> Regular:
    """Names without A-labels: whether those decode to what they may is not regular."""
    encoded = r"(?:^|\.)[Xx][Nn]--"
    return Both(parse_regex(f"^{domain(253)}$"), parse_regex(encoded), negative=True)


IP_LITERAL = rf"\[(?:{IPV4}|[Ii][Pp][Vv]6:{IPV6})\]"


def local_part(more: str) -> str:
    """What stands before the "@", with ``more`` characters: atoms and dots, or quoted."""
    atom = rf"[A-Za-z0-9!#$%&'*+\-/=?^_`{{|}}~{more}]+"
    return rf'(?:{atom}(?:\.{atom})*|"(?:[ !#-\[\]-~{more}]|\\[ -~])*")'


def email() -> Regular:
    """Addresses whose local part has at most 64 octets and the whole at most 254 (4.5.3.1)."""
    address = rf"^{local_part('')}@(?:{domain(189)}|{IP_LITERAL})$"
    short = r'^(?:[^"@]{1,64}@|"(?:[^"\\]|\\.){0,31}"@)'
    return Both(parse_regex(address), parse_regex(short))
